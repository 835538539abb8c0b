package lifecycle

import (
	"fmt"
	"slices"
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// deleting is row 1: the host is reset if it answers in time, and released. The time counts from when
// it was told to, so that a deletion which nobody saw for a while is no reason to skip the reset. What the shard
// keeps is not known while it is out of sight: then nothing is taken for never told.
func deleting(in Input, now time.Time) Decision {
	m, a, r, s := in.Machine, assigned(in.Machine), in.Host.Report, in.Host.Stored
	d := Decision{Row: RowDeleting, Action: Release}
	resets := a != nil && m.Status.Repave != nil && m.Status.Repave.Mode == hostsv1.ModeReset
	takes := resets && in.Host.Connected && r != nil && r.Epoch == a.Epoch && r.Stage == StageResetting
	deadline, free := resetDeadline(m, resets), released(in, resets)
	switch {
	case !slices.Contains(m.Finalizers, hostsv1.Finalizer):
		d.Action, d.Reason = None, "it has no finalizer of the operator"
	case free != "":
		d.Reason = free
	case !resets && a != nil:
		d.assignReset(next(in), a.VersionReference)
	case !resets && s != nil:
		d.assignReset(next(in), s.Version)
	case in.Host.Known && (s == nil || s.Epoch < a.Epoch):
		d.Action, d.Reason, d.After = Publish, fmt.Sprintf("the shard does not have epoch %d", a.Epoch), soon
	case !now.Before(deadline) && !takes:
		d.Reason = fmt.Sprintf("the host was not reset within %v", ResetTimeout)
		d.Skipped = d.Reason + unanswered(in.Host, a)
		d.ResetKept = resets && in.Host.Known && s.Epoch == a.Epoch && s.Mode == hostsv1.ModeReset
	case a == nil:
		d.Action, d.Reason, d.After = None, "the shard has not said what it keeps for the host", until(deadline, now)
	default:
		d.Action, d.Reason, d.After = None, "the host is to reset itself", until(deadline, now)
	}
	return d
}

// released is why there is nothing to wait for; empty: there is.
func released(in Input, resets bool) string {
	a, r, s := assigned(in.Machine), in.Host.Report, in.Host.Stored
	switch {
	case in.Instance.Gone:
		return "the host is gone with its instance"
	case a == nil && s == nil && in.Host.Known:
		return "the host was told nothing"
	case resets && r != nil && r.Epoch >= a.Epoch && r.Stage == StageReset:
		return "the host was reset"
	}
	return ""
}

// assignReset makes it the decision that the host is told to reset itself.
func (d *Decision) assignReset(epoch int64, version hostsv1.VersionReference) {
	d.Action, d.Reason = Assign, "the HostMachine is being deleted"
	d.Assignment = Assignment{Mode: hostsv1.ModeReset, Epoch: epoch, Reason: ReasonDeleting, Version: version}
}

// unanswered is what is known of why a host was not reset in time, as the end of a sentence; it may be empty.
func unanswered(h Host, a *hostsv1.AssignedVersion) string {
	if f := h.Report.failed(epochOf(a)); f != nil {
		return ": " + f.Message
	}
	if !h.Connected {
		return ": its agent is not connected"
	}
	return ""
}

// resetDeadline is when a machine goes without a reset.
func resetDeadline(m *hostsv1.HostMachine, resets bool) time.Time {
	from := m.DeletionTimestamp.Time
	if resets && m.Status.Repave.StartedAt != nil && m.Status.Repave.StartedAt.After(from) {
		from = m.Status.Repave.StartedAt.Time
	}
	return from.Add(ResetTimeout)
}

// until is when to look again at what ends at a deadline.
func until(deadline, now time.Time) time.Duration { return max(min(deadline.Sub(now), Resync), soon) }

func epochOf(a *hostsv1.AssignedVersion) int64 {
	if a == nil {
		return 0
	}
	return a.Epoch
}
