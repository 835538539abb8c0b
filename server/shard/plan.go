package shard

import (
	"fmt"
	"maps"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/whatif"
)

// ConfigPlan is what a configuration would cause.
type ConfigPlan struct {
	Groups   []whatif.Plan // of the groups that would change, by tenant and key
	Warnings []string
}

// PlanConfig says what a configuration would cause if it came into force now, in
// all tenants, and changes nothing.
func (r *Requests) PlanConfig(cfg *effective.Config) ConfigPlan {
	var out ConfigPlan
	for _, warning := range cfg.Warnings {
		out.Warnings = append(out.Warnings, warning.String())
	}
	for _, change := range whatif.Of(r.changedGroups(cfg)) {
		id := fleet.GroupID{Tenant: change.Key.Tenant, Name: change.Key.Group}
		out.Groups = append(out.Groups, change)
		if change.Unlocked {
			out.Warnings = append(out.Warnings, fmt.Sprintf("group %s: %s", id, explain.UnlockedMessage(id)))
		}
		if change.Held != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("group %s would be left alone: %s", id, change.Held))
		}
		if hold := r.groups.Paused(id, r.opts.Now()); hold.By != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("group %s: %s; nothing is created or deleted before that ends", id, hold.Why))
		}
	}
	return out
}

// changedGroups are all groups as they are and as a configuration would make
// them, the one after the other adopted into the group file as a reload does it.
func (r *Requests) changedGroups(cfg *effective.Config) []whatif.Group {
	before, after := r.groups.Preview(cfg)
	ids := maps.Clone(before)
	maps.Copy(ids, after)
	changed := make([]whatif.Group, 0, len(ids))
	for id := range ids {
		g := whatif.Group{Key: document.GroupKey{Tenant: id.Tenant, Group: id.Name}, Before: before[id], After: after[id]}
		g.Actual, g.Machines = r.machinesOf(id)
		changed = append(changed, g)
	}
	return changed
}

// machinesOf are the instances of a group that are not condemned, and how many
// its size is compared with.
func (r *Requests) machinesOf(id fleet.GroupID) (actual int, machines []whatif.Machine) {
	for _, in := range r.cache.Group(id) {
		if in.State.Live() || in.State.Sick() {
			machines = append(machines, whatif.Machine{OnDemand: in.OnDemand, InfraHash: in.InfraHash, Type: in.InstanceType})
		}
	}
	return r.planner.evaluate(id, r.opts.Now()).plan.Counts.Actual, machines
}
