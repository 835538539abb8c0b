package opsim

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld/apiserver"
	"nstance.dev/protos/identity"
)

// kubelets are the Nodes that machines become, the Pods on them, and who puts them there:
// one workload of a few Pods with a disruption budget, which is scheduled wherever there
// is a Node that takes Pods, and those Pods that ask for a machine of their own (jobs.go).
type kubelets struct {
	g *guest
	c client.Client

	mu     sync.Mutex
	lost   map[identity.ID]bool
	budget until // that spares nothing
	clings until // Pods that are to end do not
}

const (
	kubernetes   = "kubernetes" // who calls
	workloadSize = 4
	perNode      = 2 // Pods that a Node has room for
	// lingers keeps a Pod that is being deleted until its kubelet has ended it.
	lingers = "sim/kubelet"
	// gracePeriod is how long that takes.
	gracePeriod = 5 * time.Second
	// noticed is how long it takes until a Node that is silent counts as lost.
	noticed = 40 * time.Second
)

func newKubelets(g *guest) *kubelets {
	return &kubelets{g: g, c: g.api.Client(kubernetes), lost: map[identity.ID]bool{}}
}

// up registers the Node of a machine.
func (k *kubelets) up(id identity.ID) {
	k.g.Later(func() {
		ctx := k.g.Context()
		for n := 0; wait(ctx, k.g.Between(time.Second, 4*time.Second, "kubelet", id, n)) == nil && !k.isDown(id); n++ {
			in, known := k.g.Instance(id)
			if !known {
				return
			}
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Name: "node-" + id.String(), UID: types.UID("node-" + id.String()),
					Labels: map[string]string{infrav1.LabelInstanceID: id.String(), infrav1.LabelShard: k.g.Shard()},
				},
				Spec:   corev1.NodeSpec{ProviderID: in.URI()},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			}
			if in.OnDemand {
				k.introduce(node, id)
			}
			if _, there := apiserver.Get[*corev1.Node](k.g.api, "", node.Name); there || k.c.Create(ctx, node) == nil {
				return
			}
		}
	})
}

// down ends the kubelet of a machine. Its Node stays.
func (k *kubelets) down(id identity.ID) {
	k.mu.Lock()
	k.lost[id] = true
	k.mu.Unlock()
	k.g.Later(func() {
		ctx := k.g.Context()
		for n := 0; wait(ctx, noticed+k.g.Between(0, 5*time.Second, "lost", id, n)) == nil; n++ {
			node, there := apiserver.Get[*corev1.Node](k.g.api, "", "node-"+id.String())
			if !there || !works(node) {
				return
			}
			changeStatus(ctx, k.c, node, func(node *corev1.Node) {
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			})
		}
	})
}

func (k *kubelets) isDown(id identity.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost[id]
}

// tight makes the budget spare no Pod for a while, stubborn lets no Pod end.
func (k *kubelets) tight(d time.Duration) {
	k.g.Logf("no Pod may be spared for %v", d)
	k.budget.set(d)
}

func (k *kubelets) stubborn(d time.Duration) {
	k.g.Logf("no Pod ends for %v", d)
	k.clings.set(d)
}

func (k *kubelets) heal() {
	k.budget.set(0)
	k.clings.set(0)
}

// run keeps the Pods going.
func (k *kubelets) run() {
	ctx, seen := k.g.Context(), -1
	for n := 0; wait(ctx, k.g.Between(700*time.Millisecond, 1300*time.Millisecond, "kubelets", n)) == nil; n++ {
		now := k.g.api.Changes()
		if now == seen && n%10 != 0 {
			continue
		}
		seen = now
		k.keepBudget(ctx)
		k.end(ctx)
		k.schedule(ctx)
		k.start(ctx)
		k.fill(ctx)
	}
}

// keepBudget writes the budget of the workload.
func (k *kubelets) keepBudget(ctx context.Context) {
	least := intstr.FromInt32(workloadSize - 1)
	if k.budget.on() {
		least = intstr.FromInt32(workloadSize)
	}
	budget, there := apiserver.Get[*policyv1.PodDisruptionBudget](k.g.api, "default", "app")
	if there && *budget.Spec.MinAvailable == least {
		return
	}
	if there {
		change(ctx, k.c, budget, func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = &least })
		return
	}
	_ = k.c.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app"}}},
	})
}

// end lets Pods that are being deleted go: when they had their time, or their Node is gone.
func (k *kubelets) end(ctx context.Context) {
	for _, pod := range apiserver.All[*corev1.Pod](k.g.api) {
		node, there := apiserver.Get[*corev1.Node](k.g.api, "", pod.Spec.NodeName)
		switch {
		case pod.Spec.NodeName != "" && !there && pod.DeletionTimestamp.IsZero():
			_ = k.c.Delete(ctx, pod.DeepCopy())
			continue
		case pod.DeletionTimestamp.IsZero(), there && !works(node), there && k.clings.on():
			continue
		case there && time.Since(pod.DeletionTimestamp.Time) < gracePeriod:
			continue
		}
		change(ctx, k.c, pod, func(pod *corev1.Pod) { controllerutil.RemoveFinalizer(pod, lingers) })
	}
}

// schedule binds Pods that wait to the Nodes with the fewest.
func (k *kubelets) schedule(ctx context.Context) {
	load := map[string]int{}
	pods := apiserver.All[*corev1.Pod](k.g.api)
	for _, pod := range pods {
		load[pod.Spec.NodeName]++
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || !pod.DeletionTimestamp.IsZero() || gated(pod) {
			continue
		}
		best := ""
		for _, node := range apiserver.All[*corev1.Node](k.g.api) {
			if fits(pod, node) && load[node.Name] < perNode && (best == "" || load[node.Name] < load[best]) {
				best = node.Name
			}
		}
		if best == "" {
			k.refuse(ctx, pod)
			continue
		}
		load[best]++
		change(ctx, k.c, pod, func(pod *corev1.Pod) { pod.Spec.NodeName = best })
	}
}

// refuse marks a Pod as unschedulable, as the scheduler does. Pods of the workload are left
// out: the operator does not look at their conditions.
func (k *kubelets) refuse(ctx context.Context, pod *corev1.Pod) {
	if pod.Namespace != jobs || len(pod.Status.Conditions) > 0 {
		return
	}
	changeStatus(ctx, k.c, pod, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	})
}

// start lets those Pods run that are bound. What meets a change by somebody else is tried
// again in the next pass.
func (k *kubelets) start(ctx context.Context) {
	for _, pod := range apiserver.All[*corev1.Pod](k.g.api) {
		if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp.IsZero() {
			changeStatus(ctx, k.c, pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
		}
	}
}

// fill makes Pods of the workload where some are missing.
func (k *kubelets) fill(ctx context.Context) {
	have := 0
	for _, pod := range apiserver.All[*corev1.Pod](k.g.api) {
		if pod.Labels["app"] == "app" && pod.DeletionTimestamp.IsZero() {
			have++
		}
	}
	for ; have < workloadSize; have++ {
		name := fmt.Sprintf("app-%d", k.g.Nth("pod"))
		_ = k.c.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: types.UID("pod-" + name), Labels: map[string]string{"app": "app"}, Finalizers: []string{lingers},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "app", Controller: new(true)}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		})
	}
}
