package demandmode

import (
	"testing"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
)

// A machine is to make room for its age and for what it was made from, in a maintenance window; at the forced age at any time.
func TestOutdated(t *testing.T) {
	made := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	night := document.MaintenanceWindow{Cron: "0 2 * * *", Duration: document.Duration(2 * time.Hour)}
	m := &making{hash: "new", alike: func(hash, kind string) bool { return hash == "new" || hash == "like" && kind == "m" }}
	for name, c := range map[string]struct {
		hash    string
		expiry  document.Expiry
		windows []document.MaintenanceWindow
		after   time.Duration
		why     demand.Reason
		next    time.Duration // after it was made; negative: never
	}{
		"of now":                      {hash: "new", after: time.Hour, next: -1},
		"like those of now":           {hash: "like", after: time.Hour, next: -1},
		"of no known making":          {after: time.Hour, next: -1},
		"of another making":           {hash: "old", after: time.Hour, why: demand.ReasonDrift, next: -1},
		"of another making, by day":   {hash: "old", windows: []document.MaintenanceWindow{night}, after: 5 * time.Hour, next: 26 * time.Hour},
		"of another making, by night": {hash: "old", windows: []document.MaintenanceWindow{night}, after: 3 * time.Hour, why: demand.ReasonDrift, next: 3*time.Hour + windowAgain},
		"too young":                   {hash: "new", expiry: document.Expiry{EligibleAge: document.Duration(9 * time.Hour)}, after: time.Hour, next: 9 * time.Hour},
		"old enough":                  {hash: "old", expiry: document.Expiry{EligibleAge: document.Duration(9 * time.Hour), ForcedAge: document.Duration(20 * time.Hour)}, after: 9 * time.Hour, why: demand.ReasonExpiry, next: 20 * time.Hour},
		"old enough, by day":          {hash: "new", expiry: document.Expiry{EligibleAge: document.Duration(9 * time.Hour), ForcedAge: document.Duration(20 * time.Hour)}, windows: []document.MaintenanceWindow{night}, after: 9 * time.Hour, next: 20 * time.Hour},
		"too old, by day":             {hash: "new", expiry: document.Expiry{ForcedAge: document.Duration(20 * time.Hour)}, windows: []document.MaintenanceWindow{night}, after: 21 * time.Hour, why: demand.ReasonExpiry, next: -1},
	} {
		m.expiry, m.windows = c.expiry, c.windows
		row := &cache.Instance{Instance: fleet.Instance{Created: made, InfraHash: c.hash}, InstanceType: "m"}
		why, next := m.outdated(row, made.Add(c.after))
		want := time.Time{}
		if c.next >= 0 {
			want = made.Add(c.next)
		}
		if why != c.why || !next.Equal(want) {
			t.Errorf("%s: %q, again at %s; want %q, %s", name, why, next, c.why, want)
		}
	}
}
