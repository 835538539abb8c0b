package shard

import (
	"testing"
	"time"

	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

func TestEvaluationWakesAtTheSoonestEnd(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	for _, c := range []struct {
		name string
		e    evaluation
		want time.Time
	}{
		{"nothing ends by itself", evaluation{}, time.Time{}},
		{"the plan", evaluation{plan: fleet.Decision{Wake: at(1)}, pause: fleet.Block{Until: at(2)}}, at(1)},
		{"a pause", evaluation{plan: fleet.Decision{Wake: at(3)}, pause: fleet.Block{Until: at(2)}}, at(2)},
		{"the provider's limit", evaluation{limit: fleet.Block{Until: at(4)}, result: explain.Evaluation{Wake: at(5)}}, at(4)},
		{"what blocks an action", evaluation{limit: fleet.Block{Until: at(6)}, result: explain.Evaluation{Wake: at(5)}}, at(5)},
	} {
		if got := c.e.wake(); !got.Equal(c.want) {
			t.Errorf("%s: it wakes at %v, want %v", c.name, got, c.want)
		}
	}
}
