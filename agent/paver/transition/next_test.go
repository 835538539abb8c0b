package transition_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/transition"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func hash(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

// order is an assignment whose content is named by one hexadecimal digit.
func order(epoch int64, mode assignment.Mode, digit string) assignment.Assignment {
	return assignment.Assignment{
		MachineName: "m1", MachineUID: "uid-1", NodeName: "n1", Epoch: epoch, Mode: mode,
		Configuration: assignment.Configuration{Name: "gpu", Version: int32(epoch), Hash: hash(digit)},
	}
}

// running is a journal of a host whose slot a is the active one, with content 1.
func running() journal.Journal {
	return journal.Journal{
		V: journal.Version, MachineUID: "uid-1", Active: journal.A, Epoch: 1, Hash: hash("1"),
		Contents: map[journal.Slot]journal.Content{journal.A: {Configuration: order(1, "", "1").Configuration, Epoch: 1, BootID: "boot-1"}},
	}
}

// underWay is running with a transition to content 2.
func underWay(stage journal.Stage, change func(*journal.Transition)) journal.Journal {
	j := running()
	j.Epoch, j.Hash = 2, hash("2")
	j.Transition = &journal.Transition{
		Kind: journal.KindBuild, Epoch: 2, From: journal.A, To: journal.B, Stage: stage, Since: now, Assignment: order(2, assignment.Repave, "2"),
	}
	if change != nil {
		change(j.Transition)
	}
	return j
}

type slots = map[journal.Slot]transition.Observed

var (
	up     = transition.Observed{Phase: journal.Running, BootID: "boot-1", Kubelet: true}
	mute   = transition.Observed{Phase: journal.Running, BootID: "boot-1"}
	second = transition.Observed{Phase: journal.Running, BootID: "boot-2", Kubelet: true}
)

// guarded is a transition whose host is recorded, in the stage of the guards.
func guarded(change func(*journal.Transition)) journal.Journal {
	return underWay(journal.Guard, func(t *journal.Transition) {
		t.Marks.Recorded = true
		if change != nil {
			change(t)
		}
	})
}

// full is a journal whose idle slot holds a tree.
func full(j journal.Journal, c journal.Content) journal.Journal {
	j.Contents[journal.B] = c
	return j
}

func TestNext(t *testing.T) {
	pave := order(1, assignment.Pave, "1")
	repave, newer := order(2, assignment.Repave, "2"), order(3, assignment.Repave, "3")
	adopt, other := order(2, assignment.Adopt, "1"), order(2, assignment.Adopt, "2")
	joined := func(t *journal.Transition) { t.Marks.BootID = "boot-2" }
	dirty := func(t *journal.Transition) {
		t.Marks.Dirty, t.Marks.BootID, t.Attempts, t.LastError, t.RetryAt = true, "boot-2", 1, "no join", now.Add(time.Minute)
	}
	revert := func(t *journal.Transition) {
		t.Kind, t.From, t.To, t.Marks.BootID = journal.KindRevert, journal.B, journal.A, "boot-1"
	}
	for _, tt := range []struct {
		name string
		view transition.View
		kind transition.Kind
		slot journal.Slot
		why  string
	}{
		{"a fresh host waits", transition.View{Journal: journal.Journal{V: 1}}, transition.Wait, journal.None, "nothing is to be done"},
		{"M42 a first assignment is begun", transition.View{Journal: journal.Journal{V: 1}, Assignment: &pave}, transition.Begin, journal.A, "epoch 1: Pave of gpu-v1"},
		{"what runs is left alone", transition.View{Journal: running(), Slots: slots{"a": up}}, transition.Wait, journal.None, "nothing"},
		{"the active slot is started", transition.View{Journal: running()}, transition.StartActive, journal.A, "does not run"},
		{"it is not tried without a pause", transition.View{Journal: running(), Idle: now.Add(time.Second)}, transition.Wait, journal.None, "due later"},
		{"M49 a repave is begun in the other slot", transition.View{Journal: running(), Assignment: &repave, Slots: slots{"a": up}}, transition.Begin, journal.B, "Repave of gpu-v2"},
		{"an assignment that was begun is not begun again", transition.View{Journal: underWay(journal.Fetch, nil), Assignment: &repave}, transition.FetchRoot, journal.B, "gpu-v2"},
		{"adopt mode takes what runs", transition.View{Journal: running(), Assignment: &adopt, Slots: slots{"a": up}}, transition.TakeOver, journal.A, "adopts what runs"},
		{"adopt mode refuses other content", transition.View{Journal: running(), Assignment: &other, Slots: slots{"a": up}}, transition.Refuse, journal.A, "sha256:111111111111, "[:18]},
		{"adopt mode refuses an empty host", transition.View{Journal: journal.Journal{V: 1}, Assignment: &adopt}, transition.Refuse, journal.None, "has none"},

		{"a machine that nobody knows is killed", transition.View{Journal: running(), Slots: slots{"b": second}}, transition.KillSlot, journal.B, "does not know"},
		{"leftovers are killed before anything else", transition.View{Journal: running(), Slots: slots{"a": {Phase: journal.Orphan}}}, transition.KillSlot, journal.A, "has ended"},
		{"SplitSlots kills the one that is not active", transition.View{Journal: running(), Slots: slots{"a": up, "b": second}}, transition.KillSlot, journal.B, "SplitSlots"},
		{"SplitSlots in a switch kills the old one", transition.View{Journal: underWay(journal.Join, joined), Slots: slots{"a": up, "b": second}}, transition.KillSlot, journal.A, "SplitSlots"},
		{"M58 the disk is full: the slot from before goes", transition.View{Journal: func() journal.Journal { j := running(); j.Previous = journal.B; return j }(), DiskLow: true, Slots: slots{"a": up}}, transition.FreeSlot, journal.B, "disk"},
		{"M58 the disk is full in a switch: nothing goes", transition.View{Journal: underWay(journal.Join, joined), DiskLow: true, Slots: slots{"b": second}}, transition.Wait, journal.None, "not joined yet"},

		{"M58 the disk is full: a tree that was reverted goes too", transition.View{Journal: full(running(), journal.Content{Broken: true}), DiskLow: true, Slots: slots{"a": up}}, transition.FreeSlot, journal.B, "disk"},
		{"M58 the disk is full: what is to be replaced goes first", transition.View{Journal: full(underWay(journal.Fetch, nil), journal.Content{}), DiskLow: true, Slots: slots{"a": mute}}, transition.FreeSlot, journal.B, "again"},
		{"M58 one that cannot be deleted keeps nothing up", transition.View{Journal: full(underWay(journal.Build, nil), journal.Content{}), DiskLow: true, Slots: slots{"a": mute}, Idle: now.Add(time.Second)}, transition.BuildSlot, journal.B, "is prepared"},
		{"M58 what is to be booted again does not go", transition.View{Journal: full(underWay(journal.Build, func(t *journal.Transition) { t.Marks.Reuse = true }), journal.Content{}), DiskLow: true, Slots: slots{"a": mute}}, transition.RefreshSlot, journal.B, "already"},

		{"M54 the kubelet is stopped before anything is fetched", transition.View{Journal: underWay(journal.Fetch, nil), Slots: slots{"a": up}}, transition.StopKubelet, journal.A, "must not register"},
		{"M54 also after a reboot of the host in the middle", transition.View{Journal: underWay(journal.Guard, nil), Slots: slots{"a": up}, Credential: true}, transition.StopKubelet, journal.A, "must not register"},
		{"M54 not on a first pave of another machine", transition.View{Journal: underWay(journal.Fetch, func(t *journal.Transition) { t.Assignment.Mode = assignment.Pave }), Slots: slots{"a": up}}, transition.FetchRoot, journal.B, "to be built"},
		{"a slot of that content is refreshed", transition.View{Journal: underWay(journal.Build, func(t *journal.Transition) { t.Marks.Reuse = true }), Slots: slots{"a": mute}}, transition.RefreshSlot, journal.B, "already"},
		{"what the host is like is written down first", transition.View{Journal: underWay(journal.Guard, nil), Slots: slots{"a": mute}, Credential: true}, transition.RecordHost, journal.B, "before it is changed"},
		{"M57 a credential with a second left is none", transition.View{Journal: guarded(nil), Slots: slots{"a": mute}, Credential: true, CredentialUntil: now.Add(time.Second)}, transition.AskForSecret, journal.B, "before the old machine is stopped"},
		{"M57 nor is one that ends while the machines change", transition.View{Journal: guarded(nil), Slots: slots{"a": mute}, Credential: true, CredentialUntil: now.Add(6*time.Minute - time.Second)}, transition.AskForSecret, journal.B, "before the old machine is stopped"},
		{"M57 one that lasts until the kubelet asks is", transition.View{Journal: guarded(nil), Slots: slots{"a": mute}, Credential: true, CredentialUntil: now.Add(6 * time.Minute)}, transition.CheckGuards, journal.B, "is prepared"},
		{"M57 no time-outs ask for more than half of an hour", transition.View{Journal: guarded(func(t *journal.Transition) {
			t.Assignment.Timeouts.Stop, t.Assignment.Timeouts.Boot = 2*time.Hour, 2*time.Hour
		}), Slots: slots{"a": mute}, Credential: true, CredentialUntil: now.Add(25 * time.Minute)}, transition.CheckGuards, journal.B, "is prepared"},
		{"M57 no credential: the old machine is not stopped", transition.View{Journal: guarded(nil), Slots: slots{"a": mute}}, transition.AskForSecret, journal.B, "before the old machine is stopped"},
		{"M57 nor for ever", transition.View{Journal: guarded(func(t *journal.Transition) { t.Since = now.Add(-20 * time.Minute) }), Slots: slots{"a": mute}}, transition.LoseAttempt, journal.B, "no credential"},
		{"M57 what may fail is tried before that", transition.View{Journal: guarded(nil), Slots: slots{"a": mute}, Credential: true}, transition.CheckGuards, journal.B, "is prepared"},
		{"M59 a failure is waited out", transition.View{Journal: underWay(journal.Fetch, func(t *journal.Transition) { t.RetryAt = now.Add(time.Hour) }), Slots: slots{"a": mute}}, transition.Wait, journal.None, "failed"},
		{"M59 the kubelet of the old machine is started again", transition.View{Journal: underWay(journal.Fetch, func(t *journal.Transition) { t.Marks.GaveUp = true }), Slots: slots{"a": mute}}, transition.GiveUp, journal.A, "failed"},
		{"a newer assignment replaces one that is prepared", transition.View{Journal: underWay(journal.Build, nil), Assignment: &newer, Slots: slots{"a": mute}}, transition.Begin, journal.B, "epoch 3"},
		{"a newer assignment waits for a switch", transition.View{Journal: underWay(journal.Join, joined), Assignment: &newer, Slots: slots{"b": second}}, transition.Wait, journal.None, "not joined yet"},
		{"between two attempts it does not", transition.View{Journal: underWay(journal.Boot, dirty), Assignment: &newer}, transition.Begin, journal.B, "epoch 3"},
		{"and what failed is stopped first", transition.View{Journal: underWay(journal.Boot, dirty), Assignment: &newer, Slots: slots{"b": second}}, transition.StopSlot, journal.B, "takes the place"},

		{"the old machine is stopped", transition.View{Journal: underWay(journal.Retire, nil), Slots: slots{"a": mute}}, transition.RetireSlot, journal.A, "ready"},
		{"the new one is booted", transition.View{Journal: underWay(journal.Boot, nil), Credential: true}, transition.BootSlot, journal.B, "down"},
		{"a crash after it was: it is looked at again", transition.View{Journal: underWay(journal.Boot, nil), Slots: slots{"b": second}}, transition.BootSlot, journal.B, "down"},
		{"the host rebooted and lost the credential", transition.View{Journal: underWay(journal.Boot, nil)}, transition.AskForSecret, journal.B, "to boot"},
		{"the slot has it still", transition.View{Journal: underWay(journal.Boot, func(t *journal.Transition) { t.Marks.CredentialUntil = now.Add(3 * time.Minute) })}, transition.BootSlot, journal.B, "down"},
		{"but for no boot", transition.View{Journal: underWay(journal.Boot, func(t *journal.Transition) { t.Marks.CredentialUntil = now.Add(time.Minute) })}, transition.AskForSecret, journal.B, "to boot"},
		{"the machine of the attempt before is stopped", transition.View{Journal: underWay(journal.Boot, func(t *journal.Transition) { dirty(t); t.RetryAt = now }), Slots: slots{"b": second}}, transition.StopSlot, journal.B, "attempt before"},
		{"unless its Node joins late", transition.View{Journal: underWay(journal.Boot, dirty), Slots: slots{"b": second}, Confirmed: &transition.Confirmation{Epoch: 2, BootID: "boot-2"}}, transition.ConfirmJoin, journal.B, "late"},

		{"M46 the Node of the new boot has joined", transition.View{Journal: underWay(journal.Join, joined), Slots: slots{"b": second}, Confirmed: &transition.Confirmation{Epoch: 2, BootID: "boot-2"}}, transition.ConfirmJoin, journal.B, "has joined"},
		{"M46 a stale Node is not believed", transition.View{Journal: underWay(journal.Join, joined), Slots: slots{"b": second}, Confirmed: &transition.Confirmation{Epoch: 2, BootID: "boot-1"}}, transition.Wait, journal.None, "not joined yet"},
		{"M46 nor one of another epoch", transition.View{Journal: underWay(journal.Join, joined), Slots: slots{"b": second}, Confirmed: &transition.Confirmation{Epoch: 1, BootID: "boot-2"}}, transition.Wait, journal.None, "not joined yet"},
		{"the machine restarted by itself", transition.View{Journal: underWay(journal.Join, joined), Slots: slots{"b": {Phase: journal.Running, BootID: "boot-3"}}}, transition.LookAgain, journal.B, "by itself"},
		{"M57 the join has a deadline", transition.View{Journal: underWay(journal.Join, func(t *journal.Transition) { joined(t); t.Since = now.Add(-10 * time.Minute) }), Slots: slots{"b": second}}, transition.LoseAttempt, journal.B, "in 10m"},
		{"the machine died", transition.View{Journal: underWay(journal.Join, joined), Slots: slots{"b": {Phase: journal.Failed}}}, transition.LoseAttempt, journal.B, "ended"},
		{"M60 a way back has no deadline", transition.View{Journal: underWay(journal.Join, func(t *journal.Transition) { revert(t); t.Since = now.Add(-time.Hour) }), Slots: slots{"a": up}}, transition.ConfirmJoin, journal.A, "nothing else"},
		{"M60 a way back needs no credential", transition.View{Journal: underWay(journal.Boot, revert)}, transition.BootSlot, journal.A, "down"},
		{"M60 what is held is left alone", transition.View{Journal: underWay(journal.Boot, func(t *journal.Transition) { dirty(t); t.Marks.Held = true }), Slots: slots{"b": second}}, transition.Wait, journal.None, "held"},
		{"M60 until another assignment comes", transition.View{Journal: underWay(journal.Boot, func(t *journal.Transition) { dirty(t); t.Marks.Held = true }), Slots: slots{"b": second}, Assignment: &newer}, transition.StopSlot, journal.B, "takes the place"},

		{"the new one becomes active", transition.View{Journal: underWay(journal.Commit, joined), Slots: slots{"b": second}}, transition.EnableSlot, journal.B, "joined"},
		{"what is left goes", transition.View{Journal: underWay(journal.Sweep, joined), Slots: slots{"b": second}}, transition.SweepSlots, journal.B, "complete"},
		{"a machine that ended is started before what is left goes", transition.View{Journal: underWay(journal.Sweep, joined)}, transition.StartActive, journal.B, "ended after"},
		{"also while that waits", transition.View{Journal: underWay(journal.Sweep, func(t *journal.Transition) { joined(t); t.Attempts, t.RetryAt = 9, now.Add(time.Hour) }), Slots: slots{"b": {Phase: journal.Failed}}}, transition.StartActive, journal.B, "ended after"},
		{"also before it is active", transition.View{Journal: underWay(journal.Commit, joined)}, transition.StartActive, journal.B, "ended after"},
		{"one that cannot be started keeps nothing up", transition.View{Journal: underWay(journal.Sweep, joined), Idle: now.Add(time.Second)}, transition.SweepSlots, journal.B, "complete"},
		{"a full disk does not keep the next assignment away", transition.View{Journal: func() journal.Journal {
			j := underWay(journal.Sweep, joined)
			j.Active = journal.B
			return j
		}(), Slots: slots{"b": second}, Assignment: &newer}, transition.Begin, journal.A, "epoch 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.view.Now = now
			before := tt.view.Journal.Clone()
			step := transition.Next(tt.view)
			if step.Kind != tt.kind || step.Slot != tt.slot || !strings.Contains(step.Reason, tt.why) {
				t.Errorf("%s %q because %q, want %s %q because %q", step.Kind, step.Slot, step.Reason, tt.kind, tt.slot, tt.why)
			}
			if diff := cmp.Diff(before, tt.view.Journal); diff != "" {
				t.Errorf("the decision changed what it followed from: %s", diff)
			}
			if step.Kind == transition.Wait && (!step.Until.After(now) || step.Until.After(now.Add(transition.Again))) {
				t.Errorf("waits until %v", step.Until)
			}
		})
	}
}

func TestM41_Accept(t *testing.T) {
	second, otherUID := order(2, assignment.Repave, "2"), order(1, assignment.Pave, "1")
	otherUID.MachineUID = "uid-2"
	late := order(3, assignment.Repave, "3") // was on its way when the host was reset
	resets := order(4, assignment.Reset, "1")
	for _, tt := range []struct {
		name   string
		stored *assignment.Assignment
		reset  int64
		a      assignment.Assignment
		fresh  bool
		err    string
	}{
		{"a newer one", nil, 0, second, true, ""},
		{"the same again", nil, 0, order(1, assignment.Pave, "1"), false, ""},
		{"an older one", &second, 0, order(1, assignment.Pave, "1"), false, "epoch 2 was accepted before"},
		{"an equal epoch with another hash", nil, 0, order(1, assignment.Pave, "2"), false, "EpochConflict"},
		{"also of one that is not begun yet", &second, 0, order(2, assignment.Repave, "3"), false, "EpochConflict"},
		{"an equal epoch for another machine", nil, 0, otherUID, false, "EpochConflict"},
		{"an older one after a reset", nil, 4, late, false, "the host was reset by epoch 4 since"},
		{"an equal one after a reset", nil, 4, order(4, assignment.Pave, "1"), false, "the host was reset by epoch 4 since"},
		{"the reset again", nil, 4, resets, false, ""},
		{"the first one of the next machine", nil, 4, order(5, assignment.Pave, "1"), true, ""},
		{"the first one of a machine after a restart", nil, 0, late, true, ""},
	} {
		fresh, err := transition.Accept(running(), tt.stored, tt.reset, tt.a)
		if fresh != tt.fresh || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, %v", tt.name, fresh, err)
		}
	}
}

func TestM59_Backoff(t *testing.T) {
	for attempts, want := range map[int]time.Duration{
		1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 5: 8 * time.Minute, 6: 10 * time.Minute, 1000: 10 * time.Minute,
	} {
		if got := transition.Backoff(attempts, 0); got != want {
			t.Errorf("after %d failures %v, want %v", attempts, got, want)
		}
		if low, high := transition.Backoff(attempts, -1), transition.Backoff(attempts, 1); low != want*4/5 || high != want*6/5 {
			t.Errorf("after %d failures from %v to %v", attempts, low, high)
		}
	}
}

// tries carries the step that is due out a number of times, and lets it fail.
func tries(t *testing.T, v transition.View, kind transition.Kind, times int) transition.View {
	t.Helper()
	for range times {
		v.Now = v.Now.Add(time.Hour)
		step := transition.Next(v)
		if step.Kind != kind {
			t.Fatalf("%s because %q, want %s", step.Kind, step.Reason, kind)
		}
		v.Journal, _ = transition.After(v, step, transition.Result{Err: errors.New("no luck"), Now: v.Now})
		if err := v.Journal.Validate(); err != nil {
			t.Fatal(err)
		}
	}
	v.Now = v.Now.Add(time.Hour)
	return v
}

// TestM54_TheKubeletIsStoppedFirst: whatever stage of preparing it is in, as long as it runs.
func TestM54_TheKubeletIsStoppedFirst(t *testing.T) {
	for _, stage := range []journal.Stage{journal.Fetch, journal.Build, journal.Guard} {
		v := transition.View{Journal: underWay(stage, nil), Slots: slots{"a": up}, Credential: true, Now: now}
		if step := transition.Next(v); step.Kind != transition.StopKubelet {
			t.Errorf("in %s: %s", stage, step.Kind)
		}
		v.Slots = slots{"a": mute}
		if step := transition.Next(v); step.Kind == transition.StopKubelet || step.Slot == journal.A {
			t.Errorf("in %s, when it is stopped: %s", stage, step.Kind)
		}
	}
}

// TestM57_NothingIsStoppedBeforeAllIsPrepared: what fails up to the last check leaves the old
// machine, and each stage has its time-out.
func TestM57_NothingIsStoppedBeforeAllIsPrepared(t *testing.T) {
	a := order(2, assignment.Repave, "2")
	v := transition.View{Journal: running(), Assignment: &a, Slots: slots{"a": mute}, Credential: true, Now: now}
	var kinds []transition.Kind
	for range 10 {
		step := transition.Next(v)
		kinds = append(kinds, step.Kind)
		if step.Kind == transition.RetireSlot {
			v.Slots = slots{}
		}
		if step.Kind == transition.BootSlot {
			v.Slots = slots{"b": second}
			v.Confirmed = &transition.Confirmation{Epoch: 2, NodeUID: "n2", BootID: "boot-2"}
		}
		if step.Limit == 0 && step.Kind != transition.Begin && step.Kind != transition.ConfirmJoin {
			t.Errorf("%s has no time-out", step.Kind)
		}
		v.Journal, _ = transition.After(v, step, transition.Result{Now: now, BootID: "boot-2"})
	}
	want := []transition.Kind{
		transition.Begin, transition.FetchRoot, transition.BuildSlot, transition.RecordHost, transition.CheckGuards, transition.RetireSlot,
		transition.BootSlot, transition.ConfirmJoin, transition.EnableSlot, transition.SweepSlots,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	j := v.Journal
	if j.Transition != nil || j.Active != journal.B || j.Previous != journal.A || j.Contents[journal.B].NodeUID != "n2" || j.Contents[journal.B].BootID != "boot-2" {
		t.Errorf("it ends with %+v", j)
	}
}

func TestM59_PreparingIsGivenUpAfterThreeFailures(t *testing.T) {
	v := tries(t, transition.View{Journal: underWay(journal.Fetch, nil), Slots: slots{"a": mute}, Now: now}, transition.FetchRoot, 3)
	step := transition.Next(v)
	if step.Kind != transition.GiveUp || step.Slot != journal.A {
		t.Fatalf("%s of %q because %q, want the kubelet of the old machine started", step.Kind, step.Slot, step.Reason)
	}
	v.Journal, _ = transition.After(v, step, transition.Result{Now: v.Now})
	if o := v.Journal.Outcome; v.Journal.Transition != nil || o == nil || o.Result != journal.Kept || o.Stage != journal.Fetch || o.Error != "no luck" || o.Epoch != 2 {
		t.Errorf("it ends with %+v", o)
	}
	a := order(2, assignment.Repave, "2")
	v.Assignment, v.Slots = &a, slots{"a": up}
	if step := transition.Next(v); step.Kind != transition.Wait {
		t.Errorf("the same assignment is tried again: %s", step.Kind)
	}
}

func TestM60_ASwitchIsRevertedAfterThreeFailures(t *testing.T) {
	v := tries(t, transition.View{Journal: underWay(journal.Boot, nil), Credential: true, Now: now}, transition.BootSlot, 3)
	r := v.Journal.Transition
	if r == nil || r.Kind != journal.KindRevert || r.From != journal.B || r.To != journal.A || r.Stage != journal.Retire {
		t.Fatalf("after three failures: %+v", r)
	}
	var kinds []transition.Kind
	for range 5 {
		step := transition.Next(v)
		kinds = append(kinds, step.Kind)
		if step.Kind == transition.BootSlot {
			v.Slots = slots{"a": {Phase: journal.Running, BootID: "boot-3", Kubelet: true}}
			v.Confirmed = &transition.Confirmation{Epoch: 2, BootID: "boot-3"}
		}
		v.Journal, _ = transition.After(v, step, transition.Result{Now: v.Now, BootID: "boot-3"})
	}
	want := []transition.Kind{transition.RetireSlot, transition.BootSlot, transition.ConfirmJoin, transition.EnableSlot, transition.SweepSlots}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	j := v.Journal
	if j.Active != journal.A || j.Previous != journal.None || !j.Contents[journal.B].Broken || j.Outcome == nil || j.Outcome.Result != journal.Reverted {
		t.Errorf("it ends with %+v, %+v", j, j.Outcome)
	}
}

func TestM60_HoldLeavesWhatFailed(t *testing.T) {
	hold := func(t *journal.Transition) { t.Assignment.Hold = true }
	for _, tt := range []struct {
		stage journal.Stage
		kind  transition.Kind
		slots slots
	}{
		{journal.Boot, transition.BootSlot, nil},
		{journal.Build, transition.BuildSlot, slots{"a": mute}},
	} {
		v := tries(t, transition.View{Journal: underWay(tt.stage, hold), Credential: true, Slots: tt.slots, Now: now}, tt.kind, 3)
		if step := transition.Next(v); step.Kind != transition.Wait || v.Journal.Outcome == nil || v.Journal.Outcome.Result != journal.Held {
			t.Errorf("%s: %s because %q, outcome %+v", tt.stage, step.Kind, step.Reason, v.Journal.Outcome)
		}
	}
}

func TestM61_TheFirstPaveIsTriedForEver(t *testing.T) {
	first := func(t *journal.Transition) {
		t.From, t.To, t.Assignment.Mode = journal.None, journal.A, assignment.Pave
	}
	for stage, kind := range map[journal.Stage]transition.Kind{
		journal.Fetch: transition.FetchRoot, journal.Build: transition.BuildSlot, journal.Guard: transition.RecordHost, journal.Boot: transition.BootSlot,
	} {
		j := underWay(stage, first)
		j.Active, j.Contents = journal.None, nil
		v := tries(t, transition.View{Journal: j, Credential: true, Now: now}, kind, 100)
		if v.Journal.Transition == nil || v.Journal.Outcome != nil {
			t.Errorf("%s was given up: %+v", stage, v.Journal.Outcome)
		}
	}
}

// TestM59_WhatCannotBeWrittenDownCounts: a disk that is full does not make a machine be built for
// ever while the one that ran stands still.
func TestM59_WhatCannotBeWrittenDownCounts(t *testing.T) {
	v := transition.View{Journal: full(underWay(journal.Build, nil), journal.Content{}), Slots: slots{"a": mute}, Now: now}
	v.Journal.Previous = journal.B
	for range transition.MaxAttempts {
		v.Now = v.Now.Add(time.Hour)
		step := transition.Next(v)
		if step.Kind != transition.BuildSlot {
			t.Fatalf("%s because %q", step.Kind, step.Reason)
		}
		var counted bool
		if v.Journal, counted = transition.Unwritten(v, step, transition.Result{Now: v.Now}); !counted || v.Journal.Transition.Attempts == 0 {
			t.Fatalf("counted %v: %+v", counted, v.Journal.Transition)
		}
	}
	if _, holds := v.Journal.Contents[journal.B]; holds || v.Journal.Previous != journal.None {
		t.Error("what the slot held before is still believed to be there")
	}
	if step := transition.Next(v); step.Kind != transition.GiveUp || !strings.Contains(step.Reason, "cannot be written") {
		t.Errorf("%s because %q", step.Kind, step.Reason)
	}
	// What changes the host is never gone on from without a journal.
	for stage, kind := range map[journal.Stage]transition.Kind{
		journal.Retire: transition.RetireSlot, journal.Boot: transition.BootSlot, journal.Commit: transition.EnableSlot, journal.Sweep: transition.SweepSlots,
	} {
		v := transition.View{Journal: underWay(stage, nil), Now: now}
		if j, counted := transition.Unwritten(v, transition.Step{Kind: kind, Slot: journal.B}, transition.Result{Now: now}); counted || j.Transition.Stage != stage {
			t.Errorf("%s: counted %v, %s", kind, counted, j.Transition.Stage)
		}
	}
}

// TestM46_AStaleNodeIsNotBelieved: a confirmation counts for the very boot that it is about.
func TestM46_AStaleNodeIsNotBelieved(t *testing.T) {
	joined := func(t *journal.Transition) { t.Marks.BootID = "boot-2" }
	v := transition.View{Journal: underWay(journal.Join, joined), Slots: slots{"b": second}, Now: now}
	for _, c := range []*transition.Confirmation{nil, {}, {Epoch: 2}, {Epoch: 2, BootID: "boot-1"}, {Epoch: 1, BootID: "boot-2"}} {
		v.Confirmed = c
		if step := transition.Next(v); step.Kind != transition.Wait {
			t.Errorf("%+v: %s", c, step.Kind)
		}
	}
	v.Confirmed = &transition.Confirmation{Epoch: 2, NodeUID: "n2", BootID: "boot-2"}
	step := transition.Next(v)
	if step.Kind != transition.ConfirmJoin {
		t.Fatalf("%s", step.Kind)
	}
	j, _ := transition.After(v, step, transition.Result{Now: now})
	if j.Transition.Stage != journal.Commit || j.Transition.Marks.NodeUID != "n2" || j.Active != journal.A {
		t.Errorf("%+v", j.Transition)
	}
}
