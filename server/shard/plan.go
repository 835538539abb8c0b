package shard

import (
	"fmt"
	"math"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config"
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
	"nstance.dev/server/preview"
)

// PlanConfig says what a configuration would cause if it came into force now, in
// all tenants, and changes nothing.
func (r *Reign) PlanConfig(cfg *config.Config) *nstancev1.PlanConfigResponse {
	out := &nstancev1.PlanConfigResponse{}
	for _, warning := range cfg.Warnings {
		out.Warnings = append(out.Warnings, warning.String())
	}
	for _, p := range preview.Of(r.changedGroups(cfg)) {
		id := fleet.GroupID{Tenant: p.Key.Tenant, Name: p.Key.Group}
		out.Groups = append(out.Groups, &nstancev1.GroupPlan{
			Tenant: id.Tenant, Key: id.Name, Change: p.Change, Creates: count32(p.Creates), Pushes: count32(p.Pushes),
			Rotations: count32(p.Rotations), Deletes: count32(p.Deletes), Causes: p.Causes,
		})
		if p.Unlocked {
			out.Warnings = append(out.Warnings, fmt.Sprintf("group %s: %s", id, decisions.UnlockedMessage(id)))
		}
		if p.Held != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("group %s would be left alone: %s", id, p.Held))
		}
		if hold := r.wanted.pause(id, r.now()); hold.By != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("group %s: %s; nothing is created or deleted before that ends", id, hold.Why))
		}
	}
	return out
}

func count32(n int) int32 { return int32(min(n, math.MaxInt32)) }

// changedGroups are all groups as they are and as a configuration would make
// them, the one after the other adopted into the group file as a reload does it.
func (r *Reign) changedGroups(cfg *config.Config) []preview.Group {
	r.wanted.mu.RLock()
	file, before := r.wanted.file, r.wanted.effectives
	r.wanted.mu.RUnlock()
	if file != nil {
		file = file.Clone()
		_, _ = adopt(cfg, file, nil) // it fails never
	}
	after, _ := config.Effective(cfg, file)
	keys := map[config.GroupKey]bool{}
	for id := range before {
		keys[config.GroupKey{Tenant: id.Tenant, Group: id.Name}] = true
	}
	for key := range after {
		keys[key] = true
	}
	groups := make([]preview.Group, 0, len(keys))
	for key := range keys {
		id := fleet.GroupID{Tenant: key.Tenant, Name: key.Group}
		g := preview.Group{Key: key, Before: before[id], After: after[key]}
		g.Actual, g.Machines = r.machinesOf(id)
		groups = append(groups, g)
	}
	return groups
}

// machinesOf are the instances of a group that are not condemned, and how many
// its size is compared with.
func (r *Reign) machinesOf(id fleet.GroupID) (actual int, machines []preview.Machine) {
	for _, in := range r.cache.Fleet(id) {
		if in.State.Live() || in.State.Sick() {
			machines = append(machines, preview.Machine{OnDemand: in.OnDemand, InfraHash: in.InfraHash})
		}
	}
	return r.weigh(id, r.now()).plan.Counts.Actual, machines
}
