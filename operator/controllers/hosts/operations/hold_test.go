package operations

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
)

// shard holds one instance, and may be away or refuse.
type shard struct {
	hold  operations.Hold
	fail  error
	calls []string
	// forgets: a hold that is asked for is not kept; keeps: none ends. Mistakes that must be found.
	forgets, keeps bool
	// before is called before each call, and what it returns is the answer of one that has no effect.
	before func() error
}

func (s *shard) call(what string) error {
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	s.calls = append(s.calls, what)
	return s.fail
}

func (s *shard) Look(context.Context, *hostsv1.HostMachine) (operations.Hold, error) {
	return s.hold, s.call("look")
}

func (s *shard) Set(_ context.Context, _ *hostsv1.HostMachine, reason string, until time.Time) (time.Time, error) {
	if until.IsZero() {
		until = time.Now().Add(24 * time.Hour)
	}
	if err := s.call("set " + reason + " for " + time.Until(until).Round(time.Minute).String()); err != nil {
		return time.Time{}, err
	}
	if !s.forgets {
		s.hold.Reason, s.hold.Until = reason, until
	}
	return until, nil
}

func (s *shard) Clear(_ context.Context, _ *hostsv1.HostMachine, reason string) error {
	if err := s.call("clear " + reason); err != nil {
		return err
	}
	if s.hold.Reason == reason && !s.keeps {
		s.hold = operations.Hold{}
	}
	return nil
}

// worker carries out reboots and power operations, and notes whether the instance was on hold at each step.
type worker struct {
	shard   *shard
	steps   int
	unheld  int
	outcome *operations.Outcome // nil: not yet
}

func (*worker) Offers(*hostsv1.HostMachine) []string {
	return []string{"reboot", "restartService", "powerOff", "powerOn", "powerCycle"}
}

func (w *worker) Carry(context.Context, *hostsv1.MachineOperation, *hostsv1.HostMachine) (*operations.Outcome, error) {
	w.steps++
	if w.shard.hold.Reason == "" {
		w.unheld++
	}
	return w.outcome, nil
}

// held is a stage with a machine that stands for an instance of a shard.
func held(t *testing.T) (*stage, *shard, *worker) {
	s, sh := newStage(t), &shard{}
	m := &hostsv1.HostMachine{}
	m.Name, m.Spec.Provisioner = "box", hostsv1.ProvisionerNstance
	m.Spec.Instance = &hostsv1.InstanceReference{Shard: "a", Tenant: "default", Group: "web", ID: "box"}
	s.create(m)
	w := &worker{shard: sh}
	s.begin(sh, w)
	return s, sh, w
}

// begin has another process of the operator begin, which knows the shard and the worker.
func (s *stage) begin(sh *shard, w *worker) {
	s.restart()
	s.r.Hold(sh)
	s.r.Carry(hostsv1.ExecutorPaver, w)
	s.r.Carry(hostsv1.ExecutorProvider, w)
}

func named(name string) func(*hostsv1.MachineOperationSpec) {
	return func(spec *hostsv1.MachineOperationSpec) { spec.OperationName = name }
}

func (s *stage) onHold(name string) string {
	s.Helper()
	c := meta.FindStatusCondition(s.get(name).Status.Conditions, hostsv1.ConditionOnHold)
	if c == nil {
		return "none"
	}
	return string(c.Status) + "/" + c.Reason
}

// M84: a reboot begins once its instance is on hold, and the hold ends with it; what looks like no failure needs none.
func TestM84_HoldsAroundAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sh, w := held(t)
		s.ask("a", "box", named("reboot"))
		s.settle()
		s.says("a", "InProgress/Claimed")
		if sh.hold.Reason != "reboot" || s.onHold("a") != "True/Set" || time.Until(sh.hold.Until) != 11*time.Minute || w.unheld > 0 {
			t.Errorf("hold %+v, noted %s, %d steps without", sh.hold, s.onHold("a"), w.unheld)
		}
		w.outcome = &operations.Outcome{Message: "it booted"}
		s.begin(sh, w)
		s.settle()
		s.says("a", "Complete/Succeeded")
		if sh.hold.Reason != "" || s.onHold("a") != "False/Cleared" {
			t.Errorf("after the end: hold %+v, noted %s", sh.hold, s.onHold("a"))
		}
		sh.calls = nil
		s.ask("b", "box", func(spec *hostsv1.MachineOperationSpec) {
			named("restartService")(spec)
			spec.Parameters = map[string]hostsv1.ParameterValue{"service": "sshd.service"}
		})
		s.settle()
		s.says("b", "Complete/Succeeded")
		if len(sh.calls) > 0 || s.onHold("b") != "none" {
			t.Errorf("restartService: calls %v, noted %s", sh.calls, s.onHold("b"))
		}
	})
}

// M84: no hold, no operation; it waits, others go before it, and it begins when the shard lets it.
func TestM84_NoHoldNoOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sh, w := held(t)
		sh.fail = fmt.Errorf("%w: the instance is to be deleted", operations.ErrRefused)
		s.ask("a", "box", named("reboot"))
		s.settle()
		s.says("a", "Pending/OnHold")
		if op := s.get("a"); w.steps > 0 || op.Labels[hostsv1.LabelExecutor] != "" {
			t.Errorf("%d steps, label %q", w.steps, op.Labels[hostsv1.LabelExecutor])
		}
		time.Sleep(time.Second)
		w.outcome = &operations.Outcome{}
		s.ask("b", "box", func(spec *hostsv1.MachineOperationSpec) {
			named("restartService")(spec)
			spec.Parameters = map[string]hostsv1.ParameterValue{"service": "sshd.service"}
		})
		s.settle()
		s.says("b", "Complete/Succeeded")
		sh.fail = nil
		time.Sleep(15 * time.Second)
		s.settle()
		s.says("a", "Complete/Succeeded")
		if w.unheld != 1 || sh.hold.Reason != "" { // the service's
			t.Errorf("%d steps without a hold, hold %+v at the end", w.unheld, sh.hold)
		}
		// Without a shard nothing begins either.
		s.restart()
		s.r.Carry(hostsv1.ExecutorPaver, w)
		s.ask("c", "box", named("reboot"))
		s.settle()
		s.says("c", "Pending/OnHold")
	})
}

// M85: a machine that was switched off stays on hold as long as its shard allows, and powerOn ends that.
func TestM85_OffAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sh, w := held(t)
		w.outcome = &operations.Outcome{Message: "the machine is off"}
		s.ask("off", "box", named("powerOff"))
		s.settle()
		s.says("off", "Complete/Succeeded")
		if time.Until(sh.hold.Until) != 24*time.Hour || s.onHold("off") != "True/KeptOff" {
			t.Errorf("hold %+v, noted %s", sh.hold, s.onHold("off"))
		}
		s.settle() // and nobody ends it later
		sh.hold.Off = true
		time.Sleep(time.Hour)
		s.ask("on", "box", named("powerOn"))
		w.outcome = &operations.Outcome{Failed: true, Reason: "Timeout"}
		s.settle()
		s.says("on", "Failed/Timeout")
		if time.Until(sh.hold.Until) != 23*time.Hour || s.onHold("on") != "True/TakenOver" {
			t.Errorf("it is off as before: hold %+v, noted %s", sh.hold, s.onHold("on"))
		}
		s.ask("again", "box", named("powerOn"))
		w.outcome = &operations.Outcome{}
		s.settle()
		if sh.hold.Reason != "" || s.onHold("again") != "False/Cleared" {
			t.Errorf("it is on: hold %+v, noted %s", sh.hold, s.onHold("again"))
		}
	})
}

// M80, M84: an operation whose time to live is nothing is there until its hold has ended, and of a machine that is gone
// none has to.
func TestM80M84_HoldOfWhatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sh, w := held(t)
		ttl := int32(0)
		w.outcome = &operations.Outcome{}
		quick := func(spec *hostsv1.MachineOperationSpec) { named("reboot")(spec); spec.TTLSecondsAfterFinished = &ttl }
		s.ask("a", "box", quick)
		s.look("a")
		sh.fail = errors.New("the shard is away")
		s.look("a")
		if _, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}}); err == nil || len(s.all()) != 1 {
			t.Errorf("the shard is away: %v, %d objects", err, len(s.all()))
		}
		sh.fail = nil
		s.settle()
		if len(s.all()) != 0 || sh.hold.Reason != "" {
			t.Errorf("%d objects, hold %+v", len(s.all()), sh.hold)
		}
		s.ask("b", "box", named("reboot"))
		s.look("b")
		w.outcome = &operations.Outcome{}
		s.look("b")
		m := &hostsv1.HostMachine{}
		s.must(s.api.Get(t.Context(), client.ObjectKey{Name: "box"}, m))
		s.must(s.api.Delete(t.Context(), m))
		sh.calls = nil
		s.settle()
		if s.onHold("b") != "False/Gone" || len(sh.calls) > 0 {
			t.Errorf("the machine is gone: noted %s, calls %v", s.onHold("b"), sh.calls)
		}
	})
}

var errKilled = errors.New("the process was killed")

// crashes runs a reboot with the operator killed before or after each effect in turn, and returns what was wrong. An
// effect is a write to the API server or a call to the shard.
func crashes(t *testing.T, change func(*shard)) (wrong []string) {
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			reached := false
			synctest.Test(t, func(t *testing.T) {
				s, sh, w := held(t)
				change(sh)
				n := 0
				effect := func(do func() error) error {
					if n++; n != at {
						return do()
					}
					reached = true
					if after {
						if err := do(); err != nil {
							return err
						}
					}
					return errKilled
				}
				sh.before = func() error { return effect(func() error { return nil }) }
				s.api = interceptor.NewClient(s.api.(client.WithWatch), interceptor.Funcs{
					Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
						return effect(func() error { return c.Patch(ctx, o, p, opts...) })
					},
					SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
						return effect(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
					},
				})
				s.begin(sh, w)
				s.ask("a", "box", named("reboot"))
				for range 60 {
					_, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
					if errors.Is(err, errKilled) || err == nil && reached && n == at { // where the decision is to wait, the error is in a condition
						s.begin(sh, w)
					}
					if w.steps == 2 {
						w.outcome = &operations.Outcome{}
					}
					time.Sleep(time.Second)
				}
				where := fmt.Sprintf("killed at effect %d, after it %v: ", at, after)
				if op := s.get("a"); op.Status.State != hostsv1.OperationComplete {
					wrong = append(wrong, where+"it is "+string(op.Status.State)+": "+op.Status.Message)
				}
				if w.unheld > 0 {
					wrong = append(wrong, where+"it was carried out without a hold")
				}
				if sh.hold.Reason != "" {
					wrong = append(wrong, where+"the hold was kept")
				}
			})
			if !reached {
				break
			}
		}
	}
	return wrong
}

// M84: wherever the operator is killed, the instance is on hold while the operation runs, and is not afterwards. A
// hold that is forgotten, or kept for ever, is found.
func TestM84_KilledAtEveryEffect(t *testing.T) {
	if wrong := crashes(t, func(*shard) {}); len(wrong) > 0 {
		t.Error(wrong)
	}
	if wrong := crashes(t, func(s *shard) { s.forgets = true }); len(wrong) == 0 {
		t.Error("a hold that is forgotten is not found")
	}
	if wrong := crashes(t, func(s *shard) { s.keeps = true }); len(wrong) == 0 {
		t.Error("a hold that is kept for ever is not found")
	}
}

// The machine names its unfinished operations.
func TestUnfinishedOperationsOfAMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sh, w := held(t)
		names := &machines{client: s.api}
		look := func() []string {
			_, err := names.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "box"}})
			s.must(err)
			m := &hostsv1.HostMachine{}
			s.must(s.api.Get(t.Context(), client.ObjectKey{Name: "box"}, m))
			return m.Status.Operations
		}
		s.ask("b", "box", named("reboot"))
		s.ask("a", "box", named("powerCycle"))
		s.settle()
		if got := fmt.Sprint(look()); got != "[a b]" {
			t.Errorf("it names %s", got)
		}
		w.outcome = &operations.Outcome{}
		s.begin(sh, w)
		s.settle()
		if got := look(); len(got) > 0 {
			t.Errorf("all have finished, and it names %v", got)
		}
	})
}
