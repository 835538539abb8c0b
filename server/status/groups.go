package status

import (
	"slices"
	"strings"

	"nstance.dev/server/cache"
	"nstance.dev/server/catalog"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// Group is what a group should be, and what there is of it. It is not to be changed.
type Group struct {
	*effective.Group

	// Revision is above those of all earlier descriptions of the tenant's groups, also by
	// earlier leaders. Zero: there is no such group any more, and of the others Tenant and
	// Key alone are set.
	Revision int64

	Zone, Region, Provider string
	Offer                  catalog.Offer    // of the first instance type that is known
	Pause                  *groupfile.Pause // that counts for it now; nil: none
	Conditions             []explain.Condition

	// Instances by state, without those on demand.
	Pending, Actual, Unhealthy, Draining int
	ProviderIDs, ProviderURIs            []string // of the actual ones, sorted

	Usage *Usage // of a group of mode demand; nil: not known
}

// Gone is the description of a group that there is no more.
func Gone(id fleet.GroupID) Group {
	return Group{Group: &effective.Group{Tenant: id.Tenant, Key: id.Name}}
}

// ListGroups returns the status of the tenant's groups in the order of their
// keys, those included that still shrink to nothing after their deletion. Their
// conditions are those of the last pass.
func (r *Reader) ListGroups(tenant string) []*Group {
	all := r.Groups(tenant)
	for _, g := range all {
		g.Conditions = OfGroup(r.Summaries.Of(fleet.GroupID{Tenant: tenant, Name: g.Key}).Conditions)
	}
	return all
}

// Groups returns the groups of a tenant as events show them: without conditions.
func (r *Reader) Groups(tenant string) []*Group {
	var all []*Group
	for id := range r.opts.Groups.All() {
		if id.Tenant != tenant {
			continue
		}
		if g, ok := r.Group(id); ok {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *Group) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// Group describes one group and counts its instances; false: there is no such group.
func (r *Reader) Group(id fleet.GroupID) (*Group, bool) {
	if _, ok := r.opts.Groups.Find(id); !ok {
		return nil, false
	}
	revision := r.next(id.Tenant) // before the look
	eff, ok := r.opts.Groups.Find(id)
	if !ok {
		return nil, false
	}
	provider := r.opts.Groups.Config().Server.Provider
	g := &Group{
		Group: eff, Revision: revision, Zone: provider.Zone, Region: provider.Region, Provider: provider.Kind,
		Offer: r.opts.Catalog.Offer(eff.InstanceTypes).Or(catalog.Offer{VCPU: eff.Traits.VCPU, MemoryMiB: eff.Traits.MemoryMiB}),
	}
	if p, ok := r.opts.Groups.PauseOf(id, r.opts.Now()); ok {
		g.Pause = &p
	}
	if eff.Demand != nil && r.opts.Usage != nil {
		g.Usage = r.opts.Usage(id)
	}
	for _, in := range r.opts.Cache.Group(id) {
		if !in.OnDemand {
			r.countInto(g, in)
		}
	}
	slices.Sort(g.ProviderIDs)
	slices.Sort(g.ProviderURIs)
	return g, true
}

func (r *Reader) countInto(g *Group, in cache.Instance) {
	switch {
	case in.State == fleet.Pending || in.State == fleet.Provisioning:
		g.Pending++
	case in.State.Registered():
		g.Actual++
		if in.ProviderID != "" {
			g.ProviderIDs = append(g.ProviderIDs, in.ProviderID)
			g.ProviderURIs = append(g.ProviderURIs, r.ProviderURI(in))
		}
	case in.State.Sick():
		g.Unhealthy++
	case in.State.Leaving():
		g.Draining++
	}
}
