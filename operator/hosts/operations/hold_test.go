package operations

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func condition(op *hostsv1.MachineOperation) string {
	c := meta.FindStatusCondition(op.Status.Conditions, hostsv1.ConditionOnHold)
	if c == nil {
		return "none"
	}
	return string(c.Status) + "/" + c.Reason
}

// M84, M85: what becomes of the hold of an instance when an operation ends follows from its name, from the hold
// that there was, and from how it ends.
func TestM84M85_WhatBecomesOfAHold(t *testing.T) {
	none, later := Hold{}, now.Add(5*time.Hour)
	off, by := Hold{Reason: "power", Until: later, Off: true}, Hold{Reason: "power", Until: later}
	for _, tt := range []struct {
		name, operation string
		before          Hold
		begun           string
		complete        string // what is done where it is complete, and where it has failed
		failed          string
	}{
		{"a reboot", "reboot", none, "True/Set", "end reboot", "end reboot"},
		{"restart is a reboot", "restart", none, "True/Set", "end reboot", "end reboot"},
		{"a reboot of an instance that somebody has put on hold for it", "reboot", Hold{Reason: "reboot", Until: later}, "True/Found", "leave", "leave"},
		{"off", "powerOff", none, "True/Set", "keep", "end power"},
		{"off, on hold by hand", "powerOff", by, "True/Found", "keep", "leave"},
		{"off again", "powerOff", off, "True/TakenOver", "keep", "leave"},
		{"shutdown leaves it off too", "shutdown", none, "True/Set", "keep", "end power"},
		{"on", "powerOn", off, "True/TakenOver", "end power", "leave"},
		{"on, on hold by hand", "powerOn", by, "True/TakenOver", "end power", "leave"},
		{"on, without a hold", "powerOn", none, "True/Set", "end power", "end power"},
		{"off and on", "powerCycle", none, "True/Set", "end power", "end power"},
		{"off and on of one that is off", "powerCycle", off, "True/TakenOver", "end power", "leave"},
		{"off and on, on hold by hand", "powerCycle", by, "True/Found", "leave", "leave"},
		{"off and on amid a repave", "powerCycle", Hold{Reason: "repave", Until: later}, "True/Set", "end power", "end power"},
		{"what looks like no failure", "restartService", none, "none", "leave", "leave"},
		{"a custom name", "packetCapture", none, "none", "leave", "leave"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			op := operation("a", tt.operation, time.Minute)
			op.Status = BeginHold(op, tt.before, now)
			if got := condition(op); got != tt.begun {
				t.Errorf("begun %s, want %s", got, tt.begun)
			}
			if again := BeginHold(op, off, now.Add(time.Hour)); len(again.Conditions) != len(op.Status.Conditions) || tt.begun != "none" && again.Conditions[0] != op.Status.Conditions[0] {
				t.Error("what was noted before the hold was asked for is noted again, and may be another one's by now")
			}
			for state, want := range map[hostsv1.OperationState]string{hostsv1.OperationComplete: tt.complete, hostsv1.OperationFailed: tt.failed} {
				done := op.DeepCopy()
				if _, ends := EndsHold(done); ends {
					t.Error("the hold ends before the operation does")
				}
				got := "leave"
				if KeepsOff(done, Outcome{Failed: state == hostsv1.OperationFailed}) {
					got = "keep"
				}
				done.Status.State = state
				if reason, ends := EndsHold(done); ends {
					got = "end " + reason
				}
				if got != want {
					t.Errorf("%s: %s, want %s", state, got, want)
				}
				done.Status = HoldEnded(done, hostsv1.ReasonHoldCleared, "it ended", now)
				if _, ends := EndsHold(done); ends {
					t.Errorf("%s: the hold ends twice", state)
				}
			}
		})
	}
}

// M84: a hold is asked for as long as the operation may take, and never ends sooner than it would have.
func TestM84_HoldUntil(t *testing.T) {
	for _, tt := range []struct {
		name      string
		op        *hostsv1.MachineOperation
		before    Hold
		want      time.Duration
		operation string
	}{
		{name: "by the name", op: operation("a", "reboot", 0), want: 11 * time.Minute},
		{name: "by its time-out", op: operation("a", "powerCycle", 0, timeout(30)), want: 90 * time.Second},
		{name: "not sooner than now", op: operation("a", "powerOn", 0), before: Hold{Reason: "power", Until: now.Add(time.Hour)}, want: time.Hour},
		{name: "a hold for something else says nothing", op: operation("a", "powerOn", 0), before: Hold{Reason: "repave", Until: now.Add(time.Hour)}, want: 11 * time.Minute},
	} {
		if got := HoldUntil(tt.op, tt.before, now).Sub(now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// M77, M84: what cannot begin because of a hold, or because the machine is off, waits and holds nobody up: the
// machine is switched on again.
func TestM77M84_WaitsForAHold(t *testing.T) {
	until := now.Add(2 * time.Hour)
	held := func(reason string, off bool) func(*Machine) {
		return func(m *Machine) {
			m.Hold = Hold{Reason: reason, Until: until, Off: off}
			m.Executors[1].Operations = append(m.Executors[1].Operations, "powerOn")
		}
	}
	for _, tt := range []struct {
		name    string
		machine Machine
		op      string
		want    string
	}{
		{"a reboot while it is off", box(held("power", true)), "reboot", "Pending/OnHold until 2h0m0s"},
		{"a reboot while somebody works at it", box(held("power", false)), "reboot", "Pending/OnHold until 2h0m0s"},
		{"a reboot while it is repaved", box(held("repave", false)), "reboot", "Pending/OnHold until 2h0m0s"},
		{"what a paver does while it is off", box(held("power", true)), "restartService", "Pending/PoweredOff until 2h0m0s"},
		{"what a paver does while somebody works at it", box(held("power", false)), "restartService", "Pending/Offered by paver until 24h0m0s"},
		{"what others do while it is off", box(held("power", true)), "packetCapture", "Pending/Offered by tracer until 24h0m0s"},
		{"off and on amid a reboot", box(held("reboot", false)), "powerCycle", "Pending/Offered by provider until 24h0m0s"},
		{"on", box(held("power", true)), "powerOn", "Pending/Offered by provider until 24h0m0s"},
	} {
		op := operation("a", tt.op, 0)
		if tt.op == "restartService" {
			parameter("service", "sshd.service")(op)
		}
		if got := decision(Decide(Input{Operation: op, Machine: tt.machine, Others: []*hostsv1.MachineOperation{op}}, now)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	m := box(held("power", true))
	reboot, on := operation("a", "reboot", time.Hour), operation("b", "powerOn", time.Minute)
	if next := Turn([]*hostsv1.MachineOperation{reboot, on}, m); next != on {
		t.Errorf("%v comes first, and the machine stays off", next)
	}
	refused := operation("a", "reboot", time.Hour)
	d := NotHeld(refused, Decide(Input{Operation: refused, Machine: box(), Others: []*hostsv1.MachineOperation{refused}}, now), "it leaves", now)
	if got := decision(d); got != "Pending/OnHold until 15s" || !strings.Contains(d.Status.Message, "it leaves") {
		t.Errorf("a hold that was refused: %s, %s", got, d.Status.Message)
	}
	refused.Status = d.Status
	if next := Turn([]*hostsv1.MachineOperation{refused, on}, m); next != on {
		t.Errorf("%v comes first, and cannot begin", next)
	}
}

// M84: a reboot takes no longer than its instance is on hold.
func TestM84_NoRebootWithoutAHold(t *testing.T) {
	for seconds, refused := range map[int32]bool{600: false, 840: false, 841: true, 3600: true} {
		d := Decide(Input{Operation: operation("a", hostsv1.OperationReboot, 0, timeout(seconds)), Machine: Machine{
			Found: true, Name: "box", UID: "uid", Executors: []hostsv1.Executor{{Name: hostsv1.ExecutorPaver, Operations: []string{hostsv1.OperationReboot}}},
		}}, now)
		if got := d.Status.Reason == hostsv1.ReasonInvalidParameters; got != refused {
			t.Errorf("%d seconds: %s, %s", seconds, d.Status.Reason, d.Status.Message)
		}
	}
	op := operation("a", hostsv1.OperationReboot, 0)
	if !Short(op, now.Add(9*time.Minute), now) || Short(op, now.Add(10*time.Minute), now) {
		t.Error("a hold is too short where it ends before the deadline, and not otherwise")
	}
}
