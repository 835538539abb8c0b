package demand

import (
	"cmp"
	"slices"
	"time"

	"nstance.dev/server/demand/vector"
)

// taking takes machines from other clusters.
type taking struct{ *world }

// preempt takes machines from other clusters for needs of strictly higher priority that nothing
// could be bought for. It drains them; what is freed is taken in a later cycle.
func (w taking) preempt() {
	least, known := int32(unlimited), false
	for _, n := range w.short {
		if !n.short() || n.memory.blocked > w.now {
			continue
		}
		if !known {
			least, known = w.leastPriority(), true
			w.listTaken()
		}
		if least >= n.Priority {
			continue
		}
		if n.lack.reason == RailHeld || n.lack.reason == GangIncomplete || n.home.guard.loop.Until() > w.now {
			continue
		}
		w.preemptFor(n.home, n)
	}
}

// leastPriority is the least priority that any machine may be taken from.
func (w taking) leastPriority() int32 {
	least := int32(unlimited)
	for _, c := range w.clusters {
		for pos := range c.ledger.slots {
			least = min(least, w.priorityOf(c, pos))
		}
	}
	return least
}

// victim is a machine that could be taken, and how good that is.
type victim struct {
	slot  int32
	spare bool
	score int64
}

func (w taking) preemptFor(c *cluster, n *need) {
	for i := range n.parts {
		p := &n.parts[i]
		lack := p.deficit
		waiting := w.draining(n)
		lack.Sub(&waiting)
		if lack.IsZero() {
			if !p.deficit.IsZero() {
				n.lack.reason = PreemptDraining
			}
			continue
		}
		rooms := rooms{}
		for _, v := range w.victims(c, n, p) {
			if lack.IsZero() {
				break
			}
			gain := w.gain(c, n, p, v, rooms)
			if gain == nil {
				continue
			}
			w.takeFrom(n, v)
			var served vector.Vector
			n.serve(&served, gain[:], 1)
			lack.Sub(&served)
			n.lack.reason = PreemptDraining
		}
	}
}

// listTaken collects the machines that wait for the need that they were taken for.
func (w taking) listTaken() {
	w.taken = w.taken[:0]
	for _, slot := range w.fleet.loose {
		if m := w.fleet.at(slot); m.more.earmark != (Key{}) && m.times.earmark > w.now {
			w.taken = append(w.taken, slot)
		}
	}
}

// draining is what a need will get of machines that drain for it.
func (w taking) draining(n *need) (sum vector.Vector) {
	for _, slot := range w.taken {
		if m := w.fleet.at(slot); m.more.earmark == n.Key && m.times.earmark > w.now && m.state != Failed {
			n.serve(&sum, w.allocatable(n.home, m.class)[:], 1)
		}
	}
	return sum
}

// victims are the machines that a need may take, best first: unclaimed ones, then by score.
func (w taking) victims(c *cluster, n *need, p *part) []victim {
	var all []victim
	for _, other := range w.sorted {
		if other == c || w.domainOf(other) != w.domainOf(c) || !other.flags.live {
			continue
		}
		for pos, slot := range other.ledger.slots {
			m := w.fleet.at(slot)
			if m.cluster != other.index || m.state != Configured || m.fixed || m.leaving || int(m.pos) != pos {
				continue
			}
			claims := other.ledger.claims[pos]
			if !other.flags.reported {
				claims = claim{1, m.stamp.Priority, m.stamp.Interruption, m.stamp.Reclamation}
			}
			switch {
			case claims.needs > 0 && (claims.priority >= n.Priority || claims.interruption == Pinned):
				continue
			case claims.needs == 0 && !w.empty(other, m):
				continue // it is given back the ordinary way, in which its operator has a say
			}
			all = append(all, victim{slot, claims.needs == 0, w.score(n.Priority, claims, &w.cat.classes[m.class])})
		}
	}
	slices.SortFunc(all, func(a, b victim) int {
		if a.spare != b.spare {
			if a.spare {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(w.fleet.at(a.slot).id, w.fleet.at(b.slot).id))
	})
	return all
}

// priorityOf is the priority of those who draw from a machine; before the first roll-up, of the need
// it was bound for.
func (w taking) priorityOf(c *cluster, pos int) int32 {
	if c.flags.reported {
		return c.ledger.claims[pos].priority
	}
	return w.fleet.at(c.ledger.slots[pos]).stamp.Priority
}

// domainOf is the priority domain of a cluster: priorities are compared within one alone.
func (w taking) domainOf(c *cluster) string {
	return cmp.Or(w.settings.Policy.Domains[c.name], "="+c.name)
}

// score is how good a victim is, in thousand millionths: the gap of priorities, and the inverses of how long its drain
// will take in seconds and of what the disturbance and the loss cost in dollars, each with its weight.
func (w taking) score(priority int32, c claim, of *class) int64 {
	const milli, cent = 1000, 100
	weights := w.settings.Policy.Victims
	gap := int64(priority) - int64(c.priority)
	per := func(weight, amount, unit int64) int64 { return weight * milli * unit / max(amount, 1) }
	return gap*weights.Gap*milli + per(weights.Drain, max(of.drainTime(), milli), milli) +
		per(weights.Interruption, c.interruption.Cents(), cent) + per(weights.Reclamation, c.reclamation.Cents(), cent)
}

// rooms are the units of pools that victims of this need leave, and that it has not used yet.
type rooms map[*pool]int64

// gain is what a need would get for a victim; nil: nothing. A machine that the need could not use
// itself has to leave room in pools for one that can be bought.
func (w taking) gain(c *cluster, n *need, p *part, v victim, r rooms) *vector.Vector {
	m := w.fleet.at(v.slot)
	g := m.more.group
	if g.Reuse && !g.UserData && n.has(m.class) && m.inside(p.within) && (m.offer == nil || m.offer.tenant < 0 || m.offer.tenant == c.index) {
		return w.allocatable(c, m.class)
	}
	if m.offer == nil {
		return nil
	}
	for _, u := range m.offer.uses {
		r[u.pool] += u.units
	}
	var best *offer
	for _, o := range w.cat.offers {
		if !n.has(o.class) || o.tenant >= 0 && o.tenant != c.index || !w.inside(o.class, p.within) || o.coolUntil > w.now {
			continue
		}
		if n.profile.int == Pinned && o.Class.InterruptionPPM > 0 || !o.fitsIn(r, n.Key, m) {
			continue
		}
		if best == nil || o.price() < best.price() {
			best = o
		}
	}
	if best == nil {
		for _, u := range m.offer.uses {
			r[u.pool] -= u.units
		}
		return nil
	}
	for _, u := range best.uses {
		r[u.pool] -= u.units
	}
	return w.allocatable(c, best.class)
}

// fitsIn reports whether one more machine of the offer could be bought if the pools had more room.
func (o *offer) fitsIn(r rooms, key Key, victim *machine) bool {
	shares := false
	for _, u := range o.uses {
		if u.pool.limit-u.pool.used-u.pool.reserved(key)+r[u.pool] < u.units {
			return false
		}
		shares = shares || slices.ContainsFunc(victim.offer.uses, func(v use) bool { return v.pool == u.pool })
	}
	return shares && (o.Limit < 0 || o.used < o.Limit) && o.group.free(o) > 0
}

// takeFrom drains a victim for a need, and keeps what it leaves for that one.
func (w taking) takeFrom(n *need, v victim) {
	m := w.fleet.at(v.slot)
	c := w.clusters[m.cluster]
	gap := int64(n.Priority)
	if !v.spare {
		gap -= int64(w.priorityOf(c, int(m.pos)))
	}
	w.drain(v.slot, Action{
		Kind: Preempt, Disposition: w.disposition(n.home.name, nil), Need: n.Key, Reason: ReasonPreempted, Grace: grace(gap),
	})
	m.more.earmark = n.Key
	m.times.earmark = w.now + earmarkFor + millis(grace(gap))
	if !slices.Contains(w.taken, v.slot) {
		w.taken = append(w.taken, v.slot)
	}
}

// grace is how long a preempted machine's drain may take, by the gap of priorities.
func grace(gap int64) time.Duration {
	switch {
	case gap > 900_000:
		return 10 * time.Second
	case gap > 500_000:
		return 30 * time.Second
	case gap > 100_000:
		return 2 * time.Minute
	default:
		return 10 * time.Minute
	}
}
