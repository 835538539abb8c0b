package binding

import (
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// Station is what an instance is to package demand.
type Station struct {
	State demand.State
	// Leaving: it goes, whatever its binding says, and nobody counts on it.
	Leaving bool
}

// Of derives the station of an instance from its life and its record. One whose machine is gone is
// [demand.Speculative].
func Of(life fleet.State, rec *layout.InstanceRecord) Station {
	s := Station{Leaving: life.Sick() || life.Leaving() || rec.Deletion != nil}
	switch {
	case life == fleet.Deleted:
		return Station{State: demand.Speculative}
	case rec.Failed != nil:
		s.State = demand.Failed
	case rec.RegisteredAt.IsZero():
		s.State = demand.Creating
	default:
		s.State = registered(stateOf(rec))
	}
	return s
}

func registered(b layout.BindingState) demand.State {
	switch b {
	case layout.BindingConfiguring:
		return demand.Configuring
	case layout.BindingBound:
		return demand.Configured
	case layout.BindingDraining:
		return demand.Draining
	default:
		return demand.Idle
	}
}
