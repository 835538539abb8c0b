package demandmode

import (
	"cmp"
	"slices"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/offers"
)

// supply is a book of offers and what is paused, as of one moment.
type supply struct {
	book      *offers.Book
	groups    map[fleet.GroupID]demandloop.Group
	suspended []demand.Suspended
	next      time.Time
	policy    demand.Policy
	makings   map[fleet.GroupID]*making
}

// supply is what can be bought by a book, now.
func (m *Mode) supply(book *offers.Book) demandloop.Supply {
	now := m.opts.Now()
	s := &supply{book: book, groups: map[fleet.GroupID]demandloop.Group{}, next: book.Next, policy: offers.Policy(m.opts.Groups.Config()), makings: map[fleet.GroupID]*making{}}
	if m.opts.Groups.Config().Server.Demand.DryRun {
		s.suspended = append(s.suspended, demand.Suspended{RehearsalOnly: true})
	}
	for id, group := range m.opts.Groups.All() {
		if group.Demand == nil {
			continue
		}
		s.groups[id] = groupOf(group)
		s.makings[id] = makingOf(group, m.opts.Groups.Config().Server.Expiry)
		block := m.opts.Groups.Paused(id, now)
		if block.By == "" {
			continue
		}
		s.suspended = append(s.suspended, demand.Suspended{Scope: id.String(), Paused: true})
		if !block.Until.IsZero() && (s.next.IsZero() || block.Until.Before(s.next)) {
			s.next = block.Until
		}
	}
	slices.SortFunc(s.suspended, func(a, b demand.Suspended) int { return cmp.Compare(a.Scope, b.Scope) })
	return s
}

// groupOf is what the loop has to know of a group.
func groupOf(g *effective.Group) demandloop.Group {
	return demandloop.Group{
		Kind: g.Kind, UserData: g.Demand.Configure == document.ConfigureUserData && g.Machine == nil, AfterDrain: demandloop.AfterDrain(g.Demand.AfterDrain),
		ForceDrain: g.Demand.OnDrainTimeout == document.DrainTimeoutForce, Vars: g.Vars,
	}
}

// Groups implements [demandloop.Supply].
func (s *supply) Groups() []demand.Group { return s.book.Groups }

// Offers implements [demandloop.Supply].
func (s *supply) Offers() []demand.Offer { return s.book.Offers }

// Pools implements [demandloop.Supply].
func (s *supply) Pools() []demand.PoolChanged { return s.book.Pools }

// Policy implements [demandloop.Supply].
func (s *supply) Policy() demand.Policy { return s.policy }

// Suspended implements [demandloop.Supply].
func (s *supply) Suspended() []demand.Suspended { return s.suspended }

// Next implements [demandloop.Supply].
func (s *supply) Next() time.Time { return s.next }

// Source implements [demandloop.Supply].
func (s *supply) Source(offer string) (demandloop.Source, bool) {
	source, ok := s.book.Source(offer)
	return demandloop.Source{
		Group: fleet.GroupID{Tenant: source.Group.Tenant, Name: source.Group.Group}, InstanceType: source.InstanceType,
		CapacityType: demand.CapacityType(source.CapacityType), Reservation: source.Reservation,
	}, ok
}

// Describe implements [demandloop.Supply].
func (s *supply) Describe(source demandloop.Source) (demandloop.Description, bool) {
	key := document.GroupKey{Tenant: source.Group.Tenant, Group: source.Group.Name}
	d, ok := s.book.Describe(key, source.InstanceType, driver.CapacityType(source.CapacityType), source.Reservation)
	if !ok {
		return demandloop.Description{}, false
	}
	return demandloop.Description{
		Offer: d.Offer, Class: d.Class, InterruptionPPM: d.InterruptionPPM, Price: d.Price, StartupTaints: taintsOf(d.StartupTaints),
		Capacity: d.Capacity, Pools: d.Pools,
	}, true
}

// Group implements [demandloop.Supply].
func (s *supply) Group(id fleet.GroupID) (demandloop.Group, bool) {
	g, ok := s.groups[id]
	return g, ok
}

func taintsOf(all []document.Taint) []match.Taint {
	var out []match.Taint
	for _, t := range all {
		out = append(out, match.Taint{Key: t.Key, Value: t.Value, Effect: effects[t.Effect]})
	}
	return out
}

var effects = map[string]match.Effect{
	"NoSchedule": match.NoSchedule, "PreferNoSchedule": match.PreferNoSchedule, "NoExecute": match.NoExecute,
}

// sources are what the book is made of.
func (m *Mode) sources() offers.Sources {
	return offers.Sources{
		Config: m.opts.Groups.Config, Types: m.opts.Types, Now: m.opts.Now, Log: m.opts.Log,
		Groups: func() []*effective.Group {
			var all []*effective.Group
			for _, group := range m.opts.Groups.All() {
				all = append(all, group)
			}
			return all
		},
		Taken: m.taken,
	}
}

// taken is how many machines each tenant has, or is to have, that demand does not buy.
func (m *Mode) taken() map[string]int {
	taken, live := map[string]int{}, map[fleet.GroupID]int{}
	rows := m.opts.Cache.All()
	for i := range rows {
		if in := &rows[i]; counts(in) {
			live[in.Group]++
		}
	}
	for id, group := range m.opts.Groups.All() {
		if group.Demand == nil {
			live[id] = max(live[id], group.Size)
			continue
		}
		delete(live, id)
	}
	for id, n := range live {
		taken[id.Tenant] += n
	}
	for i := range rows {
		if in := &rows[i]; in.State != fleet.Deleted && !counts(in) {
			taken[in.Group.Tenant]++
		}
	}
	return taken
}

// counts reports whether an instance counts for the size of its group. The others are there beside it.
func counts(in *cache.Instance) bool {
	return in.State != fleet.Deleted && !in.OnDemand && !in.State.Leaving()
}
