package demand

import (
	"slices"
	"strings"
	"time"

	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// Confidence says how sure it is that more can be had.
type Confidence uint8

// The confidences: High where an idle machine suits, Medium where one can be bought, Low where the
// only offers cool down.
const (
	ConfidenceNone Confidence = iota + 1
	ConfidenceLow
	ConfidenceMedium
	ConfidenceHigh
)

// Capacity is what more could be had for one profile of a cluster. It is a hint: other needs may take
// it first.
type Capacity struct {
	Cluster      string
	Fingerprint  string
	Confidence   Confidence
	Count        int64 // machines
	PricePerHour int64 // of the cheapest, in millionths of a dollar; 0 where Count is
	// Deficit is what the rows of the profile lack together; zero: nothing.
	Deficit vector.Vector
	// Unoffered is what they ask for of resources that nothing in the shard has: it is part of no
	// vector, and missing as a whole.
	Unoffered []vector.Amount
	Since     int64  // of the oldest deficit, in milliseconds of the epoch
	Reason    Reason // of the deficit of the row that comes first in the order of needs
}

// Capacities returns what more could be had for each profile that a cluster asks for, by fingerprint,
// as of the last step. It is computed in each call, in time that grows with needs, offers and
// idle machines.
func (e *Engine) Capacities(name string) []Capacity {
	w := &e.w
	c, ok := w.byName[name]
	if !ok {
		return nil
	}
	w.matchAll()
	var all []Capacity
	at := map[string]int{}
	for _, n := range c.needs {
		i, ok := at[n.Fingerprint]
		if !ok {
			i = len(all)
			at[n.Fingerprint] = i
			all = append(all, w.capacity(c, n))
		}
		missing := n.shown()
		if missing.IsZero() || n.lack.cycle != w.cycle {
			continue
		}
		have := &all[i]
		have.Deficit.Add(&missing)
		have.Unoffered = append(have.Unoffered, w.cat.space.Unknown(n.Aggregate)...)
		if have.Since == 0 {
			have.Since, have.Reason = n.lack.since, n.lack.reason
		}
		have.Since = min(have.Since, n.lack.since)
	}
	return all
}

// Amounts are the amounts of a deficit with their names.
func (e *Engine) Amounts(v *vector.Vector) []vector.Amount { return e.w.cat.space.Amounts(v) }

// capacity is what one more machine, and how many, could be had for a need.
func (w *world) capacity(c *cluster, n *need) Capacity {
	w.evaluate(c, n)
	have := Capacity{Cluster: c.name, Fingerprint: n.Fingerprint, Confidence: ConfidenceNone}
	offer := func(level Confidence, count, price int64) {
		have.Confidence = max(have.Confidence, level)
		if count > 0 && (have.Count == 0 || price < have.PricePerHour) {
			have.PricePerHour = price
		}
		have.Count += count
	}
	for _, o := range w.cat.offers {
		switch free, why := w.mayBuy(c, n, o); {
		case free > 0:
			offer(ConfidenceMedium, free, o.PricePerHour)
		case why == Cooldown:
			offer(ConfidenceLow, 0, 0)
		}
	}
	for _, slot := range w.fleet.loose {
		if m := w.fleet.at(slot); m.state == Idle && w.mayTake(c, n, m) {
			offer(ConfidenceHigh, 1, m.price)
		}
	}
	return have
}

// NeedView is a need as of the last step, for people.
type NeedView struct {
	Key         Key
	Fingerprint string
	Terms       match.Terms
	Priority    int32
	Group       string // that has to be together; empty: none
	Aggregate   []vector.Amount
	MinUnit     []vector.Amount
	// Deficit is what is missing, since when and why; empty: nothing.
	Deficit []vector.Amount
	Since   time.Time
	Reason  Reason
}

// MachineView is a machine as of the last step, for people.
type MachineView struct {
	ID           string
	State        State
	Group        string
	InstanceType string
	CapacityType CapacityType
	PricePerHour int64 // when it was bought, in millionths of a dollar
	Fixed        bool  // of a group with a size
	Leaving      bool  // it goes for a reason outside of demand
	Needs        int   // that draw from it
	// Surplus is since when no need draws from it; zero: one does, or it serves no cluster yet.
	Surplus time.Time
}

// Needs returns the needs of a cluster in the order in which contested capacity is given. It is computed in each call.
func (e *Engine) Needs(cluster string) []NeedView {
	w := &e.w
	c, ok := w.byName[cluster]
	if !ok {
		return nil
	}
	var all []NeedView
	for _, n := range c.needs {
		v := NeedView{
			Key: n.Key, Fingerprint: n.Fingerprint, Terms: n.Terms, Priority: n.Priority, Group: n.Group,
			Aggregate: slices.Clone(n.Aggregate), MinUnit: slices.Clone(n.MinUnit),
		}
		if missing := n.shown(); !missing.IsZero() && n.lack.cycle == w.cycle {
			v.Deficit, v.Since, v.Reason = append(e.Amounts(&missing), w.cat.space.Unknown(n.Aggregate)...), timeOf(n.lack.since), n.lack.reason
		}
		all = append(all, v)
	}
	return all
}

// Machines returns the machines that are bound to a cluster, or are idle and may be used for it alone, by their ids. It
// is computed in each call.
func (e *Engine) Machines(cluster string) []MachineView {
	w := &e.w
	c, ok := w.byName[cluster]
	if !ok {
		return nil
	}
	claims := map[int32]int32{}
	for pos, slot := range c.ledger.slots {
		claims[slot] = c.ledger.claims[pos].needs
	}
	var all []MachineView
	for slot := range w.fleet.slots {
		m := w.fleet.at(slot)
		if m.id == "" || m.cluster != c.index && (m.cluster >= 0 || m.tenant != c.index) {
			continue
		}
		class := &w.cat.classes[m.class]
		v := MachineView{
			ID: m.id, State: m.state, Group: class.Group, InstanceType: class.InstanceType, CapacityType: class.CapacityType,
			PricePerHour: m.price, Fixed: m.fixed, Leaving: m.leaving, Needs: int(claims[slot]),
		}
		if m.times.surplus > 0 && v.Needs == 0 {
			v.Surplus = timeOf(m.times.surplus)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b MachineView) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Census counts what there is, for metrics.
type Census struct {
	Machines map[MachineKind]int
	Clusters []ClusterCensus // by name
	Short    int             // needs that have less than they ask for
	// Aged are how many needs are short for at least so many seconds: 60, 600 and 3600, in this order.
	Aged [3]int
}

// MachineKind is what machines are counted by.
type MachineKind struct {
	State        State
	CapacityType CapacityType
}

// ClusterCensus counts what a cluster has.
type ClusterCensus struct {
	Name        string
	Needs       int
	Spend       int64 // an hour, in millionths of a dollar
	Quarantined bool  // its last roll-up is not in force yet
}

// Ages are the seconds of [Census.Aged].
var Ages = [3]int64{60, 600, 3600}

// Census counts what there is, as of the last step. It is computed in each call.
func (e *Engine) Census() Census {
	w := &e.w
	all := Census{Machines: map[MachineKind]int{}, Short: len(w.short)}
	for i := range w.fleet.slots {
		if m := w.fleet.at(i); m.id != "" {
			all.Machines[MachineKind{m.state, w.cat.classes[m.class].CapacityType}]++
		}
	}
	for _, c := range w.clusters {
		all.Clusters = append(all.Clusters, ClusterCensus{Name: c.name, Needs: len(c.needs), Spend: c.spend, Quarantined: c.guard.quarantine.Waiting()})
		for _, n := range c.needs {
			if missing := n.shown(); missing.IsZero() || n.lack.cycle != w.cycle {
				continue
			}
			for i, age := range Ages {
				if w.now-n.lack.since >= age*1000 {
					all.Aged[i]++
				}
			}
		}
	}
	slices.SortFunc(all.Clusters, func(a, b ClusterCensus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// ConsolidationView is what is known of the replacement of a group's machines, for people.
type ConsolidationView struct {
	Group     string
	Enabled   bool  // for the sake of the cost; machines that have to make room are replaced without
	MinSaving int64 // in millionths
	// Cluster, Phase, Reason, Replaced, Bought and Since are of the attempt that is under way; empty: there is none.
	Cluster  string
	Phase    string
	Reason   Reason // ReasonConsolidation, ReasonDrift or ReasonExpiry
	Replaced []string
	Bought   []string
	Since    time.Time
	Next     time.Time // when another one is looked for; zero: as soon as nothing else is to be done
	Last     string    // why the last one ended; empty: there was none in this process
}

// Consolidations returns what is known of the groups of which machines are replaced, by group.
func (e *Engine) Consolidations() (all []ConsolidationView) {
	for _, g := range e.w.cat.savers.groups {
		v := ConsolidationView{Group: g.Name, Enabled: g.Consolidation.Enabled, MinSaving: g.Consolidation.MinSaving, Last: g.saving.Why}
		if g.saving.Next > e.w.now {
			v.Next = timeOf(g.saving.Next)
		}
		if a := g.saving.Attempt; a != nil {
			v.Cluster, v.Phase, v.Since = a.Cluster, a.Phase.String(), timeOf(a.Began)
			v.Reason = ReasonConsolidation
			if (consolidating{&e.w}).outdated(a.Replaced) {
				v.Reason = outdatedReasons[e.w.fleet.at(e.w.fleet.byID[a.Replaced[0]]).more.outdatedBy]
			}
			v.Replaced, v.Bought = slices.Clone(a.Replaced), slices.Clone(a.Bought)
		}
		all = append(all, v)
	}
	return all
}

// Usage is what the machines of a group take, as its bounds count it.
type Usage struct {
	Machines, Idle int64
	Resources      []vector.Amount
	Spend          int64 // an hour, in millionths of a dollar
	// Full: the group's own bounds leave no room for one more machine of any of its offers.
	Full bool
	// Shortfalls are how many needs lack something that machines of the group could be.
	Shortfalls int
}

// Usage returns what the machines of each group take, by its name, as of the last step. It is computed in each call.
func (e *Engine) Usage() map[string]Usage {
	w := &e.w
	all := map[string]Usage{}
	for _, g := range w.cat.groups {
		if !g.removed {
			all[g.Name] = Usage{Machines: g.count, Resources: w.cat.space.Amounts(&g.used), Spend: g.spend, Full: full(w.cat, g)}
		}
	}
	for i := range w.fleet.slots {
		m := w.fleet.at(i)
		if m.id == "" || m.state != Idle || m.leaving {
			continue
		}
		name := w.cat.classes[m.class].Group
		if u, ok := all[name]; ok {
			u.Idle++
			all[name] = u
		}
	}
	for _, c := range w.clusters {
		for _, n := range c.needs {
			if missing := n.shown(); missing.IsZero() || n.lack.cycle != w.cycle {
				continue
			}
			for name := range serving(w.cat, n) {
				if u, ok := all[name]; ok {
					u.Shortfalls++
					all[name] = u
				}
			}
		}
	}
	return all
}

// full is whether the bounds of a group that has offers leave no room for one more machine of any of them.
func full(cat *catalog, g *group) bool {
	offered := false
	for _, o := range cat.offers {
		if o.group != g {
			continue
		}
		if offered = true; g.free(o) > 0 {
			return false
		}
	}
	return offered
}

// serving are the groups with a class that matches a need.
func serving(cat *catalog, n *need) map[string]bool {
	groups := map[string]bool{}
	for i := range min(len(cat.classes), 64*len(n.eligible)) {
		if n.has(int32(i)) {
			groups[cat.classes[i].Group] = true
		}
	}
	return groups
}
