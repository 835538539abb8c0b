package operations

import (
	"errors"
	"strings"
	"testing"
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// stored is an operation as the API server has it: a write is refused if the object has changed since it was read.
type stored struct {
	op       *hostsv1.MachineOperation
	revision int
}

// read returns a copy, and a write of its status that counts once.
func (s *stored) read() (op *hostsv1.MachineOperation, write func(hostsv1.MachineOperationStatus, error) bool) {
	seen := s.revision
	return s.op.DeepCopy(), func(next hostsv1.MachineOperationStatus, refused error) bool {
		if refused != nil || seen != s.revision || !MayFollow(s.op.Status.State, next.State) {
			return false
		}
		s.op.Status = next
		s.revision++
		return true
	}
}

// controller writes what the operator decides at a moment.
func (s *stored) controller(at time.Time) {
	op, write := s.read()
	write(Decide(Input{Operation: op, Machine: Machine{Found: true, Name: "box", Executors: []hostsv1.Executor{{Name: "tracer", Operations: []string{"packetCapture"}}}}}, at).Status, nil)
}

// M71, M75, M78: of executors that race one wins; of one that falls silent the operation fails and says so; what it says late,
// or a second time, changes nothing.
func TestM71M75M78_ExecutorsThatMisbehave(t *testing.T) {
	s := &stored{op: operation("a", "packetCapture", 0, state("Pending"), label("tracer"))}
	first, claimFirst := s.read()
	second, claimSecond := s.read()
	won := claimFirst(Claim(first, "tracer", now))
	if claimSecond(Claim(second, "tracer", now)) || !won || s.op.Status.Attempts != 1 {
		t.Fatalf("both claimed it, or none: %+v", s.op.Status)
	}
	again, claimAgain := s.read()
	if _, err := Claim(again, "tracer", now); !errors.Is(err, ErrNotYours) || claimAgain(Claim(again, "tracer", now)) {
		t.Errorf("the one that lost claims again: %v", err)
	}

	slow, finishLate := s.read() // before it falls silent
	lost := s.op.Status.StartTime.Add(Timeout(s.op) + LostAfter)
	s.controller(lost.Add(-time.Second))
	if s.op.Status.State != hostsv1.OperationInProgress {
		t.Fatalf("given up too early: %+v", s.op.Status)
	}
	s.controller(lost)
	if got := s.op.Status; got.State != hostsv1.OperationFailed || got.Reason != hostsv1.ReasonExecutorLost || !strings.Contains(got.Message, "tracer has said nothing") {
		t.Fatalf("%+v", got)
	}
	if finishLate(Finish(slow, "tracer", Outcome{Message: "done"}, lost)) {
		t.Error("what was read before counts")
	}
	late, finishLater := s.read()
	if finishLater(Finish(late, "tracer", Outcome{Message: "done"}, lost)) || s.op.Status.Reason != hostsv1.ReasonExecutorLost {
		t.Errorf("what is said late counts: %+v", s.op.Status)
	}

	s = &stored{op: operation("b", "packetCapture", 0, state("Pending"), label("tracer"))}
	op, claim := s.read()
	claim(Claim(op, "tracer", now))
	one, finishOne := s.read()
	two, finishTwo := s.read()
	if !finishOne(Finish(one, "tracer", Outcome{Message: "the first word"}, now)) || finishTwo(Finish(two, "tracer", Outcome{Failed: true, Message: "the second"}, now)) {
		t.Errorf("%+v", s.op.Status)
	}
	twice, finishTwice := s.read()
	if finishTwice(Finish(twice, "tracer", Outcome{Failed: true, Message: "the second"}, now)) || s.op.Status.State != hostsv1.OperationComplete || s.op.Status.Message != "the first word" {
		t.Errorf("reported twice: %+v", s.op.Status)
	}
}
