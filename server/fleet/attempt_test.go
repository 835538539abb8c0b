package fleet_test

import (
	"errors"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// attempt is the whole state machine of a create attempt: one line a state, one column an
// event, in the order of AttemptEvents; "-" is an error.
var attempt = map[fleet.AttemptState][]fleet.AttemptState{
	//                       recorded refused    unclear       turn       unwanted stale      hopeless     surplus      paused      made        throttled   unclear     no capacity  refused      term over
	fleet.AttemptRecording:  {"queued", "left", "unrecorded", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
	fleet.AttemptQueued:     {"-", "-", "-", "sent", "left", "withdrawn", "withdrawn", "withdrawn", "withdrawn", "-", "-", "-", "-", "-", "left"},
	fleet.AttemptSent:       {"-", "-", "-", "-", "-", "-", "-", "-", "-", "accepted", "queued", "unclear", "withdrawn", "withdrawn", "left"},
	fleet.AttemptUnclear:    {"-", "-", "-", "repeated", "left", "-", "-", "-", "unclear", "-", "-", "-", "-", "-", "left"},
	fleet.AttemptRepeated:   {"-", "-", "-", "-", "-", "-", "-", "-", "-", "accepted", "unclear", "unclear", "abandoned", "abandoned", "left"},
	fleet.AttemptAccepted:   {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
	fleet.AttemptWithdrawn:  {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
	fleet.AttemptAbandoned:  {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
	fleet.AttemptUnrecorded: {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
	fleet.AttemptLeft:       {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
	"":                      {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
}

func TestAttemptTransitions(t *testing.T) {
	for s, row := range attempt {
		if len(row) != len(fleet.AttemptEvents()) {
			t.Fatalf("%s: %d columns for %d events", s, len(row), len(fleet.AttemptEvents()))
		}
		for i, e := range fleet.AttemptEvents() {
			got, err := s.On(e)
			if want := row[i]; want != "-" {
				if err != nil || got.State != want || got.Why == "" {
					t.Errorf("%s on %s = %+v, %v; want %s and a reason", s, e, got, err, want)
				}
			} else if got.State != s || !errors.Is(err, fleet.ErrAttempt) {
				t.Errorf("%s on %s = %+v, %v; want an error and no change", s, e, got, err)
			}
		}
	}
	for _, s := range fleet.AttemptStates() {
		if _, ok := attempt[s]; !ok {
			t.Errorf("no row for %s", s)
		}
		for _, e := range []fleet.AttemptEvent{0, 200} {
			if got, err := s.On(e); got.State != s || err == nil {
				t.Errorf("%s on %s = %+v, %v; want an error", s, e, got, err)
			}
		}
	}
}

// TestS4_NoAttemptThatMayHaveMadeAMachineIsWithdrawn: once a call may have made the machine
// no sequence of events takes the record back without a delete.
func TestS4_NoAttemptThatMayHaveMadeAMachineIsWithdrawn(t *testing.T) {
	seen := map[fleet.AttemptState]bool{}
	var visit func(s fleet.AttemptState)
	visit = func(s fleet.AttemptState) {
		if seen[s] {
			return
		}
		seen[s] = true
		for _, e := range fleet.AttemptEvents() {
			if step, err := s.On(e); err == nil {
				visit(step.State)
			}
		}
	}
	visit(fleet.AttemptUnclear)
	for _, never := range []fleet.AttemptState{fleet.AttemptWithdrawn, fleet.AttemptQueued, fleet.AttemptSent, fleet.AttemptUnrecorded} {
		if seen[never] {
			t.Errorf("an attempt that may have made a machine comes to be %s", never)
		}
	}
	if !seen[fleet.AttemptAccepted] || !seen[fleet.AttemptAbandoned] {
		t.Errorf("states after a lost answer: %v, want accepted and abandoned among them", seen)
	}
}

func TestAttemptGivenUp(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id, other := identity.ID("vmx-a"), identity.ID("vmx-b")
	queued := fleet.Attempt{ID: id, State: fleet.AttemptQueued, Size: 2, Stale: now.Add(time.Minute)}
	unclear, onDemand := queued, queued
	unclear.State, onDemand.OnDemand = fleet.AttemptUnclear, true
	one := []fleet.Instance{{ID: id, State: fleet.Pending}, {ID: other, State: fleet.Running}}
	leaving := []fleet.Instance{{ID: id, State: fleet.Pending}, {ID: other, State: fleet.Running, Condemning: fleet.ReasonScaleDown}}
	asked := []fleet.Instance{{ID: id, State: fleet.Pending}, {ID: other, State: fleet.Running, OnDemand: true}}
	for name, tt := range map[string]struct {
		attempt  fleet.Attempt
		group    fleet.Group
		members  []fleet.Instance
		hopeless bool
		at       time.Time
		want     fleet.AttemptEvent
	}{
		"it is wanted":                              {queued, fleet.Group{Size: 2}, one, false, now, 0},
		"the time is not up yet":                    {queued, fleet.Group{Size: 2}, one, false, queued.Stale, 0},
		"half of the time is over":                  {queued, fleet.Group{Size: 2}, one, false, queued.Stale.Add(1), fleet.AttemptEventStale},
		"its group waits for a cause":               {queued, fleet.Group{Size: 2}, one, true, now, fleet.AttemptEventHopeless},
		"its group is smaller and has enough":       {queued, fleet.Group{Size: 1}, one, false, now, fleet.AttemptEventSurplus},
		"its group is smaller and lacks one":        {queued, fleet.Group{Size: 1}, leaving, false, now, 0},
		"one that was asked for fills no place":     {queued, fleet.Group{Size: 1}, asked, false, now, 0},
		"its group is deleted":                      {queued, fleet.Group{Size: 2, Deleted: true}, leaving, false, now, fleet.AttemptEventSurplus},
		"its group has grown":                       {queued, fleet.Group{Size: 3}, one, false, now, 0},
		"on demand: the size does not count":        {onDemand, fleet.Group{Size: 0}, one, false, now, 0},
		"on demand: neither does the group's cause": {onDemand, fleet.Group{Size: 2}, one, true, now, 0},
		"on demand: time does":                      {onDemand, fleet.Group{Size: 2}, one, false, queued.Stale.Add(1), fleet.AttemptEventStale},
		"it may have made the machine":              {unclear, fleet.Group{Size: 0}, one, true, queued.Stale.Add(1), 0},
	} {
		asked := false
		members := func() []fleet.Instance { asked = true; return tt.members }
		if got := tt.attempt.GivenUp(tt.group, members, tt.hopeless, tt.at); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if asked && !tt.group.Deleted && tt.group.Size >= tt.attempt.Size {
			t.Errorf("%s: all members are looked at for one of them, and the group was not made smaller", name)
		}
	}
}

func TestAttemptPause(t *testing.T) {
	for _, tt := range []struct {
		event  fleet.AttemptEvent
		sent   int
		wished time.Duration
		want   time.Duration
	}{
		{fleet.AttemptEventUnclear, 1, 0, time.Second},
		{fleet.AttemptEventUnclear, 2, time.Hour, 2 * time.Second},
		{fleet.AttemptEventUnclear, 5, 0, 16 * time.Second},
		{fleet.AttemptEventUnclear, 6, 0, 30 * time.Second},
		{fleet.AttemptEventUnclear, 100, 0, 30 * time.Second},
		{fleet.AttemptEventThrottled, 7, 0, time.Second},
		{fleet.AttemptEventThrottled, 1, 20 * time.Second, 20 * time.Second},
		{fleet.AttemptEventPaused, 9, time.Hour, time.Second},
	} {
		if got := tt.event.Pause(tt.sent, tt.wished); got != tt.want {
			t.Errorf("%s after %d calls: %v, want %v", tt.event, tt.sent, got, tt.want)
		}
	}
}
