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
	HoldRollout HoldReason = "rollout" // its Node is drained, and its node machine built again after that
	HoldReboot  HoldReason = "reboot"  // its host reboots
	HoldRepave  HoldReason = "repave"  // its node machine is built again
	HoldPower   HoldReason = "power"   // it is switched off, or off and on again
)

// HoldReasons returns every reason, the weakest first.
func HoldReasons() []HoldReason {
	return []HoldReason{HoldRollout, HoldReboot, HoldRepave, HoldPower}
}

// Bounds of holds, from their beginning. How long one for HoldPower may last is configured.
const (
	longestRollout = 24 * time.Hour // its Pods have as long as somebody gives them
	longestReboot  = 15 * time.Minute
	longestRepave  = 45 * time.Minute
)

// Longest is how long a hold for the reason may last, where one for HoldPower may last maxOff;
// zero for what is no reason.
func (r HoldReason) Longest(maxOff time.Duration) time.Duration {
	switch r {
	case HoldRollout:
		return longestRollout
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
// One for HoldRollout says only that the instance is about to be repaved: its machine is well until then, so it
// is judged as any other, and just not replaced by choice, nor another one of its group (M70).
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

// Excuses reports whether neither silence nor a VM that is stopped is a failure at now.
func (h Hold) Excuses(now time.Time) bool { return h.Reason != HoldRollout && h.InForce(now) }

// Ended is when a hold has ended that excused something; zero: it is in force, or there was none.
func (h Hold) Ended(now time.Time) time.Time {
	if h.Reason == "" || h.Reason == HoldRollout || h.InForce(now) {
		return time.Time{}
	}
	return h.Until
}

// Refusal says why a wish for a hold is not followed.
type Refusal uint8

// The refusals; the zero one is none.
const (
	Stronger  Refusal = iota + 1 // one for a stronger reason is in force
	Exhausted                    // the instance has been on hold for as long as it may, and was not well since
)

// Set returns the hold that a caller's wish makes of h, and why the wish is not followed: no hold gives way to
// one for a weaker reason. Where it is renewed for the same reason, it counts from its beginning. An instance that is
// unwell, silent or off, has been so since its hold at the latest: what is set then counts from the beginning of that,
// whatever it is for and however often it was ended meanwhile. So nothing keeps an instance on hold for longer than
// longest that does not get well (M85). Until may be zero: as long as possible.
func (h Hold) Set(reason HoldReason, until time.Time, longest time.Duration, unwell bool, now time.Time) (Hold, Refusal) {
	next := Hold{Reason: reason, Since: now, Until: until}
	switch inForce := h.InForce(now); {
	case inForce && reason.weight() < h.Reason.weight():
		return h, Stronger
	case inForce && reason == h.Reason, unwell && h.Reason != "" && h.Reason != HoldRollout:
		next.Since = h.Since
	}
	if end := next.Since.Add(longest); until.IsZero() || until.After(end) {
		next.Until = end
	}
	if !next.InForce(now) {
		return h, Exhausted
	}
	return next, 0
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
	return h.InForce(now) && reason.keptByHold(onDemand) && (reason != ReasonUnhealthy || h.Excuses(now))
}

// blocks says why an instance that is on hold isn't replaced by choice.
func (h Hold) blocks() Block {
	return Block{Why: fmt.Sprintf("it is on hold (%s)", h.Reason), By: BlockerHold, Until: h.Until}
}
