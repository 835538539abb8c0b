package ondemand_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machine/placement"
	"nstance.dev/operator/controllers/ondemand"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server with Pods. Nothing here makes instances: a test says when Nodes
// join, as the other controllers do.
type world struct {
	t        *testing.T
	client   client.WithWatch
	faults   *testworld.Faults
	events   *testworld.Events
	ondemand *ondemand.Reconciler
	took     []time.Duration // until Pods had their Nodes
}

func inWorld(t *testing.T, walk func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, faults: &testworld.Faults{}, events: &testworld.Events{}}
		b := testworld.NewClientBuilder(t)
		for field, index := range ondemand.PodIndexes() {
			b.WithIndex(&corev1.Pod{}, field, index)
		}
		b.WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			pod, _ := o.(*corev1.Pod)
			return []string{pod.Spec.NodeName}
		})
		w.client = b.Build()
		through := w.faults.Through(w.client)
		w.ondemand = ondemand.New(ondemand.Options{
			Client: through, Namespace: testworld.Namespace, Cluster: "c", Workload: through, Live: w.client, Events: w.events,
			Shards: func(group string) []placement.Shard {
				return []placement.Shard{{Name: "a", Reachable: true, Known: true, Group: &nstancev1.GroupStatus{Key: group, Kind: "wrk"}}}
			},
			Rules: ondemand.Rules{ProvisionTimeout: 15 * time.Minute, Linger: time.Minute},
			Ready: func(took time.Duration) { w.took = append(w.took, took) },
		})
		walk(t, w)
	})
}

// add makes a Pod as the webhook leaves it.
func (w *world) add(namespace, name string, uid types.UID) {
	w.t.Helper()
	claim := "claim-" + string(uid)
	err := w.client.Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: uid, CreationTimestamp: metav1.Now(),
			Annotations: map[string]string{infrav1.OnDemandGroup: "web", infrav1.OnDemandClaim: claim},
		},
		Spec: corev1.PodSpec{
			NodeSelector:    map[string]string{infrav1.OnDemandClaim: claim},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: infrav1.OnDemandGate}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// work reconciles a Pod until it comes to rest.
func (w *world) work(uid types.UID) time.Duration {
	w.t.Helper()
	for range 20 {
		result, err := w.ondemand.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: string(uid)}})
		if err == nil && (result.RequeueAfter == 0 || result.RequeueAfter > time.Second) {
			return result.RequeueAfter
		}
	}
	w.t.Fatal("it never comes to rest")
	return 0
}

func (w *world) machines() []clusterv1.Machine {
	w.t.Helper()
	var machines clusterv1.MachineList
	var infras infrav1.NstanceMachineList
	for _, list := range []client.ObjectList{&machines, &infras} {
		if err := w.client.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
	}
	if len(machines.Items) != len(infras.Items) {
		w.t.Fatalf("%d Machines, %d NstanceMachines", len(machines.Items), len(infras.Items))
	}
	return machines.Items
}

func (w *world) pod(namespace, name string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// join makes the Node of a Pod's machine, ready and for that Pod alone.
func (w *world) join(pod *corev1.Pod) {
	w.t.Helper()
	ctx := w.t.Context()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + string(pod.UID), UID: pod.UID, Labels: map[string]string{infrav1.OnDemandClaim: pod.Annotations[infrav1.OnDemandClaim]}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if err := w.client.Create(ctx, node); err != nil {
		w.t.Fatal(err)
	}
	var infras infrav1.NstanceMachineList
	if err := w.client.List(ctx, &infras, client.MatchingLabels{infrav1.LabelOnDemandPodUID: string(pod.UID)}); err != nil || len(infras.Items) != 1 {
		w.t.Fatalf("%v, %d machines", err, len(infras.Items))
	}
	m := &infras.Items[0]
	m.Status.NodeRef = &infrav1.NodeReference{Name: node.Name, UID: node.UID}
	if err := w.client.Status().Update(ctx, m); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes the Pod, and with its Machine what Cluster API would.
func (w *world) remove(o client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func TestO12_APodGetsAMachineAndIsLetGoWhenItsNodeIsThere(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("apps", "p", "u1")
		w.work("u1")
		pod, all := w.pod("apps", "p"), w.machines()
		if len(all) != 1 || *all[0].Spec.Bootstrap.DataSecretName != "" || all[0].Labels[infrav1.OnDemandClaim] != "claim-u1" {
			t.Fatalf("%+v", all)
		}
		if pod.Annotations[infrav1.OnDemandState] != "Provisioning" || len(pod.Spec.SchedulingGates) != 1 {
			t.Fatalf("%+v", pod)
		}
		time.Sleep(40 * time.Second)
		w.join(pod)
		w.work("u1")
		w.work("u1")
		if pod = w.pod("apps", "p"); pod.Annotations[infrav1.OnDemandState] != "Joined" || len(pod.Spec.SchedulingGates) != 0 {
			t.Errorf("%+v", pod)
		}
		if fmt.Sprint(w.took) != "[40s]" {
			t.Errorf("it took %v", w.took)
		}
	})
}

func TestO12_PodsOfTheSameNameAreDifferentPods(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("apps", "web-0", "u1")
		w.add("more", "web-0", "u2")
		w.work("u1")
		w.work("u2")
		if n := len(w.machines()); n != 2 {
			t.Fatalf("%d machines for two pods", n)
		}
		w.remove(w.pod("apps", "web-0"))
		w.add("apps", "web-0", "u3")
		w.work("u3")
		w.work("u1") // its name is there again, and it is not
		time.Sleep(time.Minute + time.Second)
		w.work("u1")
		var names []string
		for _, m := range w.left() {
			names = append(names, m.Labels[infrav1.LabelOnDemandPodUID])
		}
		if fmt.Sprint(names) != "[u2 u3]" && fmt.Sprint(names) != "[u3 u2]" {
			t.Errorf("machines of %v", names)
		}
	})
}

// left returns the Machines alone: their NstanceMachines are Cluster API's to delete.
func (w *world) left() []clusterv1.Machine {
	w.t.Helper()
	var machines clusterv1.MachineList
	if err := w.client.List(w.t.Context(), &machines); err != nil {
		w.t.Fatal(err)
	}
	return machines.Items
}

func TestO12_AMachineEndsWithItsPodAlsoIfNobodySawIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("apps", "p", "u1")
		again := w.work("u1")
		if again <= 0 {
			t.Fatal("nobody looks again")
		}
		w.remove(w.pod("apps", "p")) // while the instance is being made, and without news
		w.work("u1")
		if len(w.left()) != 1 {
			t.Fatal("it does not linger")
		}
		time.Sleep(time.Minute + time.Second)
		w.work("u1")
		if n := len(w.left()); n != 0 {
			t.Errorf("%d machines are left", n)
		}
	})
}

// Whatever write fails, before or after it took effect: one Machine, and the Pod is let go.
func TestO12_ACrashAtAnyWriteMakesNoSecondMachine(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("changed"))
	for n := 1; n <= 6; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, after %t", n, after), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.add("apps", "p", "u1")
					w.faults.FailWrite(n, after, conflict)
					w.work("u1")
					w.join(w.pod("apps", "p"))
					w.work("u1")
					pod := w.pod("apps", "p")
					if len(w.machines()) != 1 || len(pod.Spec.SchedulingGates) != 0 || pod.Annotations[infrav1.OnDemandState] != "Joined" {
						t.Errorf("%d machines; %+v", len(w.machines()), pod)
					}
				})
			})
		}
	}
}

// Pods that came before the taint fill the Node, and stay. The scheduler finds no room for the Pod
// that the Node was made for, so another machine is tried, and in the end that is said.
func TestO12_APodWithoutRoomOnItsNodeGetsAnotherMachine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("apps", "p", "u1")
		for n := range 3 {
			w.work("u1")
			if all := w.left(); len(all) != 1 {
				t.Fatalf("%d machines at try %d", len(all), n)
			}
			w.join(w.pod("apps", "p"))
			stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "stranger"}, Spec: corev1.PodSpec{NodeName: "node-u1"}}
			if err := w.client.Create(t.Context(), stranger); err != nil {
				t.Fatal(err)
			}
			w.work("u1")
			pod := w.pod("apps", "p")
			if len(pod.Spec.SchedulingGates) != 0 {
				t.Fatal("the gate is still there")
			}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			if err := w.client.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if again := w.work("u1"); again <= 0 || again > 15*time.Minute {
				t.Fatalf("looked at again after %v", again)
			}
			w.after(15 * time.Minute)
			w.work("u1")
			if all := w.left(); len(all) != 0 {
				t.Fatalf("try %d goes on", n)
			}
			w.remove(stranger)
			w.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-u1"}})
			var infras infrav1.NstanceMachineList
			if err := w.client.List(t.Context(), &infras); err != nil || len(infras.Items) != 1 {
				t.Fatalf("%v, %d NstanceMachines", err, len(infras.Items))
			}
			w.remove(&infras.Items[0])
		}
		w.work("u1")
		if pod := w.pod("apps", "p"); pod.Annotations[infrav1.OnDemandState] != "Failed" || len(w.left()) != 0 {
			t.Errorf("%+v, %d machines", pod.Annotations, len(w.left()))
		}
	})
}

// A Pod that was bound a moment ago keeps its machine, whatever the cache says.
func TestO12_APodThatWasBoundKeepsItsMachine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("apps", "p", "u1")
		w.work("u1")
		w.join(w.pod("apps", "p"))
		w.work("u1")
		pod := w.pod("apps", "p")
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		if err := w.client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		behind := w.pod("apps", "p")
		w.ondemand.Workload = interceptor.NewClient(w.client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				pods, ok := list.(*corev1.PodList)
				if !ok {
					return c.List(ctx, list, o...)
				}
				pods.Items = []corev1.Pod{*behind}
				return nil
			},
		})
		stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "stranger", UID: "s"}, Spec: corev1.PodSpec{NodeName: "node-u1"}}
		if err := w.client.Create(t.Context(), stranger); err != nil {
			t.Fatal(err)
		}
		pod = w.pod("apps", "p")
		pod.Spec.NodeName = "node-u1"
		if err := w.client.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		w.after(16 * time.Minute)
		w.work("u1")
		if n := len(w.left()); n != 1 {
			t.Errorf("%d machines, want the one that it runs on", n)
		}
	})
}
