// Package whatif says what another configuration would cause, before it is in
// force: how many instances each group would create, replace, delete or give new
// files.
//
// It is a forecast, computed from what groups are and would be and from what
// their instances were made from. It knows no clock and changes nothing; the
// decisions themselves are package fleet's, when the time comes.
package whatif

import (
	"cmp"
	"reflect"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
)

// What happens to a group.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// Group is one group before and after, with its instances of now.
type Group struct {
	Key    document.GroupKey
	Before *effective.Group // nil: there is none
	After  *effective.Group // nil: there would be none
	Actual int              // what its size is compared with now
	// Machines are the instances that are not condemned.
	Machines []Machine
}

// Machine is one instance.
type Machine struct {
	OnDemand  bool
	InfraHash string // what it was made from
	Type      string // of the instance, in the provider's words
}

// Plan is what would become of one group.
type Plan struct {
	Key       document.GroupKey
	Change    string
	Creates   int      // replacements left out
	Pushes    int      // new files or vars, without a replacement
	Rotations int      // replaced, one after the other
	Deletes   int      // without a replacement
	Causes    []string // the settings that differ, in a fixed order
	Unlocked  bool     // it leaves the configuration, and goes on as a dynamic group
	Held      string   // not empty: why the group would be left alone from then on
}

// Of returns the plans of the groups that would change, sorted by tenant and key.
func Of(groups []Group) []Plan {
	var plans []Plan
	for _, g := range groups {
		if p, changes := g.plan(); changes {
			plans = append(plans, p)
		}
	}
	slices.SortFunc(plans, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(a.Key.Tenant, b.Key.Tenant), cmp.Compare(a.Key.Group, b.Key.Group))
	})
	return plans
}

func (g Group) plan() (Plan, bool) {
	p := Plan{Key: g.Key, Change: Changed, Unlocked: g.Before != nil && g.After != nil && g.Before.Static && !g.After.Static}
	switch {
	case g.Before == nil && g.After == nil:
		return p, false
	case g.After == nil:
		p.Change, p.Deletes = Removed, g.Actual
		return p, true
	case g.After.Blocked != "":
		p.Held = g.After.Blocked
		return p, g.Before == nil || g.Before.Blocked != g.After.Blocked
	case g.Before == nil:
		p.Change = Added
		g.resize(&p)
		return p, true
	}
	p.Causes = causes(g.Before, g.After)
	if len(p.Causes) == 0 {
		return p, false
	}
	g.resize(&p)
	g.remake(&p)
	return p, true
}

// resize counts what the size asks for. Where the group is on its way to its
// size already, that is part of it.
func (g Group) resize(p *Plan) {
	if g.After.Demand != nil && !g.After.Deleted {
		return // how many there will be follows from what is needed
	}
	p.Creates = max(g.After.Size-g.Actual, 0)
	p.Deletes = max(g.Actual-g.After.Size, 0)
}

// remake counts who is replaced and who gets files, of those that stay.
func (g Group) remake(p *Plan) {
	managed, onDemand, outdated := 0, 0, 0
	made := g.After.MadeLike()
	for _, m := range g.Machines {
		switch {
		case m.OnDemand:
			onDemand++
		default:
			managed++
			if !made(m.InfraHash, m.Type) {
				outdated++
			}
		}
	}
	staying := max(managed-p.Deletes, 0)
	if g.Before.InfraHash != g.After.InfraHash {
		p.Rotations = min(outdated, staying)
	}
	if g.Before.RuntimeHash != g.After.RuntimeHash {
		p.Pushes = staying - p.Rotations + onDemand
	}
}

// causes names the settings in which two states of a group differ.
func causes(a, b *effective.Group) []string {
	var all []string
	for _, setting := range []struct {
		name string
		same bool
	}{
		{"template", a.Template == b.Template},
		{"size", a.Size == b.Size && a.Deleted == b.Deleted},
		{"mode", (a.Demand == nil) == (b.Demand == nil)},
		{"demand", a.Demand == nil || b.Demand == nil || effective.Same(a.Demand, b.Demand)},
		{"instance_requirements", effective.Same(a.Requirements, b.Requirements)},
		{"node", effective.Same(a.Node, b.Node)},
		{"reuse", a.Reuse == b.Reuse},
		{"machine", effective.Same(a.Machine, b.Machine)},
		{"kind", a.Kind == b.Kind},
		{"arch", a.Arch == b.Arch},
		{"instance_type", slices.Equal(a.InstanceTypes, b.InstanceTypes)},
		{"subnet_pool", a.SubnetPool == b.SubnetPool},
		{"args", reflect.DeepEqual(a.Args, b.Args)},
		{"userdata", reflect.DeepEqual(a.Userdata, b.Userdata)},
		{"vars", reflect.DeepEqual(a.Vars, b.Vars)},
		{"files", reflect.DeepEqual(a.Files, b.Files)},
		{"load_balancers", slices.Equal(a.LoadBalancers, b.LoadBalancers)},
		{"drain_timeout", a.DrainTimeout == b.DrainTimeout},
		{"rails", reflect.DeepEqual(a.Rails, b.Rails)},
		{"allowed_instance_types", slices.Equal(a.AllowedInstanceTypes, b.AllowedInstanceTypes)},
		{"static", a.Static == b.Static},
		{"held", a.Blocked == b.Blocked},
	} {
		if !setting.same {
			all = append(all, setting.name)
		}
	}
	if a.RuntimeHash != b.RuntimeHash && !slices.Contains(all, "vars") && !slices.Contains(all, "files") {
		all = append(all, "certificates") // the rest of what the hash is made of
	}
	return all
}
