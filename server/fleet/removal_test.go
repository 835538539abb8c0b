package fleet_test

import (
	"slices"
	"testing"
	"time"

	"nstance.dev/server/fleet"
)

// The provider's deadline beats a later end of a drain that was announced, whatever the
// drain is for, and only once it is on record does a delete follow from it.
func TestF34_NoticeShortensADrain(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := now.Add
	shorten := func(until time.Duration) []fleet.Action {
		return []fleet.Action{fleet.ShortenDrain{
			ID: "a", Reason: fleet.ReasonScaleDown, DeleteAt: at(until), Why: "the provider takes its VM back before the drain would end",
		}}
	}
	over := []fleet.Action{fleet.Delete{ID: "a", Reason: fleet.ReasonScaleDown, Why: "the drain has timed out"}}
	given := func(d time.Duration) fleet.Notice { return fleet.Notice{Action: "terminate", Deadline: at(d)} }
	for _, c := range []struct {
		name   string
		ends   time.Duration // of the drain, from now
		notice fleet.Notice
		want   []fleet.Action
		wake   time.Time
	}{
		{"no notice", time.Hour, fleet.Notice{}, nil, at(time.Hour)},
		{"a notice that says no time", time.Hour, fleet.Notice{Action: "stop"}, nil, at(time.Hour)},
		{"a later deadline", time.Hour, given(2 * time.Hour), nil, at(time.Hour)},
		{"the same", time.Hour, given(time.Hour), nil, at(time.Hour)},
		{"an earlier one", time.Hour, given(time.Minute), shorten(time.Minute), at(time.Minute)},
		{"one that is past", time.Hour, given(-time.Minute), shorten(-time.Minute), at(-time.Minute)},
		{"an earlier one, and the drain is over", -time.Minute, given(-time.Hour), over, time.Time{}},
	} {
		removal := fleet.Removal{Reason: fleet.ReasonScaleDown, DrainStarted: at(-time.Hour), DeleteAt: at(c.ends)}
		d := fleet.Plan(fleet.View{Instances: []fleet.Instance{
			{ID: "a", State: fleet.Draining, Power: fleet.Up, Removal: removal, Notice: c.notice},
		}}, now)
		if !slices.Equal(d.Actions, c.want) || !d.Wake.Equal(c.wake) {
			t.Errorf("%s: %v, wake %v; want %v, wake %v", c.name, d.Actions, d.Wake, c.want, c.wake)
		}
	}
}

func TestRevocable(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		removal fleet.Removal
		want    bool
	}{
		"none":                            {fleet.Removal{}, false},
		"unhealthy":                       {fleet.Removal{Reason: fleet.ReasonUnhealthy, RequestedAt: now}, true},
		"unhealthy, and it drains":        {fleet.Removal{Reason: fleet.ReasonUnhealthy, DrainStarted: now, DeleteAt: now.Add(time.Minute)}, false},
		"unhealthy, and a caller asked":   {fleet.Removal{Reason: fleet.ReasonUnhealthy, Acked: true}, false},
		"its VM is gone":                  {fleet.Removal{Reason: fleet.ReasonNotFound}, false},
		"a caller asked":                  {fleet.Removal{Reason: fleet.ReasonRequested}, false},
		"it never joined":                 {fleet.Removal{Reason: fleet.ReasonRegistrationTimeout}, false},
		"more than the size asks for":     {fleet.Removal{Reason: fleet.ReasonScaleDown}, false},
		"the provider takes its VM back":  {fleet.Removal{Reason: fleet.ReasonSpotTermination}, false},
		"made from another configuration": {fleet.Removal{Reason: fleet.ReasonConfigDrift}, false},
	} {
		if got := c.removal.Revocable(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
