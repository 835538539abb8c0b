package offers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/driver"
)

// Input is what a [Book] is made of. It is not changed.
type Input struct {
	Config *effective.Config
	Groups []*effective.Group // of all tenants and both modes; blocked and deleted ones offer nothing
	// Types are what the provider listed last; nil: it has listed nothing yet. HasCatalogue: it can.
	Types        []driver.InstanceType
	HasCatalogue bool
	// Taken is how many machines each tenant has, or is to have, that its demand groups did not buy:
	// they count for its quota.
	Taken map[string]int
	Now   time.Time
}

// Book is what a shard offers. It is not to be changed.
type Book struct {
	Groups []demand.Group              // of mode demand, by name
	Offers []demand.Offer              // by name
	Pools  []demand.PoolChanged        // by name
	States map[document.GroupKey]State // of the groups of mode demand
	// Next is when a window of a disruption budget opens or closes, and the Book has to be made
	// again; zero: none does.
	Next time.Time

	sources map[string]Source
	names   []string // of the resources of all offers
	shard   shard
	groups  map[document.GroupKey]*effective.Group
}

// State is what has become of a group of mode demand.
type State struct {
	Types    []string // that it offers, by name
	LeftOut  int      // types that its requirements choose beyond the most that are taken
	Problems []string // why something is not offered, one sentence each
}

// Source is what an offer stands for: how a machine of it is asked for.
type Source struct {
	Group        document.GroupKey
	InstanceType string
	CapacityType driver.CapacityType
	Reservation  string // the provider's id; empty: none
}

// Of makes the Book. Equal inputs give equal Books.
func Of(in Input) *Book {
	b := &Book{
		names: []string{"cpu", "memory", "pods", "ephemeral-storage"}, States: map[document.GroupKey]State{}, sources: map[string]Source{},
		shard: newShard(in), groups: map[document.GroupKey]*effective.Group{},
	}
	groups := slices.Clone(in.Groups)
	slices.SortFunc(groups, func(a, c *effective.Group) int {
		return cmp.Or(strings.Compare(a.Tenant, c.Tenant), strings.Compare(a.Key, c.Key))
	})
	tenants := map[string]bool{}
	for _, g := range groups {
		key := document.GroupKey{Tenant: g.Tenant, Group: g.Key}
		b.groups[key] = g
		if g.Demand == nil || g.Blocked != "" {
			continue
		}
		tenants[g.Tenant] = true
		settings, next := groupOf(g, in.Now)
		b.wake(next)
		b.Groups = append(b.Groups, settings)
		offered := offering{Book: b, group: g, key: key}
		if !g.Deleted && !g.Rebuilt {
			offered.all()
		}
		b.States[key] = offered.state
	}
	slices.SortFunc(b.Offers, func(a, c demand.Offer) int { return strings.Compare(a.Name, c.Name) })
	b.Pools = b.shard.pools(tenants, in.Taken)
	return b
}

func (b *Book) wake(at time.Time) {
	if !at.IsZero() && (b.Next.IsZero() || at.Before(b.Next)) {
		b.Next = at
	}
}

// Source returns what an offer stands for; false: there is no such offer now.
func (b *Book) Source(offer string) (Source, bool) {
	s, ok := b.sources[offer]
	return s, ok
}

// Description is what is known of a machine before its Node has said anything.
type Description struct {
	Offer           string // that it counts for, whether or not that is offered now; empty: its group has a size
	Class           demand.Class
	InterruptionPPM int64
	Price           int64 // an hour, in millionths of a dollar; 0: not known
	StartupTaints   []document.Taint
	Known           bool // the size of the instance type is known
	// Capacity and Pools are what it counts for in the limits of its group and of quota pools.
	Capacity []vector.Amount
	Pools    []demand.PoolUse
}

// Describe says what a machine of a group is, whether or not anything like it is offered: one of a
// group of fixed size too, and one of a type that the group chooses no longer. An empty capacity type
// stands for what the group's arguments say. False: there is no such group, or it is blocked.
func (b *Book) Describe(key document.GroupKey, instanceType string, capacity driver.CapacityType, reservation string) (Description, bool) {
	g, ok := b.groups[key]
	if !ok || g.Blocked != "" {
		return Description{}, false
	}
	if capacity == "" {
		capacity = driver.OnDemand
		if g.Traits.Interruptible {
			capacity = driver.Spot
		}
	}
	kind, known := b.shard.kind(g, instanceType)
	d := Description{
		Class: b.shard.class(g, kind, capacity), StartupTaints: g.Node.StartupTaints, Known: known,
		InterruptionPPM: b.shard.interruption(kind, capacity),
	}
	d.Price, _ = b.shard.price(kind, capacity)
	if g.Demand != nil {
		d.Offer, d.Pools = offerName(key, instanceType, capacity, reservation), b.shard.uses(g, kind, capacity)
		if known {
			d.Capacity = capacityOf(kind)
		}
	}
	return d, true
}

// offerName names an offer; it is the same for as long as the group offers the same thing.
func offerName(key document.GroupKey, instanceType string, capacity driver.CapacityType, reservation string) string {
	name := key.String() + "/" + instanceType + "/" + string(capacity)
	if reservation != "" {
		name += "/" + reservation
	}
	return name
}

// Policy is what the configuration says of money and priorities in a shard, whose clusters are its tenants.
func Policy(cfg *effective.Config) demand.Policy {
	s := demand.Policy{HourlySpend: map[string]int64{}, Domains: map[string]string{}, Victims: victims(cfg.Server.Demand.PreemptionWeights)}
	for tenant, limit := range cfg.Server.Demand.MaxHourlySpend {
		s.HourlySpend[tenant] = int64(limit)
	}
	for _, domain := range cfg.Server.Demand.PriorityDomains {
		for _, tenant := range domain {
			s.Domains[tenant] = slices.Min(domain)
		}
	}
	return s
}

// victims are the weights of the engine, of which the configuration may set some.
func victims(w *document.PreemptionWeights) demand.Weights {
	all := demand.DefaultWeights
	if w == nil {
		return all
	}
	for _, one := range []struct {
		set *document.Fraction
		to  *int64
	}{{w.PriorityGap, &all.Gap}, {w.DrainTime, &all.Drain}, {w.InterruptionPenalty, &all.Interruption}, {w.ReclamationPenalty, &all.Reclamation}} {
		if one.set != nil {
			*one.to = int64(*one.set)
		}
	}
	return all
}
