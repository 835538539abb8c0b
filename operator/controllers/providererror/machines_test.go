package providererror

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// walk is a reporter beside one machine.
type walk struct {
	t      *testing.T
	client client.WithWatch
	fails  bool // writes of statuses
	*Reporter
}

func inWalk(t *testing.T, test func(t *testing.T, w *walk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &walk{t: t}
		b := testworld.NewClientBuilder(t).WithObjects(&infrav1.NstanceMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: id, UID: "u"}, Spec: infrav1.NstanceMachineSpec{InstanceID: id},
		})
		for field, index := range nodes.MachineIndexes() {
			b.WithIndex(&infrav1.NstanceMachine{}, field, index)
		}
		w.client = b.Build()
		through := interceptor.NewClient(w.client, interceptor.Funcs{
			SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
				if w.fails {
					return errors.New("the API server is away")
				}
				return c.SubResource(sub).Apply(ctx, o, opts...)
			},
		})
		w.Reporter = New(Options{Client: through, Namespace: testworld.Namespace, Cluster: "c", Events: &testworld.Events{}, CoolOff: &inventory.CoolOffs{}})
		test(t, w)
	})
}

func (w *walk) reconcile() error {
	_, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: id}})
	return err
}

func (w *walk) machine() *infrav1.NstanceMachine {
	w.t.Helper()
	m := &infrav1.NstanceMachine{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: testworld.Namespace, Name: id}, m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// becomes sets what the machine's own controller says of it.
func (w *walk) becomes(ready metav1.ConditionStatus) {
	w.t.Helper()
	m := w.machine()
	m.Status.Initialization.Provisioned = ready == metav1.ConditionTrue
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: infrav1.ConditionReady, Status: ready, Reason: "Test", LastTransitionTime: metav1.Now(),
	})
	if err := w.client.Status().Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) expect(lastError string, noRoom bool) {
	w.t.Helper()
	if err := w.reconcile(); err != nil {
		w.t.Fatal(err)
	}
	s := w.machine().Status
	if s.LastError != lastError || (meta.FindStatusCondition(s.Conditions, infrav1.ConditionCapacityAvailable) != nil) != noRoom {
		w.t.Errorf("lastError %q, conditions %+v; want %q, %t", s.LastError, s.Conditions, lastError, noRoom)
	}
}

func event(class, text string) *nstancev1.ErrorEvent {
	group, instance := "web", id
	return &nstancev1.ErrorEvent{Group: &group, InstanceId: &instance, Class: class, Error: text}
}

// A machine that runs after its provider had no room at first has no error any more.
func TestTheErrorOfAMachineEndsWhenItRuns(t *testing.T) {
	inWalk(t, func(t *testing.T, w *walk) {
		w.becomes(metav1.ConditionFalse)
		w.Report("a", event("capacity", "no room"))
		w.expect("InsufficientCapacity: shard a: no room", true)
		time.Sleep(2 * time.Minute)
		w.expect("InsufficientCapacity: shard a: no room", true)
		w.becomes(metav1.ConditionTrue)
		w.expect("", false)
	})
}

// What goes wrong with a machine that runs all the same is shown for a while.
func TestAnErrorOfARunningMachineIsShownForAWhile(t *testing.T) {
	inWalk(t, func(t *testing.T, w *walk) {
		w.becomes(metav1.ConditionTrue)
		time.Sleep(time.Hour)
		w.Report("a", event("lb", "not registered"))
		w.expect("LoadBalancerError: shard a: not registered", false)
		time.Sleep(shownFor - time.Second)
		w.expect("LoadBalancerError: shard a: not registered", false)
		time.Sleep(time.Minute)
		w.expect("", false)
	})
}

// The process that heard of the error is gone; the machine runs.
func TestTheErrorOfAnEarlierProcessEndsToo(t *testing.T) {
	inWalk(t, func(t *testing.T, w *walk) {
		w.Report("a", event("capacity", "no room"))
		w.expect("InsufficientCapacity: shard a: no room", true)
		w.machines = machines{}
		w.expect("InsufficientCapacity: shard a: no room", true)
		time.Sleep(time.Minute)
		w.becomes(metav1.ConditionTrue)
		w.expect("", false)
	})
}

// A status that cannot be written now is written later.
func TestAnErrorIsNotLostWithAWriteThatFails(t *testing.T) {
	inWalk(t, func(t *testing.T, w *walk) {
		w.fails = true
		w.Report("a", event("capacity", "no room"))
		if err := w.reconcile(); err == nil {
			t.Error("the failure is no error, so nobody tries again")
		}
		w.fails = false
		w.expect("InsufficientCapacity: shard a: no room", true)
	})
}
