package shard

import (
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/decisions"
	"nstance.dev/server/filesync"
	"nstance.dev/server/fleet"
	"nstance.dev/server/garbage"
	"nstance.dev/server/groups"
	"nstance.dev/server/instances"
	"nstance.dev/server/liveness"
	"nstance.dev/server/provisioning"
	"nstance.dev/server/removal"
	"nstance.dev/server/status"
)

// planner knows what would become of each group now. It decides nothing by itself: package fleet
// does, from the view that the planner gathers.
type planner struct {
	cache     *cache.Cache // read; whoever changes an instance does so by instances
	instances *instances.Store
	groups    *groups.Store
	liveness  *liveness.Monitor
	launcher  *provisioning.Launcher
	removals  *removal.Remover
	collector *garbage.Collector
	files     *filesync.Syncer
	status    *status.Reader
	drainers  Drainers // nil: nobody coordinates drains
	checkArch func(instanceType, arch string) error
	now       func() time.Time
	decisions *decisions.Keeper // of earlier terms, and for the next
}

// view is what the decision about a group depends on.
func (p *planner) view(group fleet.GroupID, now time.Time) fleet.View {
	v := fleet.View{
		Group:            p.groupOf(group),
		Instances:        p.membersOf(group),
		DrainCoordinated: p.drainCoordinated(group.Tenant),
		Silence:          p.liveness.Silence(),
	}
	creates, rotation := p.launcher.Blocked(v.Group, v.Instances, now)
	v.CreatesBlocked = creates
	p.outdating(&v, rotation, now)
	if eff, ok := p.groups.Effective(group); ok {
		size := eff.Size
		if eff.Demand != nil {
			size = len(v.Instances)
		}
		v.MaxRepairs = max(1, eff.Rails.MaxUnavailable.Of(size))
		p.alike(&v, eff)
	}
	v.Losses = p.removals.Losses(now)
	if v.Group.Deleted {
		v.Deletes, v.DeletesNext, v.OwnDeletes = p.removals.Budget(group, v.Instances, now)
	}
	return v
}

// alike treats an instance as up to date if only the mode of its group, or the choice of its instance types, has
// changed since it was created: it gets the group's present hash in the View.
func (p *planner) alike(v *fleet.View, eff *effective.Group) {
	made := eff.MadeLike()
	for i := range v.Instances {
		in := &v.Instances[i]
		if in.InfraHash == "" || in.InfraHash == v.Group.InfraHash {
			continue
		}
		if row, ok := p.cache.Instance(in.ID); ok && made(in.InfraHash, row.InstanceType) {
			in.InfraHash = v.Group.InfraHash
		}
	}
}

// membersOf are the instances of a group with everything that decisions look at.
func (p *planner) membersOf(group fleet.GroupID) []fleet.Instance {
	return p.liveness.Heard(p.instances.Of(group))
}

// chosen reports whether a plan made now condemns an instance for the size of its group,
// beside the others that are to end already.
func (p *planner) chosen(group fleet.GroupID, id identity.ID) bool {
	view := p.view(group, p.now())
	for i := range view.Instances {
		if in := &view.Instances[i]; in.ID == id {
			in.Condemning, in.Writing = "", false
		}
	}
	return slices.ContainsFunc(fleet.Plan(view, p.now()).Actions, func(action fleet.Action) bool {
		a, condemns := action.(fleet.Condemn)
		return condemns && a.ID == id && a.Reason == fleet.ReasonScaleDown
	})
}

// groupOf is a group as decisions see it. While the provider's listing is not to be
// believed every group is blocked.
func (p *planner) groupOf(id fleet.GroupID) fleet.Group {
	g := p.groups.Group(id)
	if alarm := p.collector.Alarm(); g.Blocked == "" && alarm != "" {
		g.Blocked, g.BlockedBy = alarm, fleet.BlockerListing
	}
	return g
}

// drainCoordinated reports whether somebody moves the work off the tenant's machines.
func (p *planner) drainCoordinated(tenant string) bool {
	return p.drainers != nil && p.drainers.Coordinated(tenant)
}

// paused reports whether nothing may be created or deleted in a group now.
func (p *planner) paused(group fleet.GroupID) bool {
	return p.groups.Paused(group, p.now()).By != ""
}

// longestSettleTime is how long a machine that has just registered is watched at most
// before another one is replaced by choice: a machine that dies takes its stream
// along, and that shows within half a minute.
const longestSettleTime = 30 * time.Second

// outdating fills in when healthy instances of a group are to be replaced: for their age, or because they were made
// from another configuration. Rotation says what blocks that because the last new machines failed.
func (p *planner) outdating(v *fleet.View, rotation fleet.Block, now time.Time) {
	server := p.groups.Config().Server
	v.Aging = fleet.Aging{
		Eligible: server.Expiry.EligibleAge.Std(),
		Forced:   server.Expiry.ForcedAge.Std(),
		OnDemand: server.Expiry.OnDemandAge.Std(),
	}
	v.SettleTime = min(server.HealthCheckInterval.Std(), longestSettleTime)
	if v.RotationBlocked = rotation; v.RotationBlocked.Why != "" {
		return
	}
	if eff, ok := p.groups.Effective(v.Group.ID); ok {
		v.RotationBlocked = openWindow(eff.Rails.MaintenanceWindows, now)
	}
}

// openWindow says whether a maintenance window is open now.
func openWindow(windows []document.MaintenanceWindow, now time.Time) fleet.Block {
	open, next := document.OpenWindow(windows, now)
	if open {
		return fleet.Block{}
	}
	return fleet.Block{By: fleet.BlockerWindow, Why: "no maintenance window is open", Until: next}
}
