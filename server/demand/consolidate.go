package demand

import (
	"cmp"
	"slices"
	"strings"

	"nstance.dev/server/demand/consolidation"
	"nstance.dev/server/demand/vector"
)

// consolidating replaces machines by cheaper ones that do the same. It changes nothing of a cluster in which
// anything else is decided, buys before it gives back, and takes what saves too little of an hour's cost for
// nothing, so that it comes to an end. A shard whose groups do not ask for it pays nothing.
type consolidating struct{ *world }

// mostBought is how many machines one attempt buys at most.
const mostBought = 32

// list notes whether machines of a group are replaced. One with an attempt under way stays until that has ended.
func (s *savers) list(g *group) {
	i, found := slices.BinarySearchFunc(s.groups, g.Name, func(o *group, name string) int { return strings.Compare(o.Name, name) })
	switch wanted := g.Consolidation.Enabled || g.saving.Attempt != nil || len(g.outdated) > 0; {
	case wanted && !found:
		s.groups = slices.Insert(s.groups, i, g)
	case !wanted && found:
		s.groups = slices.Delete(s.groups, i, i+1)
	}
}

// observe remembers a machine of a record that was bought to replace others.
func (s *savers) observe(m Supply) {
	if m.Replaces != "" {
		s.resumed = append(s.resumed, resumed{m.ID, m.Replaces})
	}
}

// hold reports whether a machine is not given back because of an attempt, although nothing draws from it.
func (s *savers) hold(id string) bool {
	return slices.ContainsFunc(s.groups, func(g *group) bool { return g.saving.Attempt != nil && g.saving.Attempt.Holds(id) })
}

// gives reports whether a machine of the group is given back because it was replaced.
func (g *group) gives(id string) bool { return g.saving.Attempt != nil && g.saving.Attempt.Gives(id) }

// begin looks for machines to be replaced, of one set in each group at a time.
func (w consolidating) begin() {
	for _, g := range w.cat.savers.groups {
		m := &g.saving
		if m.Attempt == nil && len(g.outdated) > 0 {
			w.renew(g)
		}
		if m.Attempt != nil || !g.Consolidation.Enabled {
			continue
		}
		if home := w.byName[m.Unsure()]; home != nil && m.Next <= w.now {
			m.Judge(w.now, home.guard.bought)
		}
		looked, found := false, false
		for _, c := range w.sorted {
			if m.Next > w.now {
				break
			}
			if !w.settled(c, g) {
				continue
			}
			looked = true
			if found = w.replace(c, g); found {
				break
			}
		}
		if looked && !found { // what is suspended is decided again in each cycle
			m.Next = w.now + consolidation.Rest
		}
		w.wake(m.Next)
	}
}

// calm reports whether a cluster lacks nothing, and nothing of it is being made or leaves.
func (w consolidating) calm(c *cluster) bool {
	if !c.flags.reported || !c.flags.live || c.flags.dirty || c.flags.stale || c.guard.quarantine.Waiting() || w.lacksAny(c) {
		return false
	}
	return !slices.ContainsFunc(w.fleet.loose, func(slot int32) bool {
		m := w.fleet.at(slot)
		return m.cluster == c.index && !m.fixed && (m.state != Configured || m.leaving)
	})
}

// settled reports whether nothing else is to be done for a cluster that has machines of a group.
func (w consolidating) settled(c *cluster, g *group) bool {
	if !w.calm(c) {
		return false
	}
	due := c.flags.changed + millis(g.scaleDownDelay())
	if c.guard.returned != 0 {
		due = max(due, c.guard.returned+consolidation.Rest) // what was given back is not bought again
	}
	if due > w.now {
		w.wake(due)
		return false
	}
	if slices.ContainsFunc(c.needs, func(n *need) bool { return n.memory.blocked != 0 || n.memory.gangSince != 0 }) {
		return false
	}
	if slices.ContainsFunc(c.unclaimed, func(slot int32) bool { return w.fleet.at(slot).times.refused <= w.now }) {
		return false
	}
	return slices.ContainsFunc(c.members, func(slot int32) bool { return w.fleet.at(slot).more.group == g })
}

// lacksAny reports whether a need or a minimum of a cluster is short.
func (w consolidating) lacksAny(c *cluster) bool {
	return slices.ContainsFunc(c.minimums, func(m minimum) bool { return m.missing > 0 }) ||
		slices.ContainsFunc(c.needs, func(n *need) bool { return n.short() || !n.skewed().IsZero() })
}

// replace begins an attempt with the fewest of the least used machines of a group that a cheaper set can do
// without, and reports whether there are such.
func (w consolidating) replace(c *cluster, g *group) bool {
	if !g.mayDrain(ReasonConsolidation, w.world) || c.guard.loop.Until() > w.now {
		return false
	}
	all := w.leastUsed(c, g)
	for k := range all {
		set := slices.Sorted(slices.Values(all[:k+1]))
		if bought, ok := w.substitute(c, g, set); ok {
			w.buy(c, g, set, bought, ReasonConsolidation)
			return true
		}
	}
	return false
}

// leastUsed are the positions of the machines of a group with the smallest share in use, that one first;
// of equal ones the youngest.
func (w consolidating) leastUsed(c *cluster, g *group) (best []int32) {
	l := &c.ledger
	var shares []int64
	for pos, slot := range l.slots {
		m := w.fleet.at(slot)
		if m.more.group != g || !w.replaceable(g, m, l.claims[pos]) {
			continue
		}
		alloc := &c.alloc[m.class]
		used := *alloc
		for d, left := range l.row(pos) {
			used[d] -= left
		}
		mask := alloc.Positive()
		share := vector.Coverage(&used, alloc, mask)
		i, _ := slices.BinarySearchFunc(shares, share, func(a, b int64) int { return cmp.Or(cmp.Compare(a, b), 1) }) // later ones are younger
		if i == consolidation.MostReplaced {
			continue
		}
		shares = slices.Insert(shares, i, share)
		best = slices.Insert(best, i, int32(pos))
		best, shares = best[:min(len(best), consolidation.MostReplaced)], shares[:min(len(best), consolidation.MostReplaced)]
	}
	return best
}

// replaceable reports whether a machine may be replaced as far as it alone goes. One that a group's minimum
// keeps, and one whose Pods nothing may disturb, is not.
func (w consolidating) replaceable(g *group, m *machine, by claim) bool {
	if m.fixed || m.leaving || m.state != Configured || by.needs == 0 || by.priority == unlimited || by.interruption == Pinned {
		return false
	}
	if m.more.held > w.now || m.times.refused > w.now || m.times.configured+millis(g.MinLifetime) > w.now || g.saving.Alone(m.id, w.now) {
		return false
	}
	_, known := w.paid(m)
	return known
}

// paid is what a machine cost in the last hour, by the mean; false: that is not known. One that is not offered any
// longer costs what it cost when it was bound.
func (w consolidating) paid(m *machine) (int64, bool) {
	if m.offer == nil {
		return m.price, true
	}
	i, listed := slices.BinarySearchFunc(w.cat.offers, m.offer.Name, func(o *offer, name string) int { return strings.Compare(o.Name, name) })
	if !listed || w.cat.offers[i] != m.offer {
		return m.price, true
	}
	return m.offer.paid.At(w.now)
}

// cost is what the machines of a ledger cost an hour that needs draw from: all of them, those at the first
// positions, and the ones that are to be bought. What is paid for in any case is left out.
func (w consolidating) cost(l *ledger, set []int32, bought []machine) (all, those, fresh int64) {
	for pos, slot := range l.slots {
		if l.claims[pos].needs == 0 {
			continue
		}
		var m *machine
		if slot < 0 {
			m = &bought[^slot]
		} else {
			m = w.fleet.at(slot)
		}
		if m.fixed {
			continue
		}
		price, known := w.paid(m)
		if !known {
			price = m.currentPrice()
		}
		price = effective(price, m.currentRisk(), l.claims[pos].interruption)
		all += price
		if slot < 0 {
			fresh += price
		} else if slices.Contains(set, int32(pos)) {
			those += price
		}
	}
	return all, those, fresh
}

// substitute finds what would be bought in the place of a set of machines, and reports whether that is worth it
// and leaves no need with less.
func (w consolidating) substitute(c *cluster, g *group, set []int32) ([]machine, bool) {
	all, those, _ := w.cost(&c.ledger, set, nil)
	bought, ok := w.shop(c, g, set, those)
	if !ok {
		return nil, false
	}
	trial, ok := w.inPlace(c, set, bought)
	if !ok {
		return nil, false
	}
	for pos := range trial.slots {
		if trial.slots[pos] < 0 && trial.claims[pos].needs == 0 {
			return nil, false // it would be surplus at once
		}
	}
	after, _, fresh := w.cost(trial, nil, bought)
	least := g.Consolidation.MinSaving
	return bought, consolidation.Worth(those, fresh, least) && consolidation.Worth(those, max(those-(all-after), 0), least)
}

// inPlace is a ledger for trial in which what is to be bought stands where the first of a set of machines does, and reports
// whether no need lacks more by that.
func (w consolidating) inPlace(c *cluster, set []int32, bought []machine) (*ledger, bool) {
	var order []int32
	for pos := range c.ledger.slots {
		if int32(pos) == set[0] {
			for i := range bought {
				order = append(order, ^int32(i))
			}
		}
		if !slices.Contains(set, int32(pos)) {
			order = append(order, int32(pos))
		}
	}
	trial := w.lay(c, order, bought)
	return trial, w.suffices(c, trial)
}

// shop chooses what is bought for what the needs lack without a set of machines, as they would choose for themselves.
// It ends where that gets too dear for a budget; negative: there is none.
func (w consolidating) shop(c *cluster, g *group, set []int32, budget int64) (bought []machine, ok bool) {
	trial := w.lay(c, c.ledger.without(set), nil)
	short := w.keepMinimums(c, trial)
	if short != nil && budget >= 0 {
		return nil, false
	}
	idle := w.idle
	w.idle = nil // idle machines wait for needs, or for their end
	defer func() {
		w.idle = idle
		for i := range bought {
			bought[i].offer.charge(-1)
		}
	}()
	if short != nil {
		o := w.cheapestOf(c, short)
		if o == nil {
			return nil, false
		}
		bought = append(bought, w.imagine(o, nil))
		o.charge(1)
		pos := trial.push(^int32(0), &bought[0], w.allocatable(c, o.class))
		trial.claims[pos] = claim{needs: 1, priority: unlimited}
	}
	lacks, of := w.lacking(c, trial)
	spent, fresh := int64(0), len(trial.slots)
	for i := range lacks {
		p, n := &lacks[i], of[i]
		trial.draw(n, p, &p.deficit, fresh, len(trial.slots), c.levels, false)
		for !p.deficit.IsZero() {
			o, k := w.choose(c, g, n, p, budget >= 0)
			for ; o != nil && k > 0 && !p.deficit.IsZero(); k-- {
				m := w.imagine(o, n)
				if budget >= 0 {
					price, _ := o.paid.At(w.now)
					spent += effective(price, o.Class.InterruptionPPM, n.Interruption)
				}
				bought = append(bought, m)
				o.charge(1)
				pos := trial.push(^int32(len(bought)-1), &m, w.allocatable(c, m.class))
				trial.draw(n, p, &p.deficit, int(pos), len(trial.slots), c.levels, false)
				if len(bought) > mostBought || budget >= 0 && !consolidation.Worth(budget, spent, g.Consolidation.MinSaving) {
					return bought, false
				}
			}
			if o == nil {
				return bought, false
			}
		}
	}
	return bought, w.affordable(c, bought)
}

// lacking lets the needs draw from a ledger for trial, and returns what they lack and whose it is.
func (w consolidating) lacking(c *cluster, trial *ledger) (lacks []part, of []*need) {
	for _, n := range c.needs {
		for i := range n.parts {
			p := part{within: n.parts[i].within, deficit: *n.amount(&n.parts[i])}
			if !n.memory.gave {
				trial.draw(n, &p, &p.deficit, 0, len(trial.slots), c.levels, n.memory.own)
			}
			if !p.deficit.IsZero() {
				lacks, of = append(lacks, p), append(of, n)
			}
		}
	}
	return lacks, of
}

// choose is what a need would buy next: an offer, of which the price is known for an hour if that counts, and how many of
// it; nil: none.
func (w consolidating) choose(c *cluster, g *group, n *need, p *part, priced bool) (*offer, int64) {
	why := n.lack.reason
	buying(w).survey(c, n)
	w.market.offers = slices.DeleteFunc(w.market.offers, func(b bid) bool {
		_, known := b.offer.paid.At(w.now)
		return priced && !known || w.disposition(c.name, b.offer.group) != w.disposition(c.name, g)
	})
	_, o, k := buying(w).pick(c, n, p)
	n.lack.reason = why
	return o, k
}

// cheapestOf is the offer of a group that costs least; nil: nothing of it is for sale.
func (w consolidating) cheapestOf(c *cluster, g *group) (best *offer) {
	for _, o := range w.cat.offers {
		if o.group != g || o.tenant >= 0 && o.tenant != c.index || o.coolUntil > w.now {
			continue
		}
		if free, _ := o.free(Key{}); free > 0 && (best == nil || o.price() < best.price()) {
			best = o
		}
	}
	return best
}

// imagine is a machine of an offer that is not bought.
func (w consolidating) imagine(o *offer, n *need) machine {
	m := machine{class: o.class, offer: o, price: o.price(), cluster: -1, tenant: -1, pos: -1, seq: w.fleet.seq + 1, stamp: stampOf(n)}
	m.more.group, m.more.risk = o.group, int32(o.Class.InterruptionPPM)
	w.locate(&m)
	w.topo.leave(m.more.places)
	return m
}

// affordable reports whether the rails of a cluster let it buy so much beside what it has.
func (w consolidating) affordable(c *cluster, bought []machine) bool {
	spend := c.spend
	for i := range bought {
		spend += bought[i].offer.PricePerHour
	}
	limit, ok := w.settings.Policy.HourlySpend[c.name]
	return (!ok || spend <= limit) && (w.settings.MaxCreates < 0 || w.creates+len(bought) <= w.settings.MaxCreates)
}

// buy begins an attempt. While a scope is suspended it is decided, and not begun.
func (w consolidating) buy(c *cluster, g *group, set []int32, bought []machine, why Reason) {
	a := &consolidation.Attempt{Cluster: c.name, Phase: consolidation.Buying, Began: w.now}
	for _, pos := range set {
		a.Replaced = append(a.Replaced, w.fleet.at(c.ledger.slots[pos]).id)
	}
	replaces := strings.Join(a.Replaced, ",")
	for i := range bought {
		n := c.byKey[bought[i].stamp.Need]
		slot := w.provision(c, bought[i].offer, n, why)
		if n != nil {
			n.memory.gangSince = 0 // its gang is whole
		}
		w.out.Actions[len(w.out.Actions)-1].Replaces = replaces
		buying(w).join(c, nil, nil, slot)
		a.Bought = append(a.Bought, w.fleet.at(slot).id)
	}
	if w.disposition(c.name, g) == Execute {
		g.saving.Attempt = a
		w.wake(w.now + 1)
	}
}
