package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// BenchmarkPlan is what one look at a group of 1,000 costs: one in ten is sick, one in ten
// was made from an older configuration.
func BenchmarkPlan(b *testing.B) {
	now := time.Unix(1_000_000, 0)
	v := fleet.View{Group: fleet.Group{ID: fleet.GroupID{Tenant: "default", Name: "web"}, Size: 1000, InfraHash: "new"}}
	for i := range 1000 {
		in := fleet.Instance{
			ID: identity.ID(fmt.Sprintf("vm%05d", i)), Group: v.Group.ID, State: fleet.Running, Power: fleet.Up, Reported: true,
			Created: now.Add(-time.Duration(i) * time.Minute), RegisteredAt: now.Add(-time.Hour), InfraHash: "new",
		}
		switch i % 10 {
		case 0:
			in.State, in.Verdict = fleet.Unhealthy, fleet.ReasonUnhealthy
		case 1:
			in.InfraHash = "old"
		}
		v.Instances = append(v.Instances, in)
	}
	for b.Loop() {
		fleet.Plan(v, now)
	}
}
