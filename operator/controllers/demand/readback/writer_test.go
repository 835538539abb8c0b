package readback_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/controllers/demand/readback"
	decide "nstance.dev/operator/demand/readback"
	"nstance.dev/operator/testworld"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	creating   = demandpb.MachineState_MACHINE_STATE_CREATING
	idle       = demandpb.MachineState_MACHINE_STATE_IDLE
	configured = demandpb.MachineState_MACHINE_STATE_CONFIGURED
	draining   = demandpb.MachineState_MACHINE_STATE_DRAINING
	failed     = demandpb.MachineState_MACHINE_STATE_FAILED
	deleted    = demandpb.MachineState_MACHINE_STATE_DELETED
)

// world is a writer at an API server.
type world struct {
	t      *testing.T
	api    client.WithWatch
	writer *readback.Writer
	log    testworld.Log

	mu     sync.Mutex
	calls  []string
	fail   error         // of each call
	block  chan struct{} // that the next call waits for; nil: it does not
	shards []string
}

func run(t *testing.T, before []client.Object, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, shards: []string{"a", "b"}}
		w.api = testworld.NewClientBuilder(t).WithStatusSubresource(&demandv1.UpcomingNode{}, &demandv1.AvailableCapacity{}).WithObjects(before...).Build()
		c := interceptor.NewClient(w.api, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return w.call("create "+o.GetName(), func() error { return c.Create(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return w.call("patch "+o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return w.call("patch status of "+o.GetName(), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return w.call("delete "+o.GetName(), func() error { return c.Delete(ctx, o, opts...) })
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				return w.call("list", func() error { return c.List(ctx, l, opts...) })
			},
		})
		w.writer = readback.New(readback.Options{Client: c, Shards: func() []string { return w.shards }, Log: w.log.Logger()})
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() {
			if err := w.writer.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
		})
		defer loop.Wait()
		defer stop()
		synctest.Wait()
		w.take()
		test(t, w)
	})
}

func (w *world) call(what string, do func() error) error {
	w.mu.Lock()
	w.calls = append(w.calls, what)
	err, block := w.fail, w.block
	w.block = nil
	w.mu.Unlock()
	if block != nil {
		<-block
	}
	if err != nil {
		return err
	}
	return do()
}

func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

func (w *world) failWith(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

// expect checks the calls since the last time.
func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.take(); !slices.Equal(got, want) {
		w.t.Errorf("%s: calls %q, want %q", what, got, want)
	}
}

func (w *world) state(shard, id string, state demandpb.MachineState, change ...func(*demandpb.NodeStateUpdate)) error {
	u := &demandpb.NodeStateUpdate{MachineId: id, State: state, InstanceType: "small", Zone: "za"}
	for _, c := range change {
		c(u)
	}
	return w.writer.NodeState(w.t.Context(), shard, u)
}

func (w *world) phase(name string) demandv1.UpcomingNodePhase {
	w.t.Helper()
	var o demandv1.UpcomingNode
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, &o); err != nil {
		return demandv1.UpcomingNodePhase(string(apierrors.ReasonForError(err)))
	}
	return o.Status.Phase
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// A machine is shown from its beginning to its end, and what is equal is not written again.
func TestUpcomingNode(t *testing.T) {
	run(t, nil, func(_ *testing.T, w *world) {
		w.ok(w.state("a", "m1", creating))
		w.expect("creating", "create m1", "patch status of m1")
		w.ok(w.state("a", "m1", creating))
		w.expect("the same again")
		w.ok(w.state("a", "m1", configured, func(u *demandpb.NodeStateUpdate) { u.ProviderId, u.Labels = "fake:///m1", map[string]string{"k": "v"} }))
		w.expect("configured", "patch m1", "patch status of m1")
		if p := w.phase("m1"); p != demandv1.UpcomingNodeReady {
			w.t.Errorf("phase %s", p)
		}
		w.ok(w.state("b", "m1", creating))
		w.expect("another shard names the machine")
		if !strings.Contains(w.log.Take(), "belongs to machine m1 of shard a") {
			w.t.Error("that another shard names the machine is not said")
		}
		w.ok(w.state("a", "m1", draining))
		w.expect("draining", "patch m1", "patch status of m1")
		w.ok(w.state("a", "m1", idle))
		w.expect("idle after a drain", "delete m1")
		w.ok(w.state("a", "m1", deleted))
		w.expect("deleted, and nothing is there")
	})
}

// A call that fails is the caller's to repeat, and what others have done meanwhile is seen then.
func TestFailedCalls(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.failWith(errors.New("the API server is away"))
		if w.state("a", "m1", creating) == nil {
			t.Error("a failed call is not reported")
		}
		w.failWith(nil)
		w.ok(w.state("a", "m1", creating))
		w.take()
		w.ok(w.api.Delete(t.Context(), &demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}))
		if err := w.state("a", "m1", configured); !apierrors.IsNotFound(err) {
			t.Errorf("written to an object that is gone: %v", err)
		}
		w.ok(w.state("a", "m1", configured))
		w.expect("somebody deleted it", "patch status of m1", "create m1", "patch status of m1")
		w.ok(w.api.Create(t.Context(), &demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "m2"}, Spec: demandv1.UpcomingNodeSpec{MachineID: "m2", Shard: "a"}}))
		if err := w.state("a", "m2", creating); !apierrors.IsAlreadyExists(err) {
			t.Errorf("made one that exists: %v", err)
		}
		w.ok(w.state("a", "m2", creating))
		w.expect("it exists", "create m2", "patch m2", "patch status of m2")
	})
}

// What others write to the status is known, and stays.
func TestStatusOfOthers(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.ok(w.state("a", "m1", configured))
		var o demandv1.UpcomingNode
		w.ok(w.api.Get(t.Context(), client.ObjectKey{Name: "m1"}, &o))
		before := o.DeepCopy()
		o.Status.Phase, o.Status.NodeRef = demandv1.UpcomingNodeFailed, &demandv1.NodeReference{Name: "n1", UID: "u1"}
		w.ok(w.api.Status().Patch(t.Context(), &o, client.MergeFrom(before)))
		w.writer.UpcomingNode(&o, false)
		w.writer.UpcomingNode(before, false) // an older state comes late
		w.take()
		w.ok(w.state("a", "m1", idle))
		w.expect("idle after a drain that ran out of time", "delete m1")
	})
}

// A snapshot removes what the shard no longer has, and nothing of other shards, though both have
// announced a machine of one profile.
func TestSnapshot(t *testing.T) {
	run(t, []client.Object{upcoming("m0", "a"), upcoming("m9", "b")}, func(_ *testing.T, w *world) {
		w.ok(w.state("a", "m1", configured))
		w.ok(w.state("b", "m2", configured))
		w.take()
		w.ok(w.writer.SnapshotComplete(w.t.Context(), "a", spoken("m1")))
		w.expect("snapshot of a", "delete m0")
		w.failWith(errors.New("away"))
		if w.writer.SnapshotComplete(w.t.Context(), "b", spoken()) == nil {
			w.t.Error("a failed call is not reported")
		}
		w.failWith(nil)
		w.take()
		w.ok(w.writer.SnapshotComplete(w.t.Context(), "b", spoken()))
		w.expect("snapshot of b", "delete m2", "delete m9")
	})
}

func spoken(machines ...string) func() []string { return func() []string { return machines } }

// A machine that the shard gets while what it no longer has is looked for keeps its UpcomingNode.
func TestSnapshotWhileAMachineComes(t *testing.T) {
	run(t, []client.Object{upcoming("m0", "a")}, func(_ *testing.T, w *world) {
		w.ok(w.writer.SnapshotComplete(w.t.Context(), "a", func() []string {
			w.ok(w.state("a", "new", configured))
			w.take()
			return nil
		}))
		w.expect("snapshot of a", "delete m0")
	})
}

func upcoming(name, shard string) *demandv1.UpcomingNode {
	return &demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demandv1.UpcomingNodeSpec{MachineID: name, Shard: shard}}
}

// A machine that failed is shown for an hour.
func TestFailedMachinesExpire(t *testing.T) {
	run(t, nil, func(_ *testing.T, w *world) {
		w.ok(w.state("a", "m1", failed, func(u *demandpb.NodeStateUpdate) { u.LastError = "no quota" }))
		w.take()
		time.Sleep(decide.FailedFor - time.Second)
		w.expect("not over")
		time.Sleep(2 * time.Second)
		w.expect("over", "delete m1")
	})
}

func (w *world) capacity(shard, fingerprint string, count int64, change ...func(*demandpb.AvailableCapacityUpdate)) {
	w.t.Helper()
	u := offer(fingerprint, count)
	for _, c := range change {
		c(u)
	}
	w.ok(w.writer.Capacity(w.t.Context(), shard, u))
}

func offer(fingerprint string, count int64) *demandpb.AvailableCapacityUpdate {
	return &demandpb.AvailableCapacityUpdate{Fingerprint: fingerprint, AvailableCount: count, Confidence: demandpb.Confidence_CONFIDENCE_MEDIUM, CostMicroUsdPerHour: 100_000}
}

func short(u *demandpb.AvailableCapacityUpdate) {
	u.Shortfall, u.ShortfallReason = []*demandpb.ResourceAmount{{Name: "cpu", Amount: 4000}}, "NoOffer"
}

// What several shards say of one profile is one object, their sum.
func TestAvailableCapacity(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		name := decide.CapacityName("f")
		w.capacity("a", "f", 2, short)
		w.expect("the first shard", "create "+name, "patch status of "+name)
		w.capacity("a", "f", 2, short)
		w.expect("the same again")
		w.capacity("b", "f", 3, short)
		w.expect("the second shard", "patch "+name, "patch status of "+name)
		var o demandv1.AvailableCapacity
		w.ok(w.api.Get(t.Context(), client.ObjectKey{Name: name}, &o))
		if o.Spec.AvailableCount != 5 || len(o.Status.Shards) != 2 || o.Status.Shortfall == nil {
			t.Errorf("object %+v", o)
		}
		if q := o.Status.Shortfall.Deficit[corev1.ResourceCPU]; q.MilliValue() != 8000 {
			t.Errorf("deficit %v", q)
		}
		w.shards = []string{"a"}
		w.writer.ShardsChanged()
		w.expect("a shard is gone", "patch "+name, "patch status of "+name)
		w.capacity("a", "f", 0, func(u *demandpb.AvailableCapacityUpdate) { u.Withdrawn = true })
		w.expect("withdrawn", "delete "+name)
	})
}

// Two shards that speak of one profile at the same time leave what both have said last, and one
// that waits for the other ends with its session.
func TestOneProfileAtOnce(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.capacity("a", "f", 1)
		block := make(chan struct{})
		w.block = block
		var both sync.WaitGroup
		both.Go(func() { w.capacity("a", "f", 2) })
		synctest.Wait()
		both.Go(func() { w.capacity("b", "f", 4) })
		synctest.Wait()
		ended, end := context.WithCancel(t.Context())
		end()
		if err := w.writer.Capacity(ended, "b", offer("f", 4)); !errors.Is(err, context.Canceled) {
			t.Errorf("one whose session has ended: %v", err)
		}
		w.capacity("a", "another", 1)
		close(block)
		both.Wait()
		var o demandv1.AvailableCapacity
		w.ok(w.api.Get(t.Context(), client.ObjectKey{Name: decide.CapacityName("f")}, &o))
		if o.Spec.AvailableCount != 6 || len(o.Status.Shards) != 2 {
			t.Errorf("%d machines of %d shards, want 6 of 2", o.Spec.AvailableCount, len(o.Status.Shards))
		}
	})
}

// What no roll-up asks for three times in a row goes.
func TestUnaskedProfiles(t *testing.T) {
	run(t, nil, func(_ *testing.T, w *world) {
		w.capacity("a", "f", 1)
		w.capacity("a", "g", 1)
		w.take()
		for i, asked := range []map[string]bool{{"g": true}, {"g": true}, {"f": true, "g": true}, {"g": true}, {"g": true}} {
			w.writer.Asked(asked)
			w.expect(fmt.Sprint("round ", i))
		}
		w.writer.Asked(map[string]bool{"g": true})
		w.expect("the third in a row", "delete "+decide.CapacityName("f"))
		w.capacity("a", "f", 1)
		w.expect("asked for again", "create "+decide.CapacityName("f"), "patch status of "+decide.CapacityName("f"))
	})
}

// Nothing is written before the objects that exist were read, however long that takes.
func TestNothingBeforeTheObjectsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := true
		var mu sync.Mutex
		api := testworld.NewClientBuilder(t).WithStatusSubresource(&demandv1.UpcomingNode{}).WithObjects(upcoming("m1", "a")).Build()
		c := interceptor.NewClient(api, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return errors.New("away")
			}
			return c.List(ctx, l, opts...)
		}})
		var log testworld.Log
		writer := readback.New(readback.Options{Client: c, Shards: func() []string { return nil }, Log: log.Logger()})
		ctx, stop := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		defer loops.Wait()
		defer stop()
		loops.Go(func() { _ = writer.Run(ctx) })
		done := make(chan error, 1)
		loops.Go(func() {
			done <- writer.NodeState(ctx, "a", &demandpb.NodeStateUpdate{MachineId: "m1", State: configured})
		})
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			t.Errorf("written before the objects were read: %v", err)
		default:
		}
		mu.Lock()
		away = false
		mu.Unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
