package shard

import (
	"context"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/fleet"
)

func TestRotationWaitsForAMaintenanceWindow(t *testing.T) {
	nights := []document.MaintenanceWindow{{Cron: "0 2 * * *", Duration: document.Duration(time.Hour)}}
	day := func(hour int) time.Time { return time.Date(2026, 5, 4, hour, 30, 0, 0, time.UTC) }
	for _, c := range []struct {
		name    string
		windows []document.MaintenanceWindow
		now     time.Time
		want    fleet.Block
	}{
		{"there are none", nil, day(12), fleet.Block{}},
		{"one is open", nights, day(2), fleet.Block{}},
		{"none is open", nights, day(12), fleet.Block{
			By: fleet.BlockerWindow, Why: "no maintenance window is open", Until: time.Date(2026, 5, 5, 2, 0, 0, 0, time.UTC),
		}},
	} {
		if got := openWindow(c.windows, c.now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// drainersOf are the tenants that coordinate drains.
type drainersOf map[string]bool

func (d drainersOf) Load(context.Context) error { return nil }

func (d drainersOf) Coordinate(context.Context, identity.Peer) error { return nil }

func (d drainersOf) Coordinated(tenant string) bool { return d[tenant] }

func TestDrainsAreCoordinatedForATenant(t *testing.T) {
	if (&planner{}).drainCoordinated("default") {
		t.Error("nobody coordinates drains, and it says that somebody does")
	}
	p := &planner{drainers: drainersOf{"default": true}}
	if !p.drainCoordinated("default") || p.drainCoordinated("other") {
		t.Error("want drains of the tenant default to be coordinated, and of no other")
	}
}
