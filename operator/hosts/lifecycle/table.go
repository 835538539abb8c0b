package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

const (
	// ResetTimeout is how long a host has to be reset before its HostMachine goes without.
	ResetTimeout = 10 * time.Minute
	// Resync is how often a machine is looked at of which nothing is heard.
	Resync = time.Minute
	// soon is when to look whether something that was asked for has been done.
	soon = 5 * time.Second
	// credentialPause is how long a new credential has for reaching shard and host before another one is made.
	credentialPause = 30 * time.Second
)

// Decide returns what comes next. It is pure: equal inputs and times give equal decisions.
func Decide(in Input, now time.Time) Decision {
	d := decide(in, now)
	d.Action = cmp.Or(d.Action, None)
	d.After = cmp.Or(d.After, Resync)
	d.Conditions = conditions(in, d)
	d.Phase = phase(in, d)
	return d
}

// Postpone returns a decision that begins nothing in place of one whose assignment cannot be made, and decides
// again after a while.
func Postpone(in Input, d Decision, held Held, after time.Duration) Decision {
	d = Decision{Row: d.Row, Action: None, Reason: held.Message, Held: due(in, held), After: after}
	d.Conditions = conditions(in, d)
	d.Phase = phase(in, d)
	return d
}

// Assigned returns what there is to say of a machine once a decision to assign has made it next: that the last
// assignment was given up, or runs, is no word about this one. Both are to be written at once, as others take the
// conditions for those of what is assigned.
func Assigned(in Input, d Decision, next *hostsv1.HostMachine) Decision {
	in.Machine = next.DeepCopy()
	for _, of := range []string{hostsv1.ConditionPaved, hostsv1.ConditionRepaveFailed} {
		meta.RemoveStatusCondition(&in.Machine.Status.Conditions, of)
	}
	d.Conditions = conditions(in, d)
	d.Phase = phase(in, d)
	return d
}

// decide is the table. The first row that applies decides, in this order:
//
//	 0  the machine stands for no instance                     nothing
//	 1  it is being deleted                                    reset the host, then release it
//	 2  the instance is gone                                   nothing: the HostMachine goes with it
//	 3  the instance leaves, the shard is out of sight,        nothing
//	    the Node is unknown
//	 5  nothing was assigned, or more than the status knows    assign the first epoch, or one above all
//	 8  what was assigned runs and its Node has joined         mark it, write it down, tell the host
//	 6  the host has not what was assigned, or no credential   publish, with a new credential if needed
//	 7  the host builds                                        wait; remove the Node of the old machine; what had
//	                                                           joined before, and what is tried for ever and cannot
//	                                                           join or is not wanted, is assigned as the next epoch
//	 9  the Node is gone, seen twice                           assign the next epoch, mode Repave; before rows 6 and 7 where
//	                                                           nobody has seen it in the boot that waits for it
//	10  the host gave up                                       mark what it went back to; try again if asked
//	11  a repave would build something else                    nothing: deleting the Node is the user's word
//	12  else                                                   keep the marks of the Node right
//
// Rows 5, 9 and a new try of rows 7 and 10 begin something, as does another try for a machine that was taken over: they wait while the machine is paused or on hold for power (row 3),
// while nothing can be built (row 4), and row 9 while the brake is on.
func decide(in Input, now time.Time) Decision {
	m := in.Machine
	switch {
	case m.Spec.Instance == nil:
		return Decision{Row: RowForeign, Reason: "the machine stands for no instance"}
	case !m.DeletionTimestamp.IsZero():
		return deleting(in, now)
	case in.Instance.Gone:
		return Decision{Row: RowGone, Reason: "the instance is gone; its HostMachine goes with it"}
	}
	if held := blocked(in); held.Reason != "" {
		return Decision{Row: RowBlocked, Reason: held.Message, Held: due(in, held)}
	}
	if in.Node.Presence != NodeLive && in.Node.Presence != NodeAbsent {
		return Decision{Row: RowBlocked, Reason: "it is not known whether the Node exists: " + in.Node.Why, After: soon}
	}
	a := assigned(m)
	if a == nil || behind(in) {
		return first(in)
	}
	slot := joined(in.Host.Report, in.Node, now)
	if slot != nil && slot.Epoch == a.Epoch && in.Host.Report.failed(a.Epoch) == nil && (!gone(in) || outdated(m)) {
		if d, done := confirm(in, *slot); !done {
			return d
		}
	}
	if unseen(in) {
		return missed(in)
	}
	switch d, told := publish(in, now); {
	case told:
		return d
	case forgotten(in):
		return rebuild(in)
	case in.Host.Report.Stage.Building():
		if d, another := replaced(in); another {
			return d
		}
		return building(in)
	case gone(in):
		return missed(in)
	case in.Host.Report.failed(a.Epoch) != nil:
		return failed(in, slot)
	}
	return steady(in)
}

// blocked says why nothing may be decided about a machine, whatever else is so.
func blocked(in Input) Held {
	switch {
	case in.Instance.Leaving != "":
		return Held{HeldLeaving, in.Instance.Leaving}
	case !in.Instance.Complete || !in.Host.Known:
		return Held{HeldIncomplete, fmt.Sprintf("shard %s has not said all that it knows", in.Machine.Spec.Instance.Shard)}
	}
	return Held{}
}

// due is the reason that a repave waits for, if one is due.
func due(in Input, held Held) Held {
	if gone(in) {
		return held
	}
	return Held{}
}

// gone is whether the Node that the machine has is not there, or another one is.
func gone(in Input) bool {
	ref := refers(in.Machine)
	return ref != "" && (in.Node.Presence == NodeAbsent || in.Node.there() && in.Node.UID != ref)
}

// outdated is whether a machine has the Node of another version than is assigned: one that was gone back to, before
// the host built what is assigned after all. That this Node is gone was no word about the one that has joined since.
func outdated(m *hostsv1.HostMachine) bool {
	a, version := assigned(m), applied(m)
	return version != nil && !same(version.VersionReference, a.VersionReference)
}

// begin is a decision that begins something, or says why that waits (rows 3 and 4).
func begin(in Input, d Decision) Decision {
	switch {
	case in.Machine.Spec.Paused:
		held := Held{HeldPaused, "the HostMachine is paused"}
		return Decision{Row: RowBlocked, Reason: held.Message, Held: due(in, held)}
	case in.Instance.PowerHeld:
		held := Held{HeldPower, "the instance is on hold for power: it is off, or is about to be switched"}
		return Decision{Row: RowBlocked, Reason: held.Message, Held: due(in, held)}
	case in.Desired.Version == nil && (d.Assignment.Mode != hostsv1.ModeAdopt || in.Older != ""):
		held := Held{in.Desired.Reason, in.Desired.Message}
		return Decision{Row: RowNoVersion, Reason: held.Message, Held: due(in, held)}
	case !slices.Contains(in.Machine.Finalizers, hostsv1.Finalizer):
		return Decision{Row: d.Row, Action: Hold, Reason: "the host has to be reset before the HostMachine may go"}
	}
	return d
}

// next is the epoch of the next assignment: above all that anybody has heard of.
func next(in Input) int64 {
	var epoch int64
	if a := assigned(in.Machine); a != nil {
		epoch = a.Epoch
	}
	if in.Host.Stored != nil {
		epoch = max(epoch, in.Host.Stored.Epoch)
	}
	if in.Host.Report != nil {
		epoch = max(epoch, in.Host.Report.Epoch)
	}
	return epoch + 1
}

// behind is whether host or shard know of a later assignment than the status: that of a machine that
// was restored from a backup, or made anew.
func behind(in Input) bool {
	a := assigned(in.Machine)
	return a != nil && (next(in) > a.Epoch+1 || wiped(in.Host.Report, a.Epoch))
}

// wiped is whether a host was reset by an epoch, or a later one: it takes no other assignment of it.
func wiped(r *Report, epoch int64) bool {
	return r != nil && r.Stage == StageReset && r.Epoch >= epoch
}

// first is row 5: the host was told nothing, as far as the status knows.
func first(in Input) Decision {
	m, r := in.Machine, in.Host.Report
	if s := in.Host.Stored; s != nil && s.MachineUID == string(m.UID) && s.Mode != hostsv1.ModeReset && (r == nil || r.Epoch <= s.Epoch) && !wiped(r, s.Epoch) {
		return Decision{Row: RowFirst, Action: Recover, Reason: fmt.Sprintf("the shard keeps epoch %d of this machine, of which its status knows nothing", s.Epoch)}
	}
	wait := func(format string, args ...any) Decision {
		return Decision{Row: RowFirst, Reason: fmt.Sprintf(format, args...)}
	}
	if why := unready(in); why != "" {
		return wait("%s", why)
	}
	d := Decision{Row: RowFirst, Action: Assign, Assignment: Assignment{Epoch: next(in)}}
	switch running := r.running(); {
	case running == nil && in.Node.there() && in.Node.MachineUID != string(m.UID):
		return wait("Node %s exists and was not built here; delete it, or give the HostMachine another node name", m.NodeName())
	case r.Stage.Building():
		// Whose it was is gone, and nobody else helps it: what has to join would never be confirmed.
		d.Reason = "what the host builds was assigned for another HostMachine, and fails"
		d.Assignment.Mode, d.Assignment.Reason, d.Assignment.ExpectedNodeUID = hostsv1.ModePave, ReasonFirst, in.Node.UID
		if running != nil {
			d.Assignment.Mode = hostsv1.ModeRepave
		}
	case running == nil:
		d.Reason = "the host has no node machine"
		d.Assignment.Mode, d.Assignment.Reason = hostsv1.ModePave, ReasonFirst
		d.Assignment.ExpectedNodeUID = in.Node.UID
	case in.Desired.Known != nil && in.Desired.Known(running.Version):
		d.Reason = fmt.Sprintf("the host runs version %d of %s already", running.Version.Version, running.Version.Name)
		d.Assignment.Mode, d.Assignment.Reason, d.Assignment.Version = hostsv1.ModeAdopt, ReasonAdopted, running.Version
		d.Assignment.ExpectedNodeUID = in.Node.UID
	case retried(m):
		d.Reason = "the host runs what does not exist here, and annotation " + hostsv1.AnnotationRetry + " asks for another"
		d.Assignment.Mode, d.Assignment.Reason = hostsv1.ModeRepave, ReasonRetried
		d.Assignment.ExpectedNodeUID = in.Node.UID
	default:
		return wait("the host runs version %d of %s, which does not exist here; set annotation %s to build another machine in its place",
			running.Version.Version, running.Version.Name, hostsv1.AnnotationRetry)
	}
	return begin(in, of(in, d))
}

// unready is why a host can't be given its first assignment yet; empty: it can.
func unready(in Input) string {
	r := in.Host.Report
	switch check, s := failedCheck(r), in.Host.Stored; {
	case s != nil && s.Mode == hostsv1.ModeReset && (r == nil || r.Epoch < s.Epoch):
		return fmt.Sprintf("the host has not taken the reset that the shard keeps for it, epoch %d", s.Epoch)
	case !in.Instance.Running:
		return "the instance does not run"
	case !in.Host.Connected:
		return "the agent is not connected"
	case r == nil:
		return "the host has not reported"
	case check != nil:
		return fmt.Sprintf("the host does not pass a check of the preflight: %s: %s", check.ID, check.Message)
	case r.Stage == StageResetting, r.Stage.Building() && r.Attempts == 0 && !r.CredentialNeeded:
		return fmt.Sprintf("the host is in stage %s of another assignment", r.Stage)
	}
	return ""
}

// of gives an assignment the version that is desired, unless it has one.
func of(in Input, d Decision) Decision {
	if d.Assignment.Version == (hostsv1.VersionReference{}) && in.Desired.Version != nil {
		d.Assignment.Version = *in.Desired.Version
	}
	return d
}

// failedCheck returns the first check that forbids to build; nil: none does.
func failedCheck(r *Report) *Check {
	if r == nil {
		return nil
	}
	i := slices.IndexFunc(r.Preflight, func(c Check) bool { return c.Failed })
	if i < 0 {
		return nil
	}
	return &r.Preflight[i]
}

// retried is whether a user asks to try again what was given up.
func retried(m *hostsv1.HostMachine) bool {
	asked, was := m.Annotations[hostsv1.AnnotationRetry], ""
	if m.Status.Repave != nil {
		was = m.Status.Repave.Retry
	}
	return asked != "" && asked != was
}

// confirm is row 8: what was assigned runs in this slot, and its Node has joined. It is done when
// status, Node and host know.
func confirm(in Input, slot Slot) (d Decision, done bool) {
	m, a := in.Machine, assigned(in.Machine)
	version := applied(m)
	s := in.Host.Stored
	told := s == nil || s.Epoch != a.Epoch || s.tells(in.Host.Report, in.Node.UID, slot.BootID)
	if version != nil && same(version.VersionReference, a.VersionReference) && refers(m) == in.Node.UID && in.Node.Marked && told {
		return Decision{}, true
	}
	return Decision{
		Row: RowJoined, Action: Confirm, Reason: "the Node has the boot ID that the host reports",
		Joined: Joined{NodeUID: in.Node.UID, ResourceVersion: in.Node.ResourceVersion, Version: a.VersionReference, BootID: slot.BootID, Epoch: a.Epoch},
	}, false
}

// unseen is whether the Node is gone that has joined, and the host does not know that it had, of the boot that runs.
// It is not told: whether the Node was in that boot nobody can say any more, and a host that believes it gives up what it
// could go back to (M46, M58). It waits until its time to join is over, and takes the next epoch then.
func unseen(in Input) bool {
	a, r, s := assigned(in.Machine), in.Host.Report, in.Host.Stored
	running := r.running()
	return gone(in) && !outdated(in.Machine) && running != nil && running.Epoch == a.Epoch && r.Stage.joining() && r.failed(a.Epoch) == nil &&
		s != nil && s.Epoch == a.Epoch && !s.tells(r, refers(in.Machine), running.BootID)
}

// publish is row 6: host or shard do not have what was assigned. Nothing is said twice without need:
// the shard delivers what it stores.
func publish(in Input, now time.Time) (d Decision, told bool) {
	m, a, r, s := in.Machine, assigned(in.Machine), in.Host.Report, in.Host.Stored
	d = Decision{Row: RowTold, Action: Publish, After: soon}
	adopts := adopts(m)
	switch {
	case s == nil || s.Epoch < a.Epoch:
		if m.Spec.Paused {
			return Decision{Row: RowBlocked, Reason: "the HostMachine is paused"}, true
		}
		d.Reason = fmt.Sprintf("the shard does not have epoch %d", a.Epoch)
		d.NewCredential = !adopts && !usable(m, now)
		return d, true
	case s.Confirmed != "" || adopts || r.failed(a.Epoch) != nil:
	case s.CredentialMissing:
		d.Reason, d.NewCredential = "the shard has no credential for it", !issued(m, now)
		return d, true
	case r != nil && r.Epoch == a.Epoch && r.CredentialNeeded && in.Host.Connected && !issued(m, now):
		d.Reason, d.NewCredential = "the host has no credential", true
		return d, true
	case !usable(m, now):
		d.Reason, d.NewCredential = "half the life of the credential is over", true
		return d, true
	}
	if r == nil || r.Epoch < a.Epoch {
		return Decision{Row: RowTold, Reason: fmt.Sprintf("the host has not taken epoch %d", a.Epoch)}, true
	}
	return Decision{}, false
}

// issued is whether a credential of the assignment was made a moment ago. What shard and host say of it may be
// from before; and where none lasts, as a clock is wrong, none is made for each report.
func issued(m *hostsv1.HostMachine, now time.Time) bool {
	a, r := assigned(m), m.Status.Repave
	return r != nil && r.Join != nil && r.Join.Epoch == a.Epoch && r.Join.IssuedAt != nil && now.Before(r.Join.IssuedAt.Add(credentialPause))
}

// usable is whether the credential of the assignment has more than half of its life before it.
func usable(m *hostsv1.HostMachine, now time.Time) bool {
	a := assigned(m)
	if m.Status.Repave == nil || m.Status.Repave.Join == nil {
		return false
	}
	j := m.Status.Repave.Join
	if j.Epoch != a.Epoch || j.IssuedAt == nil || j.ExpiresAt == nil {
		return false
	}
	return now.Before(j.IssuedAt.Add(j.ExpiresAt.Sub(j.IssuedAt.Time) / 2))
}

// adopts is whether what is assigned is what a host ran already.
func adopts(m *hostsv1.HostMachine) bool {
	return m.Status.Repave != nil && m.Status.Repave.Mode == hostsv1.ModeAdopt
}

// missed is row 9: the Node that the machine has is gone.
func missed(in Input) Decision {
	if !in.Node.Confirmed {
		return Decision{Row: RowMissed, Action: LookAgain, Reason: "the Node is gone, by one answer", After: ConfirmAfter}
	}
	d := Decision{Row: RowMissed, Action: Assign, Reason: fmt.Sprintf("Node %s was deleted", in.Machine.NodeName())}
	d.Assignment = Assignment{Mode: hostsv1.ModeRepave, Epoch: next(in), Reason: ReasonNodeDeleted}
	if in.Node.there() {
		d.Reason = fmt.Sprintf("Node %s was deleted, and its kubelet has made another one", in.Machine.NodeName())
		d.Assignment.Reason, d.Assignment.ExpectedNodeUID, d.Assignment.Cordon = ReasonNodeReplaced, in.Node.UID, in.Node.UID
	}
	if d = begin(in, of(in, d)); d.Action == Assign && in.Braked != "" {
		return Decision{Row: RowMissed, Reason: in.Braked, Held: Held{HeldBrake, in.Braked}}
	}
	return d
}

// failed is row 10: the host gave the assignment up. What it went back to is written down when its
// Node is there again. Another try takes a user's word: another version, another value of the
// annotation, or the deletion of the Node, which is row 9. A rollout deletes the Node in its turn.
func failed(in Input, slot *Slot) Decision {
	m, a := in.Machine, assigned(in.Machine)
	f := in.Host.Report.failed(a.Epoch)
	if other := in.Desired.Version; other != nil && !same(*other, a.VersionReference) && !(in.Rolled && in.Node.there()) || retried(m) {
		d := Decision{Row: RowFailed, Action: Assign, Reason: "another version is desired than the one that failed"}
		if retried(m) {
			d.Reason = "annotation " + hostsv1.AnnotationRetry + " asks for another try"
		}
		d.Assignment = Assignment{Mode: hostsv1.ModeRepave, Epoch: next(in), Reason: ReasonRetried, ExpectedNodeUID: in.Node.UID}
		return begin(in, of(in, d))
	}
	d := Decision{Row: RowFailed, Reason: fmt.Sprintf("the host gave epoch %d up: %s", a.Epoch, f.Reason)}
	if slot == nil || slot.Epoch == a.Epoch {
		return d
	}
	version := applied(m)
	if version == nil || !same(version.VersionReference, slot.Version) || refers(m) != in.Node.UID || !in.Node.Marked {
		d.Action, d.Reason = Confirm, "the machine of before runs again, and its Node has joined"
		d.Joined = Joined{NodeUID: in.Node.UID, ResourceVersion: in.Node.ResourceVersion, Version: slot.Version}
	}
	return d
}

// steady are rows 11 and 12: nothing is to be done, but that the marks of the Node are kept right.
func steady(in Input) Decision {
	m := in.Machine
	d := Decision{Row: RowSteady, Reason: "nothing is to be done"}
	version := applied(m)
	switch {
	case version == nil && adopts(m) && retried(m):
		d.Action, d.Reason = Assign, "annotation "+hostsv1.AnnotationRetry+" asks for another machine than the one that was taken over"
		d.Assignment = Assignment{Mode: hostsv1.ModeRepave, Epoch: next(in), Reason: ReasonRetried, ExpectedNodeUID: in.Node.UID}
		return begin(in, of(in, d))
	case version == nil:
		d.Reason = "the Node has not joined"
	case in.Desired.Version != nil && !same(*in.Desired.Version, version.VersionReference):
		d.Row, d.Reason = RowOutdated, "a repave would build something else; deleting the Node asks for it"
	}
	if version != nil && in.Node.there() && in.Node.UID == refers(m) && !in.Node.Marked {
		d.Action, d.Reason = Mark, "the marks of the Node are not those that the operator wrote"
		d.Joined = Joined{NodeUID: in.Node.UID, ResourceVersion: in.Node.ResourceVersion, Version: version.VersionReference}
	}
	return d
}
