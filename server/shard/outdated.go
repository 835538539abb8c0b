package shard

import (
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
)

// longestProving is how long a machine that has just registered is watched at most
// before another one is replaced by choice: a machine that dies takes its stream
// along, and that shows within half a minute.
const longestProving = 30 * time.Second

// outdating fills in when instances of a group have to make room that work: for
// their age, or because they were made from another configuration.
func (r *Reign) outdating(v *fleet.View, breaker fleet.Breaker, lasts, now time.Time) {
	server := r.wanted.config().Server
	v.Aging = fleet.Aging{
		Eligible: server.Expiry.EligibleAge.Std(),
		Forced:   server.Expiry.ForcedAge.Std(),
		OnDemand: server.Expiry.OnDemandAge.Std(),
	}
	v.Proving = min(server.HealthCheckInterval.Std(), longestProving)
	if v.Voluntary = sooner(breaker.Rotation(v.Group.InfraHash, now), lasts); v.Voluntary.Blocked != "" {
		return
	}
	if eff, ok := r.wanted.effective(v.Group.ID); ok {
		v.Voluntary = openWindow(eff.Rails.MaintenanceWindows, now)
	}
}

// openWindow says whether a maintenance window is open now.
func openWindow(windows []config.MaintenanceWindow, now time.Time) fleet.Gate {
	open, next := config.OpenWindow(windows, now)
	if open {
		return fleet.Gate{}
	}
	return fleet.Gate{By: fleet.BlockerWindow, Blocked: "no maintenance window is open", Until: next}
}

// sooner is a gate that may open at the given time already, if that is set.
func sooner(gate fleet.Gate, at time.Time) fleet.Gate {
	if gate.By != fleet.BlockerCrashLoop && gate.By != fleet.BlockerSetback {
		return gate
	}
	if !at.IsZero() && at.Before(gate.Until) {
		gate.Until = at
	}
	return gate
}
