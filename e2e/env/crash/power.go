package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// PowerCycledOverALeader kills the leader between off and on of a power cycle: the standby switches the machine on,
// it goes off once and on once, and nobody replaces it meanwhile (M84, M85).
func PowerCycledOverALeader(t *testing.T, storage Storage) {
	w := New(t, storage, few)
	w.SetConfig(strings.Replace(w.Config(), `"userdata": {`, `"machine": {"enabled": true}, "userdata": {`, 1))
	w.StartServer(one)
	w.Await("the first server leads", func() error { return w.Leads(one) })
	w.StartServer(two)
	w.Settle(few, time.Time{})
	before, seen := w.Machines(), w.Watch()
	id := before[0].ID

	if _, err := w.StartOperation("cycle", id, "powerCycle"); err == nil || !strings.Contains(err.Error(), "not on hold") {
		t.Errorf("without a hold: %v", err)
	}
	if err := w.SetHold(id, "power", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := w.StartOperation("cycle", id, "powerCycle"); err != nil {
		t.Fatal(err)
	}
	old := w.LeaderID()
	w.Await("the machine is off", func() error {
		if all := w.Machines(); slices.ContainsFunc(all, func(m box.Machine) bool { return m.ID == id }) {
			return fmt.Errorf("it runs: %v", all)
		}
		return nil
	})
	w.KillServer(old)
	if op := w.StoredOperation("cycle"); strings.Contains(op, "on-sent") {
		t.Fatalf("the leader was killed too late: %s", op)
	}
	w.Await("the standby leads", func() error { return w.Leads(other(old)) })
	w.StartServer(old)
	var last *nstancev1.OperationStatus
	w.Await("the power cycle is complete", func() error {
		op, err := w.StartOperation("cycle", id, "powerCycle") // the same id is the same operation
		switch {
		case err != nil:
			return err
		case op.GetState() != nstancev1.OperationState_OPERATION_STATE_COMPLETE:
			return fmt.Errorf("it is %v, marks %v", op.GetState(), op.GetMarks())
		}
		last = op
		return nil
	})
	if got, want := marks(last), "intent 1, off-sent 1, off-seen 1, on-sent 1, on-seen 1"; got != want {
		t.Errorf("marks %s, want %s", got, want)
	}
	completed := time.Now()
	w.Settle(few, completed)
	if err := w.ClearHold(id, "power"); err != nil {
		t.Error(err)
	}
	w.onlyOneRanAnew(before, seen())
}

// onlyOneRanAnew checks that of the machines the first runs in a new process, for the second time, and that the others do as
// they did.
func (w *World) onlyOneRanAnew(before []box.Machine, sightings box.Sightings) {
	w.t.Helper()
	after, id := w.Machines(), before[0].ID
	w.sound(few, sightings)
	for _, change := range sightings.Changes {
		w.t.Errorf("%s, and nothing should have", change)
	}
	if len(after) != few || after[0].ID != id || after[0].PID == before[0].PID || !slices.Equal(after[1:], before[1:]) {
		w.t.Errorf("machines are %v, were %v: the first is to run anew, and the others as they did", after, before)
	}
	if starts := strings.Count(w.MachineLog(id), "starting"); starts != 2 {
		w.t.Errorf("its agent has started %d times, want 2", starts)
	}
}

// marks are what an operation has done and seen, each with how often.
func marks(op *nstancev1.OperationStatus) string {
	var all []string
	for _, m := range op.GetMarks() {
		all = append(all, fmt.Sprint(m.GetMark(), " ", m.GetTimes()))
	}
	return strings.Join(all, ", ")
}
