package offers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config/document"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

func TestGroupsAsTheEngineIsTold(t *testing.T) {
	b := bookOf(t, parts{
		template: `, "reuse": "any"`,
		groups: `"bare": { "template": "t", "mode": "demand" }, "full": { "template": "t", "mode": "demand", "demand": {
			"min": 1, "max": 9, "min_idle": 2, "release_hold": "3m", "scale_down_delay": "2m", "min_lifetime": "0s", "join_deadline": "4m", "configure": "agent",
			"limits": { "vcpu": 400, "memory_gib": 800, "gpu": { "nvidia.com/gpu": 8 }, "hourly_spend": 7.5 }, "disruption": [ { "nodes": "10%", "reasons": ["surplus"] } ],
			"consolidation": { "enabled": true, "min_saving": 0.2 } } },
			"blob": { "template": "t", "mode": "demand", "demand": { "configure": "user_data" } }`,
	})
	bare := demand.Group{
		Name: "default/bare", Tenant: "default", Max: -1, ScaleDownDelay: time.Minute, MinLifetime: 5 * time.Minute, JoinDeadline: 10 * time.Minute, ReleaseHold: -1, Reuse: true,
		Consolidation: demand.Consolidation{MinSaving: 150_000},
	}
	blob := bare
	blob.Name, blob.UserData = "default/blob", true
	want := []demand.Group{bare, blob, {
		Name: "default/full", Tenant: "default", Min: 1, Max: 9, MinIdle: 2, ScaleDownDelay: 2 * time.Minute, JoinDeadline: 4 * time.Minute, ReleaseHold: 3 * time.Minute, Reuse: true,
		Limits: demand.Limits{
			Resources:   []vector.Amount{{Name: "cpu", Amount: 400_000}, {Name: "memory", Amount: 800 << 30}, {Name: "nvidia.com/gpu", Amount: 8}},
			HourlySpend: 7_500_000,
		},
		Disruption:    []demand.Budget{{Nodes: 10, Percent: true, Reasons: []demand.Reason{demand.ReasonSurplus}}},
		Consolidation: demand.Consolidation{Enabled: true, MinSaving: 200_000},
	}}
	if diff := cmp.Diff(want, b.Groups); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !b.Next.IsZero() {
		t.Errorf("without a schedule the next change is at %v", b.Next)
	}
}

// TestWaitsOfNothing: "0s" is at once, not the wait of a group that says nothing.
func TestWaitsOfNothing(t *testing.T) {
	b := bookOf(t, parts{groups: `"g": { "template": "t", "mode": "demand", "demand": { "release_hold": "0s", "scale_down_delay": "0s" } }`})
	if g := b.Groups[0]; g.ReleaseHold != atOnce || g.ScaleDownDelay != atOnce {
		t.Errorf("release_hold %v, scale_down_delay %v", g.ReleaseHold, g.ScaleDownDelay)
	}
}

// TestBudgetsHaveTheirWindow: the one that is open, else the next one.
func TestBudgetsHaveTheirWindow(t *testing.T) {
	at := func(day, hour int) time.Time { return time.Date(2026, 3, day, hour, 0, 0, 0, time.UTC) } // the 2nd is a Monday
	for name, c := range map[string]struct {
		schedule         string
		duration         time.Duration
		now, from, until time.Time
	}{
		"before it":            {"0 9 * * mon-fri", 8 * time.Hour, at(2, 8), at(2, 9), at(2, 17)},
		"when it opens":        {"0 9 * * mon-fri", 8 * time.Hour, at(2, 9), at(2, 9), at(2, 17)},
		"while it is open":     {"0 9 * * mon-fri", 8 * time.Hour, at(2, 12), at(2, 9), at(2, 17)},
		"when it closes":       {"0 9 * * mon-fri", 8 * time.Hour, at(2, 17), at(3, 9), at(3, 17)},
		"over the weekend":     {"0 9 * * mon-fri", 8 * time.Hour, at(6, 18), at(9, 9), at(9, 17)},
		"one that never comes": {"0 9 30 2 *", time.Hour, at(2, 8), at(2, 8).Add(-2 * time.Second), at(2, 8).Add(-time.Second)},
	} {
		got, next := budgetOf(document.DisruptionBudget{Schedule: c.schedule, Duration: document.Duration(c.duration)}, c.now)
		if !got.From.Equal(c.from) || !got.Until.Equal(c.until) || next.After(c.now) && !next.Equal(c.until) || next.IsZero() != c.until.Before(c.now) {
			t.Errorf("%s: from %v until %v, looked at again at %v", name, got.From, got.Until, next)
		}
	}
	// Windows that overlap are one: in force all the time, and looked at again now and then.
	got, next := budgetOf(document.DisruptionBudget{Schedule: "0 * * * *", Duration: document.Duration(2 * time.Hour)}, at(2, 8))
	if got.From.After(at(2, 8)) || !got.Until.After(at(3, 8)) || !next.Equal(got.Until) {
		t.Errorf("overlapping windows: from %v until %v, looked at again at %v", got.From, got.Until, next)
	}
}

// FuzzBudget: a window that is told is never over, and opens when the schedule says.
func FuzzBudget(f *testing.F) {
	f.Add("0 9 * * mon-fri", int64(8*time.Hour), int64(0))
	f.Add("*/5 * * * *", int64(time.Minute), int64(1e15))
	f.Fuzz(func(t *testing.T, schedule string, duration, at int64) {
		budget := document.DisruptionBudget{Nodes: document.NodeCount{N: 1}, Schedule: schedule, Duration: document.Duration(duration)}
		if problems := (&document.Demand{Disruption: []document.DisruptionBudget{budget}}).Problems(); len(problems) > 0 || schedule == "" || duration > int64(48*time.Hour) {
			return
		}
		now := start.Add(time.Duration(at % int64(400*24*time.Hour)))
		got, next := budgetOf(budget, now)
		open := budget.Window().Open(now)
		if next.IsZero() {
			if open {
				t.Errorf("%q is open at %v, and is told as over", schedule, now)
			}
			return
		}
		if !got.Until.After(now) || open != !got.From.After(now) {
			t.Errorf("%q for %v at %v: from %v until %v, open %t", schedule, time.Duration(duration), now, got.From, got.Until, open)
		}
	})
}
