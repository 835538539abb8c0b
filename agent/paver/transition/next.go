package transition

import (
	"fmt"
	"time"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
)

// Again is how long a decision is good for at most.
const Again = time.Minute

// killLimit bounds a kill, bootLimit the boot of the active slot, whose assignment is past, and
// resetLimit a reset.
const (
	killLimit  = 30 * time.Second
	bootLimit  = 2 * time.Minute
	resetLimit = 15 * time.Minute
)

// Next returns the one thing to do now. Equal views give equal steps.
func Next(v View) Step {
	if a := v.Assignment; a != nil && a.Mode == assignment.Reset && a.Epoch > v.Journal.Epoch {
		return reset(v)
	}
	if step, ok := unexpected(v); ok {
		return step
	}
	t := v.Journal.Transition
	switch {
	case t == nil:
		return idle(v)
	case replaceable(v):
		return replace(v)
	case t.Marks.Held:
		return wait(v, time.Time{}, fmt.Sprintf("epoch %d failed and is held for inspection", t.Epoch))
	case stages[t.Stage].prepares && !t.Marks.GaveUp:
		return prepare(v, t)
	case t.Stage == journal.Boot:
		return boot(v, t)
	case t.Stage == journal.Join:
		return join(v, t)
	}
	return onward(v, t)
}

// reset is the only assignment that goes before everything else: what it takes away would be
// built, or mended, for nothing.
func reset(v View) Step {
	if v.Now.Before(v.Idle) {
		return wait(v, v.Idle, "the reset failed; the next attempt is due later")
	}
	return Step{Kind: ResetHost, Reason: fmt.Sprintf("epoch %d asks for a reset", v.Assignment.Epoch), Limit: resetLimit}
}

// onward decides where there is no other way than to go on.
func onward(v View, t *journal.Transition) Step {
	joined := t.Stage == journal.Commit || t.Stage == journal.Sweep
	switch {
	case joined && v.Slots[t.To].Phase != journal.Running && !v.Now.Before(v.Idle):
		// What is left to do may take long, or fail for as long as a disk is full.
		return Step{Kind: StartActive, Slot: t.To, Reason: "the machine ended after its Node had joined", Limit: bootLimit}
	case v.Now.Before(t.RetryAt):
		return wait(v, t.RetryAt, fmt.Sprintf("%s failed %d times: %s", t.Stage, t.Attempts, t.LastError))
	case t.Marks.GaveUp:
		return Step{Kind: GiveUp, Slot: t.From, Reason: fmt.Sprintf("epoch %d failed %d times: %s", t.Epoch, t.Attempts, t.LastError), Limit: grace}
	case t.Stage == journal.Retire:
		return stageStep(t, RetireSlot, t.From, retireReason(t))
	case t.Stage == journal.Commit:
		return stageStep(t, EnableSlot, t.To, t.To.Machine()+" has joined")
	}
	return stageStep(t, SweepSlots, t.To, "the transition is complete")
}

// unexpected finds machines and processes that should not exist. The one that may run is left
// alone while another one does: it is the one with the node.
func unexpected(v View) (Step, bool) {
	may := mayRun(v.Journal)
	for _, slot := range journal.Slots() {
		var reason string
		switch phase := v.Slots[slot].Phase; {
		case phase == journal.Orphan:
			reason = "processes of a machine whose systemd-nspawn has ended"
		case phase != journal.Running || slot == may:
			continue
		case v.Slots[slot.Other()].Phase == journal.Running:
			reason = fmt.Sprintf("SplitSlots: both slots run; the one that may is %s", slotName(may))
		default:
			reason = "the journal does not know of this machine"
		}
		if v.Now.Before(v.Idle) {
			return wait(v, v.Idle, slot.Machine()+" could not be killed; the next attempt is due later"), true
		}
		return Step{Kind: KillSlot, Slot: slot, Reason: reason, Limit: killLimit}, true
	}
	return Step{}, false
}

func slotName(slot journal.Slot) string {
	if slot == journal.None {
		return "none"
	}
	return slot.Machine()
}

// idle decides where no transition is under way.
func idle(v View) Step {
	j := v.Journal
	if a := v.Assignment; a != nil && a.Epoch > j.Epoch {
		return begin(v, a)
	}
	down := j.Active != journal.None && v.Slots[j.Active].Phase != journal.Running
	spare := Spare(j)
	switch {
	case (down || v.DiskLow) && v.Now.Before(v.Idle):
		return wait(v, v.Idle, "the last step failed; the next attempt is due later")
	case down:
		return Step{Kind: StartActive, Slot: j.Active, Reason: "the active slot does not run", Limit: bootLimit}
	case v.DiskLow && spare != journal.None:
		return freeSlot(spare, "the disk is nearly full")
	}
	return wait(v, time.Time{}, "nothing is to be done")
}

// Spare is the slot with a tree that nothing runs from and nothing is to go back to in need: what
// was the active one before, or what did not join and was reverted. None: there is no such slot.
func Spare(j journal.Journal) journal.Slot {
	for _, slot := range journal.Slots() {
		if _, holds := j.Contents[slot]; (holds || slot == j.Previous) && slot != j.Active && slot != mayRun(j) {
			return slot
		}
	}
	return journal.None
}

func freeSlot(slot journal.Slot, reason string) Step {
	return Step{Kind: FreeSlot, Slot: slot, Reason: reason, Limit: stages[journal.Sweep].limit(assignment.Timeouts{})}
}

// begin decides how a new assignment is begun.
func begin(v View, a *assignment.Assignment) Step {
	j := v.Journal
	if a.Mode != assignment.Adopt {
		return Step{Kind: Begin, Slot: target(j), Reason: fmt.Sprintf("assignment of epoch %d: %s of %s", a.Epoch, a.Mode, a.Configuration)}
	}
	content, ok := j.Contents[j.Active]
	switch {
	case j.Active == journal.None || !ok:
		return Step{Kind: Refuse, Limit: grace, Reason: fmt.Sprintf("epoch %d adopts a node machine, and this host has none", a.Epoch)}
	case content.Configuration.Hash != a.Configuration.Hash:
		return Step{Kind: Refuse, Slot: j.Active, Limit: grace, Reason: fmt.Sprintf("epoch %d adopts content %.19s, and the active slot holds %.19s",
			a.Epoch, a.Configuration.Hash, content.Configuration.Hash)}
	}
	return Step{Kind: TakeOver, Slot: j.Active, Limit: grace, Reason: fmt.Sprintf("epoch %d adopts what runs", a.Epoch)}
}

// target is the slot that a new machine is built in.
func target(j journal.Journal) journal.Slot { return j.Active.Other() }

// replaceable reports whether a newer assignment takes the place of the transition now. While the
// old machine runs it always does; afterwards only between two attempts, or once it is held: what
// is being booted is not pulled away from under itself.
func replaceable(v View) bool {
	t, a := v.Journal.Transition, v.Assignment
	if a == nil || a.Epoch <= v.Journal.Epoch {
		return false
	}
	return stages[t.Stage].prepares || t.Stage == journal.Sweep || t.Marks.Held || (t.Stage == journal.Boot && t.Marks.Dirty)
}

func replace(v View) Step {
	t := v.Journal.Transition
	if v.Now.Before(v.Idle) {
		return wait(v, v.Idle, "the last step failed; the next attempt is due later")
	}
	if t.Stage == journal.Boot && v.Slots[t.To].Phase == journal.Running {
		return Step{Kind: StopSlot, Slot: t.To, Limit: stopLimit(t), Reason: fmt.Sprintf("epoch %d takes the place of epoch %d, which failed", v.Assignment.Epoch, t.Epoch)}
	}
	return begin(v, v.Assignment)
}

// prepare decides while the old machine runs.
func prepare(v View, t *journal.Transition) Step {
	old, due := v.Slots[t.From], !v.Now.Before(v.Idle)
	if t.Assignment.Mode == assignment.Repave && old.Phase == journal.Running && old.Kubelet && due {
		return Step{Kind: StopKubelet, Slot: t.From, Reason: "its Node was deleted: it must not register again", Limit: stopLimit(t)}
	}
	if v.Now.Before(t.RetryAt) {
		return wait(v, t.RetryAt, fmt.Sprintf("%s failed %d times: %s", t.Stage, t.Attempts, t.LastError))
	}
	switch {
	case t.Stage == journal.Build && t.Marks.Reuse:
		return stageStep(t, RefreshSlot, t.To, "the slot holds this content already")
	case (t.Stage == journal.Fetch || t.Stage == journal.Build) && v.DiskLow && due && Spare(v.Journal) == t.To:
		return freeSlot(t.To, "the disk is nearly full, and the slot is built again")
	case t.Stage == journal.Fetch:
		return stageStep(t, FetchRoot, t.To, fmt.Sprintf("%s is to be built", t.Assignment.Configuration))
	case t.Stage == journal.Guard && !t.Marks.Recorded:
		return stageStep(t, RecordHost, t.To, "what the host is like is written down before it is changed")
	case t.Stage == journal.Guard && !joinable(v, t) && !v.Now.Before(t.Since.Add(t.Assignment.Timeouts.WithDefaults().Prepare)):
		return Step{Kind: LoseAttempt, Slot: t.To, Reason: "no credential to join with has come"}
	case t.Stage == journal.Guard && !joinable(v, t):
		return ask(v, t, "before the old machine is stopped")
	}
	return stageStep(t, stages[t.Stage].work, t.To, fmt.Sprintf("%s is prepared", t.Assignment.Configuration))
}

// joinable reports whether there is a credential, here or in the slot, that still can be used when
// the kubelet of the new machine asks with it.
func joinable(v View, t *journal.Transition) bool {
	least := v.Now.Add(ahead(t))
	return v.Credential && (v.CredentialUntil.IsZero() || !v.CredentialUntil.Before(least)) || !t.Marks.CredentialUntil.Before(least)
}

// mostAhead bounds what is asked of a credential: one of an hour is made anew when half of that is
// over, and must be good for something until then.
const mostAhead = 25 * time.Minute

// ahead is how long it may take from the stage of a transition until the new kubelet has asked for
// its certificate.
func ahead(t *journal.Transition) time.Duration {
	limits := t.Assignment.Timeouts.WithDefaults()
	d := limits.Boot + time.Minute
	if stages[t.Stage].prepares {
		d += limits.Stop
	}
	return min(d, mostAhead)
}

func retireReason(t *journal.Transition) string {
	if t.Kind == journal.KindRevert {
		return fmt.Sprintf("epoch %d is reverted: %s", t.Epoch, t.LastError)
	}
	return fmt.Sprintf("%s is ready to take its place", t.To.Machine())
}

// boot decides while the old machine is down and the new one is to be started.
func boot(v View, t *journal.Transition) Step {
	machine := v.Slots[t.To]
	if t.Marks.Dirty && confirmed(v, t) && machine.Phase == journal.Running && machine.BootID == t.Marks.BootID {
		return Step{Kind: ConfirmJoin, Slot: t.To, Reason: "the Node has joined late"}
	}
	if v.Now.Before(t.RetryAt) {
		return wait(v, t.RetryAt, fmt.Sprintf("%s failed %d times: %s", t.To.Machine(), t.Attempts, t.LastError))
	}
	switch {
	case t.Marks.Dirty && machine.Phase == journal.Running:
		return Step{Kind: StopSlot, Slot: t.To, Reason: "the machine of the attempt before", Limit: stopLimit(t)}
	case t.Kind == journal.KindBuild && machine.Phase != journal.Running && !joinable(v, t):
		if limit := t.Since.Add(t.Assignment.Timeouts.WithDefaults().Join); !v.Now.Before(limit) {
			return Step{Kind: LoseAttempt, Slot: t.To, Reason: "no credential to join with has come"}
		}
		return ask(v, t, "to boot "+t.To.Machine())
	}
	return stageStep(t, BootSlot, t.To, "the old machine is down")
}

// join decides while the new machine runs and its Node is awaited.
func join(v View, t *journal.Transition) Step {
	machine := v.Slots[t.To]
	deadline := t.Since.Add(t.Assignment.Timeouts.WithDefaults().Join)
	switch {
	case machine.Phase != journal.Running:
		return Step{Kind: LoseAttempt, Slot: t.To, Reason: "the machine ended before its Node joined"}
	case machine.BootID != "" && machine.BootID != t.Marks.BootID:
		return Step{Kind: LookAgain, Slot: t.To, Reason: "the machine was booted again by itself"}
	case confirmed(v, t):
		return Step{Kind: ConfirmJoin, Slot: t.To, Reason: "the Node has joined"}
	case v.Now.Before(deadline):
		return wait(v, deadline, "the Node has not joined yet")
	case t.Kind == journal.KindRevert:
		return Step{Kind: ConfirmJoin, Slot: t.To, Reason: "the machine from before runs; its Node is not confirmed in time, and there is nothing else to go back to"}
	}
	return Step{Kind: LoseAttempt, Slot: t.To, Reason: fmt.Sprintf("the Node has not joined in %v", t.Assignment.Timeouts.WithDefaults().Join)}
}

// confirmed reports whether the Node that joined is the one of the machine that runs (M46).
func confirmed(v View, t *journal.Transition) bool {
	c := v.Confirmed
	return c != nil && c.Epoch == t.Epoch && c.BootID != "" && c.BootID == t.Marks.BootID
}

// stageStep is the work of a transition's stage.
func stageStep(t *journal.Transition, kind Kind, slot journal.Slot, reason string) Step {
	return Step{Kind: kind, Slot: slot, Reason: reason, Limit: stages[t.Stage].limit(t.Assignment.Timeouts.WithDefaults())}
}

func stopLimit(t *journal.Transition) time.Duration {
	return t.Assignment.Timeouts.WithDefaults().Stop + grace
}

func ask(v View, t *journal.Transition, why string) Step {
	step := wait(v, time.Time{}, fmt.Sprintf("a credential for epoch %d is needed %s", t.Epoch, why))
	step.Kind, step.Slot = AskForSecret, t.To
	return step
}

// wait is until a moment, and at most for [Again].
func wait(v View, until time.Time, reason string) Step {
	again := v.Now.Add(Again)
	if !until.IsZero() && until.Before(again) {
		again = until
	}
	return Step{Kind: Wait, Reason: reason, Until: again}
}
