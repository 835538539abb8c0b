package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is an API server, machines that offer packetCapture, and a reconciler that looks at everything until
// nothing changes.
type stage struct {
	*testing.T
	api      client.Client
	r        *Reconciler
	events   *events.FakeRecorder
	finished []string
}

func newStage(t *testing.T, machines ...string) *stage {
	s := &stage{T: t, events: events.NewFakeRecorder(1000)}
	s.api = testworld.NewClientBuilder(t).
		WithIndex(&hostsv1.MachineOperation{}, IndexMachine, OfMachine).WithIndex(&hostsv1.MachineOperation{}, IndexParent, OfParent).Build()
	for _, name := range machines {
		s.machine(name)
	}
	s.restart()
	return s
}

// machine makes a machine.
func (s *stage) machine(name string) {
	s.Helper()
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": "1"}}}
	m.Spec.Provisioner = hostsv1.ProvisionerManual
	s.create(m)
	m.Status.Executors = []hostsv1.Executor{{Name: "tracer", Operations: []string{"packetCapture"}}}
	s.must(s.api.Status().Update(s.Context(), m))
}

// restart has another process of the operator begin.
func (s *stage) restart() {
	s.r = New(Options{
		Client: s.api, Live: s.live(), Events: s.events, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Finished: func(op *hostsv1.MachineOperation) { s.finished = append(s.finished, op.Name) },
	})
}

// live is the API server itself.
func (s *stage) live() client.Reader {
	if c, stale := s.api.(staleClient); stale {
		return c.Client
	}
	return s.api
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) create(o client.Object) { s.Helper(); s.must(s.api.Create(s.Context(), o)) }

// ask makes an operation.
func (s *stage) ask(name, machine string, change func(*hostsv1.MachineOperationSpec)) {
	s.Helper()
	op := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	op.Spec.OperationName = "packetCapture"
	if machine != "" {
		op.Spec.MachineRef = &hostsv1.MachineReference{Name: hostsv1.Label(machine)}
	}
	if change != nil {
		change(&op.Spec)
	}
	s.create(op)
}

func (s *stage) all() []hostsv1.MachineOperation {
	s.Helper()
	var list hostsv1.MachineOperationList
	s.must(s.api.List(s.Context(), &list))
	return list.Items
}

// settle reconciles everything until nothing changes any more.
func (s *stage) settle() {
	s.Helper()
	for range 50 {
		before := s.revisions()
		for _, op := range s.all() {
			s.look(op.Name)
		}
		if slices.Equal(before, s.revisions()) {
			return
		}
	}
	s.Fatal("it does not settle")
}

func (s *stage) look(name string) ctrl.Result {
	s.Helper()
	result, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	s.must(err)
	return result
}

func (s *stage) revisions() (all []string) {
	for _, op := range s.all() {
		all = append(all, op.Name+"@"+op.ResourceVersion)
	}
	return all
}

func (s *stage) get(name string) *hostsv1.MachineOperation {
	s.Helper()
	op := &hostsv1.MachineOperation{}
	s.must(s.api.Get(s.Context(), client.ObjectKey{Name: name}, op))
	return op
}

// claim has the executor take all that it may, and returns the names.
func (s *stage) claim() (names []string) {
	s.Helper()
	for _, op := range s.all() {
		status, err := operations.Claim(&op, "tracer", time.Now())
		if err != nil {
			continue
		}
		op.Status = status
		s.must(s.api.Status().Update(s.Context(), &op))
		names = append(names, op.Name)
	}
	return names
}

// end has the executor end an operation, as one that knows nothing of operations.Finish.
func (s *stage) end(name string, state hostsv1.OperationState) {
	s.Helper()
	op := s.get(name)
	op.Status.State = state
	s.must(s.api.Status().Update(s.Context(), op))
}

func (s *stage) says(name, want string) {
	s.Helper()
	op := s.get(name)
	if got := string(op.Status.State) + "/" + op.Status.Reason; got != want {
		s.Errorf("%s is %s (%s), want %s", name, got, op.Status.Message, want)
	}
}

// M77: an operation that ends and is deleted before anything is seen of its end keeps nobody waiting.
func TestM77_OneThatEndsAndIsDeletedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box")
		s.ask("a", "box", nil)
		time.Sleep(2 * time.Second)
		s.ask("b", "box", nil)
		s.settle()
		if got := s.claim(); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("claimed %v", got)
		}
		s.settle()
		s.end("a", hostsv1.OperationComplete)
		last := s.get("a")
		s.must(s.api.Delete(t.Context(), last))
		if got := s.r.around(t.Context(), last); len(got) != 1 || got[0].Name != "b" {
			t.Errorf("looked at are %v", got)
		}
		s.look("a")
		s.settle()
		s.says("b", "Pending/Offered")
	})
}

// M77: an executor that is dead, or does not want to, keeps its operations from their turns, and not those of others: what it
// has not claimed for ten minutes is taken from it, and is offered again after the others.
func TestM77_AnExecutorThatDoesNotClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box")
		m := &hostsv1.HostMachine{}
		s.must(s.api.Get(t.Context(), client.ObjectKey{Name: "box"}, m))
		m.Status.Executors = append(m.Status.Executors, hostsv1.Executor{Name: "dead", Operations: []string{"burnIn"}})
		s.must(s.api.Status().Update(t.Context(), m))
		s.ask("a", "box", func(spec *hostsv1.MachineOperationSpec) { spec.OperationName = "burnIn" })
		time.Sleep(2 * time.Second)
		s.settle()
		time.Sleep(time.Hour) // nobody else waits
		s.settle()
		s.says("a", "Pending/Offered")
		s.ask("b", "box", nil)
		s.settle()
		s.says("a", "Pending/NotClaimed")
		s.says("b", "Pending/Offered")
		if executor := s.get("a").Labels[hostsv1.LabelExecutor]; executor != "" {
			t.Errorf("a is still offered to %q", executor)
		}
		if got := s.claim(); !slices.Equal(got, []string{"b"}) {
			t.Fatalf("claimed %v", got)
		}
		s.settle()
		s.end("b", hostsv1.OperationComplete)
		s.settle()
		s.says("a", "Pending/Offered")
		s.ask("c", "box", nil)
		time.Sleep(operations.OfferedFor - time.Second)
		s.settle()
		s.says("a", "Pending/Offered")
		time.Sleep(2 * time.Second)
		s.settle()
		s.says("a", "Pending/NotClaimed")
		s.says("c", "Pending/Offered")
		time.Sleep(operations.OfferedFor + time.Second) // nobody claims that one either: they take turns
		s.settle()
		s.says("a", "Pending/Offered")
		s.says("c", "Pending/NotClaimed")
		time.Sleep(operations.OfferedFor + time.Second)
		s.settle()
		s.says("a", "Pending/NotClaimed")
		s.says("c", "Pending/Offered")
	})
}

// staleClient shows one object as it once was.
type staleClient struct {
	client.Client

	was *hostsv1.MachineOperation
}

func (c staleClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if op, ok := o.(*hostsv1.MachineOperation); ok && key.Name == c.was.Name {
		c.was.DeepCopyInto(op)
		return nil
	}
	return c.Client.Get(ctx, key, o, opts...)
}

// M73: an operator that starts on an old cache takes the machines of a selector once all the same: what is selected by now
// is neither added nor removed.
func TestM73_AnOperatorThatStartsOnAnOldCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box", "crate")
		s.ask("all", "", func(spec *hostsv1.MachineOperationSpec) {
			spec.MachineSelector = &hostsv1.MachineSelector{MatchLabels: map[string]hostsv1.LabelValue{"rack": "1"}}
		})
		old := s.get("all")
		s.settle()
		s.claim()
		var before []string
		for _, op := range s.all() {
			before = append(before, op.Name)
		}
		for name, rack := range map[string]string{"box": "2", "chest": "1"} {
			m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
			m.Spec.Provisioner = hostsv1.ProvisionerManual
			if err := s.api.Create(t.Context(), m); err != nil {
				s.must(s.api.Get(t.Context(), client.ObjectKey{Name: name}, m))
				m.Labels["rack"] = rack
				s.must(s.api.Update(t.Context(), m))
			}
		}
		cached := s.api
		s.api = staleClient{cached, old}
		s.restart()
		s.look("all")
		s.api = cached
		var after []string
		for _, op := range s.all() {
			after = append(after, op.Name)
		}
		if !slices.Equal(before, after) {
			t.Errorf("operations were %v, and are %v", before, after)
		}
		if c := s.get("all").Status.Children; c == nil || c.Total != 2 {
			t.Errorf("children %+v", c)
		}
	})
}

// S22: what is remembered of an operation on many machines goes with it, also where somebody deletes it under way.
func TestS22_AFanOutThatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box", "crate")
		s.ask("all", "", func(spec *hostsv1.MachineOperationSpec) {
			spec.MachineSelector = &hostsv1.MachineSelector{MatchLabels: map[string]hostsv1.LabelValue{"rack": "1"}}
		})
		s.settle()
		if len(s.r.counted) != 1 {
			t.Fatalf("counts of %v are remembered: the test shows nothing", s.r.counted)
		}
		s.must(s.api.Delete(t.Context(), s.get("all")))
		s.look("all")
		if len(s.r.counted) != 0 {
			t.Errorf("counts of %v are remembered", s.r.counted)
		}
	})
}

// M71, M72, M75, M77, M80: operations of one machine go to their executor one after the other, in the order in which they
// were asked for, and are deleted when their time is over, also by another process.
func TestM71M72M75M77M80_OneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box")
		ttl := int32(60)
		s.ask("b", "box", func(spec *hostsv1.MachineOperationSpec) { spec.TTLSecondsAfterFinished = &ttl })
		time.Sleep(2 * time.Second)
		s.ask("a", "box", nil)
		s.settle()
		s.says("b", "Pending/Offered")
		s.says("a", "Pending/Queued")
		if b := s.get("b"); b.Labels[hostsv1.LabelMachine] != "box" || b.Labels[hostsv1.LabelExecutor] != "tracer" || b.Status.MachineUID == "" {
			t.Errorf("labels %v, machine %q", b.Labels, b.Status.MachineUID)
		}
		if got := s.claim(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("claimed %v", got)
		}
		s.settle()
		s.says("b", "InProgress/Claimed")
		s.restart()
		s.settle()
		s.says("a", "Pending/Queued")
		s.end("b", hostsv1.OperationComplete)
		s.settle()
		if b := s.get("b"); b.Status.CompletionTime == nil || !meta.IsStatusConditionTrue(b.Status.Conditions, hostsv1.ConditionFinished) {
			t.Errorf("what the executor left out is missing: %+v", b.Status)
		}
		s.says("a", "Pending/Offered")
		if want := []string{"b"}; !slices.Equal(s.finished, want) {
			t.Errorf("finished %v, want %v", s.finished, want)
		}
		time.Sleep(30 * time.Second)
		s.restart()
		if after := s.look("b").RequeueAfter; after < 29*time.Second || after > 30*time.Second {
			t.Errorf("after a restart it is looked at again in %s", after)
		}
		time.Sleep(30 * time.Second)
		s.look("b")
		if left := s.all(); len(left) != 1 || left[0].Name != "a" {
			t.Errorf("%d are left", len(left))
		}
	})
}

// M78, M79: of an executor that falls silent the operation fails, and the next one has its turn; what is claimed and deleted
// keeps the machine until its deadline.
func TestM78_SilentExecutors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box")
		s.ask("a", "box", nil)
		s.settle()
		s.claim()
		s.settle()
		time.Sleep(time.Second)
		s.ask("b", "box", nil)
		s.settle()
		s.says("b", "Pending/Queued")
		time.Sleep(11 * time.Minute)
		s.settle()
		s.says("a", "Failed/ExecutorLost")
		s.says("b", "Pending/Offered")
		s.claim()
		s.settle()
		s.must(s.api.Delete(t.Context(), s.get("b")))
		s.look("b")
		s.ask("c", "box", nil)
		s.settle()
		s.says("c", "Pending/Queued")
		time.Sleep(11 * time.Minute)
		s.settle()
		s.says("c", "Pending/Offered")
	})
}

// M82: a machine that is made again under its name is another one. What was asked for on the one before fails, also where
// an executor has it and where the operator was away meanwhile, and nothing of it is done to the new one, which takes what is
// asked for from then on.
func TestM82_AnotherMachineOfTheSameName(t *testing.T) {
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, "box")
			c := &carrier{doneAt: 1000}
			ask := func(spec *hostsv1.MachineOperationSpec) {}
			if own {
				ask = func(spec *hostsv1.MachineOperationSpec) { spec.OperationName = hostsv1.OperationApplyConfiguration }
			}
			restart := func() {
				s.restart()
				if own {
					s.r.Carry(hostsv1.ExecutorController, c)
				}
			}
			restart()
			s.ask("taken", "box", ask)
			s.settle()
			s.claim()
			s.settle()
			time.Sleep(2 * time.Second)
			s.ask("waits", "box", ask)
			s.settle()
			s.says("taken", "InProgress/Claimed")
			s.says("waits", "Pending/Queued")

			m := &hostsv1.HostMachine{}
			s.must(s.api.Get(t.Context(), client.ObjectKey{Name: "box"}, m))
			was, steps := m.UID, c.steps
			s.must(s.api.Delete(t.Context(), m))
			s.machine("box")
			s.must(s.api.Get(t.Context(), client.ObjectKey{Name: "box"}, m))
			if m.UID == was || own == (steps == 0) {
				t.Fatalf("machine %s after %s, %d steps: the test shows nothing", m.UID, was, steps)
			}
			restart()
			s.settle()
			s.says("taken", "Failed/MachineReplaced")
			s.says("waits", "Failed/MachineReplaced")
			if got := s.claim(); len(got) > 0 || c.steps != steps {
				t.Errorf("%v may be claimed, and %d steps were made on the new machine", got, c.steps-steps)
			}
			s.ask("new", "box", ask)
			s.settle()
			if op := s.get("new"); op.Status.MachineUID != string(m.UID) || op.Labels[hostsv1.LabelExecutor] == "" {
				t.Errorf("on the new machine: labels %v, %+v", op.Labels, op.Status)
			}
		})
	}
}

// M83: the pause of a machine takes back what nobody has claimed.
func TestM83_Pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box")
		s.ask("a", "box", nil)
		s.settle()
		pause := func(on bool) {
			m := &hostsv1.HostMachine{}
			s.must(s.api.Get(t.Context(), client.ObjectKey{Name: "box"}, m))
			m.Spec.Paused = on
			s.must(s.api.Update(t.Context(), m))
			s.settle()
		}
		pause(true)
		s.says("a", "Pending/Paused")
		if got := s.claim(); len(got) > 0 {
			t.Errorf("%v are claimed on a machine that is paused", got)
		}
		pause(false)
		if got := s.claim(); len(got) != 1 {
			t.Errorf("claimed %v", got)
		}
	})
}

// M73, M74: a fan-out has one operation on each machine, no more at once than it may, and takes machines once.
func TestM73M74_FanOutOverMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machines []string
		for i := range 9 {
			machines = append(machines, fmt.Sprintf("box%d", i))
		}
		s := newStage(t, machines...)
		limit, ttl := int32(3), int32(0)
		s.ask("all", "", func(spec *hostsv1.MachineOperationSpec) {
			spec.MachineSelector = &hostsv1.MachineSelector{MatchLabels: map[string]hostsv1.LabelValue{"rack": "1"}}
			spec.MaxConcurrent, spec.TTLSecondsAfterFinished = &limit, &ttl
		})
		s.settle()
		late := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "late", Labels: map[string]string{"rack": "1"}}}
		late.Spec.Provisioner = hostsv1.ProvisionerManual
		s.create(late)
		claimed := map[string]bool{}
		for round := range 3 {
			if round == 1 {
				s.restart()
			}
			s.settle()
			names := s.claim()
			if len(names) != 3 {
				t.Fatalf("round %d: claimed %v", round, names)
			}
			time.Sleep(countEvery) // they are not written with each child
			s.settle()
			if more := s.claim(); len(more) > 0 {
				t.Errorf("%v are claimed beside %v", more, names)
			}
			if c := s.get("all").Status; c.State != hostsv1.OperationInProgress || c.Children.InProgress != 3 || c.Children.Total != 9 {
				t.Errorf("round %d: %s %+v", round, c.State, *c.Children)
			}
			for _, name := range names {
				if claimed[name] {
					t.Errorf("%s is executed again", name)
				}
				claimed[name] = true
				s.end(name, hostsv1.OperationComplete)
			}
		}
		if len(claimed) != 9 {
			t.Errorf("%d of 9 machines", len(claimed))
		}
		s.look("all")
		s.look("all") // its time to live is nothing
		for _, op := range s.all() {
			if op.Name == "all" {
				t.Errorf("it is still there: %+v", op.Status)
			}
		}
	})
}

// carrier is an executor of the operator's own process. It is done at the step that is told, and never before.
type carrier struct {
	steps, doneAt int
	err           error
}

func (*carrier) Offers(*hostsv1.HostMachine) []string {
	return []string{"applyConfiguration", "packetCapture"}
}

func (c *carrier) Carry(_ context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error) {
	c.steps++
	if c.err != nil || c.steps < c.doneAt {
		return nil, c.err
	}
	return &operations.Outcome{Message: op.Name + " on " + m.Name}, nil
}

// M75, M78, M79: the operator's own executor claims before it acts, goes on where a process was killed, and ends at the deadline.
func TestM75M78_OwnExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box")
		apply := func(spec *hostsv1.MachineOperationSpec) { spec.OperationName = "applyConfiguration" }
		s.ask("a", "box", apply)
		s.settle()
		s.says("a", "Pending/NoExecutor")
		if after := s.look("a").RequeueAfter; after > offerAgain {
			t.Errorf("it is looked at again in %s", after)
		}
		c := &carrier{doneAt: 3}
		s.r.Carry(hostsv1.ExecutorController, c)
		s.look("a")
		s.says("a", "InProgress/Claimed")
		if c.steps != 0 {
			t.Error("it acts before its claim is acknowledged")
		}
		if after := s.look("a").RequeueAfter; after != carryAgain || c.steps != 1 {
			t.Errorf("after %d steps it is looked at again in %s", c.steps, after)
		}
		s.restart()
		s.r.Carry(hostsv1.ExecutorController, c)
		s.look("a")
		s.look("a")
		s.settle()
		s.says("a", "Complete/Succeeded")
		if op := s.get("a"); op.Status.Executor != hostsv1.ExecutorController || op.Status.Message != "a on box" || c.steps != 3 {
			t.Errorf("%+v after %d steps", op.Status, c.steps)
		}

		seconds := int32(60)
		s.ask("b", "box", func(spec *hostsv1.MachineOperationSpec) { apply(spec); spec.TimeoutSeconds = &seconds })
		c.err = errors.New("the Node cannot be read")
		s.look("b")
		if _, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "b"}}); err == nil {
			t.Error("what is worth another try is no error")
		}
		time.Sleep(time.Minute + stopWithin)
		s.settle()
		s.says("b", "Failed/Timeout")
	})
}

// What is woken is asked for, until the controller ends.
func TestWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		ctx, stop := context.WithCancel(t.Context())
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		if err := r.woken(ctx, queue); err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			r.wake("a") // more than there is room for
		}
		synctest.Wait()
		if queue.Len() != 1 {
			t.Errorf("%d requests", queue.Len())
		}
		stop()
		queue.ShutDown()
	})
}

// M73: an object that somebody else made is no operation of the selector.
func TestM73_ForeignChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "box")
		m := &hostsv1.HostMachine{}
		s.must(s.api.Get(t.Context(), client.ObjectKey{Name: "box"}, m))
		s.ask(operations.ChildName("all", string(m.UID)), "box", nil)
		s.ask("all", "", func(spec *hostsv1.MachineOperationSpec) { spec.MachineSelector = &hostsv1.MachineSelector{} })
		s.settle()
		s.says("all", "Failed/NameConflict")
	})
}
