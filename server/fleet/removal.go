package fleet

import "time"

// WantsDrain reports whether a removal for this reason waits for the work to be
// moved off, where the VM runs and its group drains. What never joined, or is
// not there, has no work to move.
func (r Reason) WantsDrain() bool {
	switch r {
	case ReasonUnhealthy, ReasonSpotTermination, ReasonExpired, ReasonForcedExpiry, ReasonConfigDrift,
		ReasonScaleDown, ReasonGroupDeleted, ReasonRequested, ReasonTenantSleep:
		return true
	default:
		return false
	}
}

// NeverJoined reports whether the reason means that the instance never was of
// use to anybody.
func (r Reason) NeverJoined() bool {
	return r == ReasonRegistrationTimeout || r == ReasonAbandoned
}

// Waits reports whether the reason is one that waits for a good moment.
func (r Reason) Waits() bool { return r == ReasonExpired || r == ReasonConfigDrift }

// NewRemoval is the removal of in for the given reason, decided at now: with a
// drain if the group has a drain timeout, somebody coordinates drains
// (coordinated), the VM runs and the reason allows it. What the provider takes
// back drains until then at the longest.
func NewRemoval(g Group, coordinated bool, in Instance, why Reason, now time.Time) Removal {
	r := Removal{Reason: why, RequestedAt: now}
	if g.DrainTimeout > 0 && coordinated && !in.SkipDrain && in.Power == Up && why.WantsDrain() {
		r.DrainStarted = now
		r.DeleteAt = now.Add(g.DrainTimeout)
		if d := in.Notice.Deadline; !d.IsZero() && d.Before(r.DeleteAt) {
			r.DeleteAt = d
		}
	}
	if !r.DeleteAt.After(now) {
		r.DrainStarted, r.DeleteAt = time.Time{}, time.Time{} // no time is left
	}
	return r
}

// Revocable reports whether a later leader may take the removal back, to judge the
// instance again: nothing but its health speaks against it, its drain has not begun, and
// nobody has asked for its end.
func (r Removal) Revocable() bool {
	return r.Reason == ReasonUnhealthy && r.DrainStarted.IsZero() && !r.Acked
}

func (r Removal) hasDrain() bool { return !r.DeleteAt.IsZero() }
