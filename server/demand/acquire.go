package demand

import (
	"cmp"
	"math"
	"slices"

	"nstance.dev/server/demand/vector"
)

// An idle machine is taken unless it costs this many times as much as the best offer.
const idleFactor = 4

// A Same need that got nothing in this many evaluations stops buying, and tries again after
// as many cycles as parkedFor says.
const (
	parkAfter = 8
	parkedFor = 320_000
)

// buying gets what needs lack.
type buying struct{ *world }

// acquire buys what needs lack, and takes what is idle first. All clusters' needs stand in one
// order, which alone decides who gets what there is not enough of.
func (w buying) acquire() {
	w.acquireMinimums()
	for _, n := range w.shortNeeds() {
		w.acquireNeed(n.home, n)
	}
	w.acquireWarm()
}

// shortNeeds are the needs with a deficit, in walk order.
func (w buying) shortNeeds() []*need {
	w.short = w.short[:0]
	for _, c := range w.sorted {
		for _, n := range c.needs {
			if n.short() || !n.skewed().IsZero() {
				w.short = append(w.short, n)
			}
		}
	}
	slices.SortFunc(w.short, walk)
	return w.short
}

// acquireNeed serves one need as far as it goes, and notes why it goes no further.
func (w buying) acquireNeed(c *cluster, n *need) {
	w.evaluate(c, n)
	n.lack.reason = ""
	if c.ledger.fresh < len(c.ledger.slots) {
		for i := range n.parts {
			p := &n.parts[i]
			c.ledger.draw(n, p, &p.deficit, c.ledger.fresh, len(c.ledger.slots), c.levels, n.memory.own)
		}
		n.sum()
	}
	if !n.short() {
		return
	}
	switch {
	case n.memory.blocked > w.now:
		n.lack.reason = n.memory.blockedWhy
		w.wake(n.memory.blocked)
		return
	case n.memory.nowhere:
		n.lack.reason = NoDomain
		w.park(n)
		return
	case n.AllOrNothing && !w.completes(c, n):
		n.lack.reason = GangIncomplete
		w.dissolve(n)
		return
	}
	if n.AllOrNothing && n.memory.own {
		n.memory.own = false // what it lacked can be had: it draws like every other in the next cycle
		c.flags.dirty = true
		w.wake(w.now + 1)
	}
	got := false
	w.survey(c, n)
	for i := range n.parts {
		got = w.acquirePart(c, n, &n.parts[i]) || got
	}
	n.sum()
	if n.profile.same >= 0 && n.short() && !got {
		w.park(n)
	} else {
		n.memory.parked = 0
	}
}

// park counts an evaluation of a Same need that got nothing, and stops it from buying after some.
func (w buying) park(n *need) {
	n.memory.parked++
	if n.memory.parked < parkAfter {
		return
	}
	n.memory.parked = 0
	placed := w.placed(n.home, n)
	n.memory.parkedAt, n.memory.parkedWith = w.supply, &placed
	n.block(Parked, w.now+parkedFor, w.fleet.seq+1)
	w.wake(n.memory.blocked)
}

// completes reports whether what can be bought covers all that a gang lacks.
func (w buying) completes(c *cluster, n *need) bool {
	for i := range n.parts {
		p := &n.parts[i]
		have := w.acquirable(c, n, p.within)
		if n.memory.own {
			left := c.ledger.remaining(n, p.within, &p.deficit)
			have.Add(&left)
		}
		if !have.Covers(&p.deficit) {
			return false
		}
	}
	return true
}

// What was bought of a gang is kept for this long while the rest cannot be had. The next try comes
// after gangRetry, then after twice as long each time.
const (
	gangHold     = 900_000
	gangRetry    = 900_000
	gangRetryMax = 14_400_000
)

// dissolve gives up what was bought of a gang of which the rest cannot be had for too long.
func (w buying) dissolve(n *need) {
	if n.memory.gangSince == 0 {
		if !w.fleet.boundFor(n) {
			return
		}
		n.memory.gangSince = w.now
	}
	if until := n.memory.gangSince + gangHold; w.now < until {
		w.wake(until)
		return
	}
	n.memory.gangSince = 0
	n.memory.gave = true
	n.memory.blockedFor = min(max(gangRetry, 2*n.memory.blockedFor), gangRetryMax)
	n.block(GangIncomplete, w.now+n.memory.blockedFor, 1)
	n.home.flags.dirty = true
	w.wake(w.now + 1)
}

// acquirePart buys until a part has no deficit, or nothing can be bought. It reports whether it
// bought anything.
func (w buying) acquirePart(c *cluster, n *need, p *part) (got bool) {
	for !p.deficit.IsZero() {
		slot, o, k := w.pick(c, n, p)
		switch {
		case slot >= 0:
			w.bind(c, slot, n, ReasonNeed)
			w.join(c, n, p, slot)
		case o != nil:
			for ; k > 0 && !p.deficit.IsZero(); k-- {
				if !w.allowed(c, o) {
					n.lack.reason = RailHeld
					return got
				}
				w.join(c, n, p, w.provision(c, o, n, ReasonNeed))
			}
		default:
			return got
		}
		got = true
		c.guard.bought = w.now
		w.survey(c, n)
	}
	return got
}

// survey finds out what a need could have now, in whatever domain: pick chooses from it until something
// was taken.
func (w buying) survey(c *cluster, n *need) {
	w.market.machines, w.market.offers, w.market.refused = w.market.machines[:0], w.market.offers[:0], ""
	for _, s := range w.idle {
		if w.mayTake(c, n, w.fleet.at(s)) {
			w.market.machines = append(w.market.machines, s)
		}
	}
	for _, o := range w.cat.offers {
		free, why := w.mayBuy(c, n, o)
		if free > 0 {
			w.market.offers = append(w.market.offers, bid{
				offer: o, free: free, cost: effective(o.price(), o.Class.InterruptionPPM, n.Interruption),
			})
			continue
		}
		w.market.refused = nearer(w.market.refused, why)
		if why == Cooldown {
			w.wake(o.coolUntil)
		}
	}
}

// pick chooses what to take next for a part: an idle machine, or an offer and how many of it.
func (w buying) pick(c *cluster, n *need, p *part) (slot int32, o *offer, k int64) {
	idle, best := bid{slot: -1}, bid{}
	w.bids = w.bids[:0]
	for _, s := range w.market.machines {
		m := w.fleet.at(s)
		if !m.inside(p.within) {
			continue
		}
		b := bid{slot: s, share: n.share(w.allocatable(c, m.class), &p.deficit)}
		b.cost = effective(m.currentPrice(), m.currentRisk(), n.Interruption)
		if idle.slot < 0 || b.cheaper(idle) || !idle.cheaper(b) && m.id < w.fleet.at(idle.slot).id {
			idle = b
		}
	}
	n.lack.reason = nearer(n.lack.reason, w.market.refused)
	for _, b := range w.market.offers {
		if !w.inside(b.offer.class, p.within) {
			n.lack.reason = nearer(n.lack.reason, NoDomain)
			continue
		}
		b.share = n.share(w.allocatable(c, b.offer.class), &p.deficit)
		w.bids = append(w.bids, b)
	}
	if len(w.bids) > 0 {
		best = w.cheapest(c, n, p)
	}
	if idle.slot >= 0 && (best.offer == nil || w.worthTaking(idle, best)) {
		return idle.slot, nil, 0
	}
	if best.offer == nil {
		n.lack.reason = cmp.Or(n.lack.reason, NoMatchingOffer)
		return -1, nil, 0
	}
	return -1, best.offer, min(max(vector.Whole/best.share, 1), best.free)
}

// Of the offers that are cheapest by the unit so many are tried out.
const triedOffers = 12

// cheapest returns the offer to buy from next. By cost of the unit alone the last machine of a need is
// often far too large, so the cheapest few are tried out: as many as are used whole, and what the rest
// would then cost from any one of them.
func (w buying) cheapest(c *cluster, n *need, p *part) bid {
	slices.SortStableFunc(w.bids, func(a, b bid) int {
		switch {
		case a.cheaper(b):
			return -1
		case b.cheaper(a):
			return 1
		default:
			return 0
		}
	})
	tried := w.bids[:min(len(w.bids), triedOffers)]
	best, least := tried[0], int64(math.MaxInt64)
	for _, b := range tried {
		k := min(max(vector.Whole/b.share, 1), b.free)
		rest := p.deficit
		var had vector.Vector
		n.serve(&had, w.allocatable(c, b.offer.class)[:], k)
		rest.Sub(&had)
		cost := vector.Times(b.cost, k)
		if !rest.IsZero() {
			finish := int64(math.MaxInt64)
			for _, f := range tried {
				finish = min(finish, vector.Times(f.cost, n.machines(w.allocatable(c, f.offer.class), &rest)))
			}
			cost += min(finish, math.MaxInt64-cost)
		}
		if cost < least {
			best, least = b, cost
		}
	}
	return best
}

// worthTaking reports whether an idle machine is taken although there is an offer.
func (w buying) worthTaking(idle, best bid) bool {
	m := w.fleet.at(idle.slot)
	switch w.cat.classes[m.class].CapacityType {
	case Reserved, BareMetal:
		return true
	default:
		best.cost *= idleFactor
		return !vector.LessProduct(best.cost, idle.share, idle.cost, best.share)
	}
}

// join puts a machine that was bound last into the ledger and draws from it.
func (w buying) join(c *cluster, n *need, p *part, slot int32) {
	m := w.fleet.at(slot)
	m.pos = c.ledger.push(slot, m, w.allocatable(c, m.class))
	if p != nil {
		c.ledger.draw(n, p, &p.deficit, int(m.pos), len(c.ledger.slots), c.levels, false)
	}
	c.flags.dirty = true
}

// allowed reports whether the rails of the cluster let it buy one more machine of an offer now.
func (w buying) allowed(c *cluster, o *offer) bool {
	if until := c.guard.loop.Until(); until > w.now {
		w.wake(until)
		return false
	}
	if w.creates == w.settings.MaxCreates {
		w.wake(w.now + 1)
		return false
	}
	if limit, ok := w.settings.Policy.HourlySpend[c.name]; ok && c.spend+o.PricePerHour > limit {
		c.flags.spent = true
	}
	return !c.flags.spent
}

// acquireMinimums buys what is missing of the groups' minimums, before every need.
func (w buying) acquireMinimums() {
	for _, c := range w.sorted {
		for i := range c.minimums {
			g := c.minimums[i].group
			for ; c.minimums[i].missing > 0; c.minimums[i].missing-- {
				slot := w.takeFor(c, g, ReasonMinimum)
				if slot < 0 {
					break
				}
				w.join(c, nil, nil, slot)
				c.ledger.claims[w.fleet.at(slot).pos] = claim{needs: 1, priority: unlimited}
			}
		}
	}
}

// acquireWarm buys the unbound machines that groups keep, after every need.
func (w buying) acquireWarm() {
	for _, o := range w.cat.offers {
		g := o.group
		if g.MinIdle == 0 || g.UserData || g.warmed == w.cycle {
			continue
		}
		g.warmed = w.cycle
		for have := w.spareOf(g); have < g.MinIdle; have++ {
			if w.takeFor(nil, g, ReasonWarm) < 0 {
				break
			}
		}
	}
}

// spareOf is how many spare machines a group has.
func (w buying) spareOf(g *group) (count int64) {
	for _, slot := range w.fleet.loose {
		if m := w.fleet.at(slot); m.spare() && m.more.group == g && m.more.outdatedBy == upToDate {
			count++
		}
	}
	return count
}

// takeFor gets one machine of a group, for a cluster or, without one, to be idle; -1: there is none.
func (w buying) takeFor(c *cluster, g *group, why Reason) int32 {
	if c != nil {
		for _, slot := range w.idle {
			if m := w.fleet.at(slot); m.spare() && m.more.group == g && w.reusable(c, m) && m.times.earmark <= w.now {
				w.bind(c, slot, nil, why)
				return slot
			}
		}
	}
	var best *offer
	for _, o := range w.cat.offers {
		if o.group != g || c != nil && o.tenant >= 0 && o.tenant != c.index {
			continue
		}
		if free, _ := o.free(Key{}); free == 0 || o.coolUntil > w.now {
			w.wake(o.coolUntil)
			continue
		}
		if best == nil || o.price() < best.price() {
			best = o
		}
	}
	if best == nil || c != nil && !w.allowed(c, best) || c == nil && w.creates == w.settings.MaxCreates {
		return -1
	}
	return w.provision(c, best, nil, why)
}
