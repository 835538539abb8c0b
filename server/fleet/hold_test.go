package fleet_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"nstance.dev/server/fleet"
)

// TestM85_HoldsEnd: however often a hold is renewed, and for how long somebody wants it, it ends,
// and a stronger reason does not give way to a weaker one.
func TestM85_HoldsEnd(t *testing.T) {
	hold := func(r fleet.HoldReason, since, until time.Duration) fleet.Hold {
		return fleet.Hold{Reason: r, Since: at(since), Until: at(until)}
	}
	const longest = 15 * time.Minute
	for name, c := range map[string]struct {
		before fleet.Hold
		reason fleet.HoldReason
		until  time.Duration // after epoch; 0: as long as possible
		want   fleet.Hold
		not    fleet.Refusal
	}{
		"the first":                           {fleet.Hold{}, fleet.HoldReboot, time.Minute, hold(fleet.HoldReboot, 0, time.Minute), 0},
		"as long as possible":                 {fleet.Hold{}, fleet.HoldReboot, 0, hold(fleet.HoldReboot, 0, longest), 0},
		"longer than possible":                {fleet.Hold{}, fleet.HoldReboot, time.Hour, hold(fleet.HoldReboot, 0, longest), 0},
		"renewed":                             {hold(fleet.HoldReboot, -time.Minute, time.Minute), fleet.HoldReboot, 5 * time.Minute, hold(fleet.HoldReboot, -time.Minute, 5*time.Minute), 0},
		"renewed for longer than it may last": {hold(fleet.HoldReboot, -10*time.Minute, time.Minute), fleet.HoldReboot, time.Hour, hold(fleet.HoldReboot, -10*time.Minute, 5*time.Minute), 0},
		"made shorter":                        {hold(fleet.HoldReboot, 0, 10*time.Minute), fleet.HoldReboot, time.Minute, hold(fleet.HoldReboot, 0, time.Minute), 0},
		"after one that has ended":            {hold(fleet.HoldReboot, -time.Hour, -time.Minute), fleet.HoldReboot, 0, hold(fleet.HoldReboot, 0, longest), 0},
		"a repave gives way to power":         {hold(fleet.HoldRepave, -time.Minute, time.Minute), fleet.HoldPower, 5 * time.Minute, hold(fleet.HoldPower, 0, 5*time.Minute), 0},
		"power does not give way":             {hold(fleet.HoldPower, 0, time.Hour), fleet.HoldRepave, time.Minute, hold(fleet.HoldPower, 0, time.Hour), fleet.Stronger},
		"a repave does not give way":          {hold(fleet.HoldRepave, 0, time.Hour), fleet.HoldReboot, time.Minute, hold(fleet.HoldRepave, 0, time.Hour), fleet.Stronger},
		"but when it has ended":               {hold(fleet.HoldPower, -time.Hour, 0), fleet.HoldReboot, time.Minute, hold(fleet.HoldReboot, 0, time.Minute), 0},
	} {
		t.Run(name, func(t *testing.T) {
			until := time.Time{}
			if c.until != 0 {
				until = at(c.until)
			}
			got, not := c.before.Set(c.reason, until, longest, false, epoch)
			if got != c.want || not != c.not {
				t.Errorf("%+v, %v; want %+v, %v", got, not, c.want, c.not)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		var h fleet.Hold
		now, began := epoch, epoch
		for range 20 {
			reason := rapid.SampledFrom(fleet.HoldReasons()).Draw(t, "reason")
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes")) * time.Minute)
			before := h
			next, not := h.Set(reason, now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "for"))*time.Minute), reason.Longest(time.Hour), false, now)
			if not != 0 {
				continue
			}
			if h = next; !before.InForce(now) || before.Reason != reason {
				began = now
			}
			if h.Until.Sub(began) > reason.Longest(time.Hour) {
				t.Fatalf("a hold for %s lasts %v", reason, h.Until.Sub(began))
			}
		}
	})
}

// TestM85_WhatIsUnwellIsNotOnHoldForEver: an instance that is silent or off is on hold for as long as the longest of its
// holds may last, counted from the first, whoever sets and clears which of them how often. One that gets well in
// between begins anew.
func TestM85_WhatIsUnwellIsNotOnHoldForEver(t *testing.T) {
	const longestOff = time.Hour
	rapid.Check(t, func(t *rapid.T) {
		h, now := fleet.Hold{}, epoch
		var silent time.Time // since when it is on hold without having been well; zero: it is not
		for range 40 {
			now = now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "seconds")) * time.Second)
			if rapid.IntRange(0, 9).Draw(t, "well") == 0 {
				silent = time.Time{}
				h, _ = h.Clear("", now)
				h, _ = h.Set(fleet.HoldReboot, time.Time{}, fleet.HoldReboot.Longest(longestOff), false, now)
			}
			if rapid.Bool().Draw(t, "clear") {
				h, _ = h.Clear("", now)
			}
			reason := rapid.SampledFrom(fleet.HoldReasons()[1:]).Draw(t, "reason")
			next, not := h.Set(reason, time.Time{}, reason.Longest(longestOff), h.Reason != "", now)
			if not != 0 {
				continue
			}
			if h = next; silent.IsZero() {
				silent = h.Since
			}
			if total := h.Until.Sub(silent); total > longestOff {
				t.Fatalf("silent, and on hold for %v: %+v", total, h)
			}
		}
	})
	over := fleet.Hold{Reason: fleet.HoldPower, Since: at(-longestOff), Until: epoch}
	for reason, unwell := range map[fleet.HoldReason]bool{fleet.HoldPower: true, fleet.HoldReboot: true} {
		if _, not := over.Set(reason, time.Time{}, reason.Longest(longestOff), unwell, epoch); not != fleet.Exhausted {
			t.Errorf("%s after an hour of being off: %v", reason, not)
		}
		if got, not := over.Set(reason, time.Time{}, reason.Longest(longestOff), false, epoch); not != 0 || !got.Since.Equal(epoch) {
			t.Errorf("%s when it is well again: %+v, %v", reason, got, not)
		}
	}
}

// TestM70_AHoldOfARolloutExcusesNothing: it keeps an instance from being replaced by choice, and from nothing else.
func TestM70_AHoldOfARolloutExcusesNothing(t *testing.T) {
	h := fleet.Hold{Reason: fleet.HoldRollout, Since: at(-time.Minute), Until: at(time.Hour)}
	silent := agent(fleet.Suspect)
	silent.Hold = h
	if v := fleet.Judge(silent, at(time.Minute)); v.Event != fleet.EventFoundSick {
		t.Errorf("a silent one is judged %+v", v)
	}
	for reason, keeps := range map[fleet.Reason]bool{fleet.ReasonUnhealthy: false, fleet.ReasonConfigDrift: true, fleet.ReasonExpired: true, fleet.ReasonForcedExpiry: false} {
		if h.Keeps(reason, false, epoch) != keeps {
			t.Errorf("%s: kept %v", reason, !keeps)
		}
	}
}

func TestHoldsAreCleared(t *testing.T) {
	hold := fleet.Hold{Reason: fleet.HoldRepave, Since: at(-time.Minute), Until: at(time.Minute)}
	over := fleet.Hold{Reason: fleet.HoldRepave, Since: at(-time.Minute), Until: epoch}
	for name, c := range map[string]struct {
		before, want fleet.Hold
		reason       fleet.HoldReason
		changes      bool
	}{
		"by its reason":         {hold, over, fleet.HoldRepave, true},
		"by none":               {hold, over, "", true},
		"by another":            {hold, hold, fleet.HoldPower, false},
		"when it has ended":     {over, over, "", false},
		"where there was never": {fleet.Hold{}, fleet.Hold{}, "", false},
	} {
		if got, changes := c.before.Clear(c.reason, epoch); got != c.want || changes != c.changes {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, changes, c.want, c.changes)
		}
	}
}

// TestM84_JudgeOnHold: what is silent or off on purpose is not found sick, and is judged afresh when
// the hold ends.
func TestM84_JudgeOnHold(t *testing.T) {
	held := func(until time.Duration) func(*fleet.Health) {
		return func(h *fleet.Health) {
			h.Hold = fleet.Hold{Reason: fleet.HoldReboot, Since: at(-time.Minute), Until: at(until)}
		}
	}
	sick := func(h *fleet.Health) { h.Verdict = fleet.ReasonUnhealthy }
	dead := fleet.Verdict{Event: fleet.EventFoundSick, Reason: fleet.ReasonUnhealthy, Power: fleet.Up, Why: "three reports are missing"}
	down := fleet.Verdict{Event: fleet.EventFoundSick, Reason: fleet.ReasonUnhealthy, Power: fleet.Down, Why: "the provider says that its VM does not run"}
	gone := fleet.Verdict{Event: fleet.EventFoundSick, Reason: fleet.ReasonNotFound, Power: fleet.Gone, Why: "its VM is gone"}
	for _, c := range []struct {
		name string
		h    fleet.Health
		now  time.Duration
		want fleet.Verdict
	}{
		{"silent, and not on hold", agent(fleet.Suspect), time.Minute, dead},
		{"silent", agent(fleet.Suspect, looked(time.Minute), held(time.Hour)), time.Minute, fleet.Verdict{Power: fleet.Up, Next: at(time.Hour)}},
		{"falls silent", agent(fleet.Running, looked(time.Minute), held(time.Hour)), time.Minute,
			fleet.Verdict{Event: fleet.EventMissed, Power: fleet.Up, Why: "a report is overdue", Next: at(time.Hour)}},
		{"heard of", agent(fleet.Suspect, held(time.Hour)), time.Second,
			fleet.Verdict{Event: fleet.EventReported, Power: fleet.Up, Why: "it was heard of", Next: at(11 * time.Second)}},
		{"off", agent(fleet.Suspect, looked(time.Minute), lost(0), seen(fleet.PresenceDown), held(time.Hour)), time.Minute, fleet.Verdict{Power: fleet.Down, Next: at(time.Hour)}},
		{"off, and found sick before it was put on hold", agent(fleet.Unhealthy, sick, looked(time.Minute), lost(0), seen(fleet.PresenceDown), held(time.Hour)), time.Minute,
			fleet.Verdict{Event: fleet.EventReported, Power: fleet.Down, Why: "it is on hold", Next: at(time.Hour)}},
		{"gone", agent(fleet.Suspect, missed(fleet.ByGet, time.Second), missed(fleet.ByGet, 11*time.Second), held(time.Hour)), 11 * time.Second, gone},
		{"off before it has registered", booting(fleet.Provisioning, seen(fleet.PresenceDown), held(time.Hour)), time.Second, down},

		{"silent when the hold has just ended", agent(fleet.Suspect, looked(time.Minute), held(time.Minute)), time.Minute, fleet.Verdict{Power: fleet.Up, Next: at(93 * time.Second)}},
		{"silent for three reports since it ended", agent(fleet.Suspect, looked(time.Minute), held(time.Minute)), 93 * time.Second, dead},
		{"off when it was looked at under the hold", agent(fleet.Suspect, lost(0), looked(30*time.Second), seen(fleet.PresenceDown), held(time.Minute)), time.Minute,
			fleet.Verdict{Power: fleet.Down, AskProvider: true, Next: at(70 * time.Second)}},
		{"off when the hold had ended", agent(fleet.Suspect, lost(0), looked(61*time.Second), seen(fleet.PresenceDown), held(time.Minute)), 61 * time.Second, down},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fleet.Judge(c.h, at(c.now)); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}
