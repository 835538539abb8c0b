package fleet

import (
	"fmt"
	"time"
)

// HoldReason says what an instance is on hold for.
type HoldReason string

// The reasons, the weakest first: a hold for one gives way to a hold for a later one, and not
// to one for an earlier one.
const (
	HoldReboot HoldReason = "reboot" // its host reboots
	HoldRepave HoldReason = "repave" // its node machine is built again
	HoldPower  HoldReason = "power"  // it is switched off, or off and on again
)

// HoldReasons returns every reason, the weakest first.
func HoldReasons() []HoldReason { return []HoldReason{HoldReboot, HoldRepave, HoldPower} }

// Bounds of holds, from their beginning. How long one for HoldPower may last is configured.
const (
	longestReboot = 15 * time.Minute
	longestRepave = 45 * time.Minute
)

// Longest is how long a hold for the reason may last, where one for HoldPower may last maxOff;
// zero for what is no reason.
func (r HoldReason) Longest(maxOff time.Duration) time.Duration {
	switch r {
	case HoldReboot:
		return longestReboot
	case HoldRepave:
		return longestRepave
	case HoldPower:
		return maxOff
	default:
		return 0
	}
}

// weight orders the reasons; 0 is none.
func (r HoldReason) weight() int {
	for i, known := range HoldReasons() {
		if r == known {
			return i + 1
		}
	}
	return 0
}

// Hold says that an instance may be silent, or its VM stopped, because somebody wanted that:
// until it ends, neither is taken for a failure, and the instance isn't replaced by choice. It
// counts as live. What the provider takes back, what is too old by force, what a caller deletes
// and what a smaller size costs goes nevertheless.
//
// A hold that has ended stays as it was: reports are missing from its end on, and not from
// before. The zero Hold is none.
type Hold struct {
	Reason HoldReason
	Since  time.Time // when it was set first
	Until  time.Time // when it ends, or has ended
}

// InForce reports whether the hold counts at now.
func (h Hold) InForce(now time.Time) bool { return h.Reason != "" && now.Before(h.Until) }

// Ended is when the hold has ended; zero: it is in force, or there was none.
func (h Hold) Ended(now time.Time) time.Time {
	if h.Reason == "" || h.InForce(now) {
		return time.Time{}
	}
	return h.Until
}

// Set returns the hold that a caller's wish makes of h, and whether the wish may be followed:
// no hold gives way to one for a weaker reason. Where it is renewed for the same reason, it
// counts from its beginning, so that no number of renewals keeps an instance on hold for longer
// than longest. Until may be zero: as long as possible.
func (h Hold) Set(reason HoldReason, until time.Time, longest time.Duration, now time.Time) (Hold, bool) {
	next := Hold{Reason: reason, Since: now, Until: until}
	if h.InForce(now) {
		switch {
		case reason.weight() < h.Reason.weight():
			return h, false
		case reason == h.Reason:
			next.Since = h.Since
		}
	}
	if end := next.Since.Add(longest); until.IsZero() || until.After(end) {
		next.Until = end
	}
	return next, true
}

// Clear returns the hold as it is once a caller has ended it, and whether that changes
// anything: a hold for another reason than the named one stays. An empty reason is any.
func (h Hold) Clear(reason HoldReason, now time.Time) (Hold, bool) {
	if !h.InForce(now) || reason != "" && reason != h.Reason {
		return h, false
	}
	h.Until = now
	return h, true
}

// keptByHold reports whether the reason gives way to a hold.
func (r Reason) keptByHold(onDemand bool) bool {
	switch r {
	case ReasonUnhealthy, ReasonConfigDrift:
		return true
	case ReasonExpired:
		return !onDemand
	default:
		return false
	}
}

// Keeps reports whether the hold keeps an instance from being condemned for a reason at now.
// On-demand instances are as old as they may become, whatever is done to them.
func (h Hold) Keeps(reason Reason, onDemand bool, now time.Time) bool {
	return h.InForce(now) && reason.keptByHold(onDemand)
}

// blocks says why an instance that is on hold isn't replaced by choice.
func (h Hold) blocks() Block {
	return Block{Why: fmt.Sprintf("it is on hold (%s)", h.Reason), By: BlockerHold, Until: h.Until}
}
