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
	id, others := before[0].ID, before[1:]

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
	var marks []string
	for _, m := range last.GetMarks() {
		marks = append(marks, fmt.Sprint(m.GetMark(), " ", m.GetTimes()))
	}
	if got, want := strings.Join(marks, ", "), "intent 1, off-sent 1, off-seen 1, on-sent 1, on-seen 1"; got != want {
		t.Errorf("marks %s, want %s", got, want)
	}
	completed := time.Now()
	w.Settle(few, completed)
	if err := w.ClearHold(id, "power"); err != nil {
		t.Error(err)
	}
	after, sightings := w.Machines(), seen()
	w.sound(few, sightings)
	for _, change := range sightings.Changes {
		t.Errorf("%s, and nothing should have", change)
	}
	if len(after) != few || after[0].ID != id || after[0].PID == before[0].PID || !slices.Equal(after[1:], others) {
		t.Errorf("machines are %v, were %v: the first is to run anew, and the others as they did", after, before)
	}
	if starts := strings.Count(w.MachineLog(id), "starting"); starts != 2 {
		t.Errorf("its agent has started %d times, want 2", starts)
	}
}
