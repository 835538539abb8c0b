package demand

import (
	"cmp"
	"slices"
	"strings"

	"nstance.dev/server/demand/consolidation"
)

// advance takes the attempts that are under way as far as they go now.
func (w consolidating) advance() {
	w.resume()
	ended := false
	for _, g := range w.cat.savers.groups {
		a := g.saving.Attempt
		if a == nil {
			ended = ended || !g.Consolidation.Enabled && len(g.outdated) == 0
			continue
		}
		c := w.cluster(a.Cluster)
		switch step, why := a.Next(w.sight(c, g, a)); step {
		case consolidation.Wait:
		case consolidation.Place:
			if w.rearrange(c, a.Bought, a.Replaced, false) {
				a.Place(w.now)
			} else {
				w.end(g, "a need would lack more by it", true)
			}
		case consolidation.Restore:
			back := slices.DeleteFunc(slices.Clone(a.Replaced), func(id string) bool { return w.standing(c, id) == nil })
			for _, id := range back {
				m := w.standing(c, id)
				m.times.refused = max(m.times.refused, w.now+consolidation.Penance)
			}
			there := slices.DeleteFunc(slices.Clone(a.Bought), func(id string) bool { return w.standing(c, id) == nil })
			if len(there) > 0 {
				w.rearrange(c, back, there, true)
			}
			w.end(g, why, true)
		default:
			w.end(g, why, step != consolidation.Finish)
		}
		if g.saving.Attempt == nil {
			ended = true
			w.wake(g.saving.Next)
		}
	}
	if ended {
		for _, g := range slices.Clone(w.cat.savers.groups) {
			w.cat.savers.list(g)
		}
	}
}

// end ends the attempt of a group.
func (w consolidating) end(g *group, why string, failed bool) {
	a := g.saving.Attempt
	w.out.Ended = append(w.out.Ended, Ending{Group: g.Name, Cluster: a.Cluster, Replaced: strings.Join(a.Replaced, ","), Why: why, Failed: failed})
	g.saving.End(w.now, why, failed)
}

// standing is a machine that is configured for a cluster and in its ledger; nil: it is not.
func (w consolidating) standing(c *cluster, id string) *machine {
	slot, ok := w.fleet.byID[id]
	if !ok {
		return nil
	}
	m := w.fleet.at(slot)
	if m.cluster != c.index || m.state != Configured || m.leaving {
		return nil
	}
	if m.pos < 0 || int(m.pos) >= len(c.ledger.slots) || c.ledger.slots[m.pos] != slot {
		return nil
	}
	return m
}

// sight is what is seen of the machines of an attempt now.
func (w consolidating) sight(c *cluster, g *group, a *consolidation.Attempt) consolidation.Sight {
	s := consolidation.Sight{
		Joined: true, Standing: true, Left: true, Short: w.lacksAny(c), Withdrawn: !g.Consolidation.Enabled && !w.outdated(a.Replaced),
		Unsettled: c.flags.dirty || c.flags.stale || !c.flags.reported || w.disposition(c.name, g) != Execute,
	}
	for _, id := range a.Bought {
		slot, ok := w.fleet.byID[id]
		if !ok || !w.fleet.at(slot).bound() || w.fleet.at(slot).cluster != c.index {
			s.Failed = true
			continue
		}
		s.Joined = s.Joined && w.fleet.at(slot).state == Configured
	}
	for _, id := range a.Replaced {
		slot, ok := w.fleet.byID[id]
		m := w.standing(c, id)
		s.Standing = s.Standing && m != nil
		if ok && w.fleet.at(slot).cluster == c.index && !w.fleet.at(slot).leaving {
			s.Left = false
		}
		if m != nil {
			s.Refused = s.Refused || m.times.refused > w.now
			s.Claimed = s.Claimed || c.ledger.claims[m.pos].needs > 0
		}
	}
	if s.Unsettled && c.flags.dirty {
		w.wake(w.now + 1)
	}
	return s
}

// rearrange gives machines the place of others in the keep order, and makes those the last ones, and reports
// whether it did: no need may lack more by that. Without keep, nothing may even be drawn from those, and where
// needs would lack more that are served by amounts, the machines stay in the place that they have.
func (w consolidating) rearrange(c *cluster, up, down []string, keep bool) bool {
	l := &c.ledger
	positions := func(ids []string) (all []int32) {
		for _, id := range ids {
			if m := w.standing(c, id); m != nil {
				all = append(all, m.pos)
			}
		}
		slices.Sort(all)
		return all
	}
	ups, downs := positions(up), positions(down)
	if len(ups) != len(up) || len(downs) != len(down) || len(downs) == 0 {
		return false
	}
	var order []int32
	for pos := range int32(len(l.slots)) {
		if pos == downs[0] {
			order = append(order, ups...)
		}
		if !slices.Contains(ups, pos) && !slices.Contains(downs, pos) {
			order = append(order, pos)
		}
	}
	trial := order
	if keep {
		trial = slices.Concat(order, downs)
	}
	if !w.suffices(c, w.lay(c, trial, nil)) {
		if order = l.without(downs); keep || !w.suffices(c, w.lay(c, order, nil)) {
			return false
		}
	}
	full := slices.Concat(order, downs)
	seqs := slices.Sorted(slices.Values(l.seqs))
	slots := slices.Clone(l.slots)
	for i, pos := range full {
		w.fleet.at(slots[pos]).seq = seqs[i]
	}
	credit := crediting{w.world, w.spaces[0]}
	credit.fill(c)
	credit.attribute(c, len(c.ledger.slots))
	credit.date(c)
	c.flags.dirty = true
	w.wake(w.now + 1)
	return true
}

// outdated reports whether all of the machines are to make room for others.
func (w consolidating) outdated(ids []string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool {
		slot, ok := w.fleet.byID[id]
		return !ok || w.fleet.at(slot).more.outdatedBy == upToDate
	})
}

// renew begins the replacement of the oldest of the machines of a group that are to make room, whatever that costs. One goes
// after the other.
func (w consolidating) renew(g *group) {
	if g.saving.Again > w.now {
		w.wake(g.saving.Again)
		return
	}
	var oldest *machine
	g.outdated = slices.DeleteFunc(g.outdated, func(id string) bool { _, ok := w.fleet.byID[id]; return !ok })
	for _, id := range g.outdated {
		m := w.fleet.at(w.fleet.byID[id])
		if m.leaving && m.voluntary {
			return
		}
		if m.cluster < 0 || w.standing(w.clusters[m.cluster], id) == nil {
			continue
		}
		if w.clusters[m.cluster].ledger.claims[m.pos].needs == 0 {
			continue // it goes as surplus
		}
		if m.times.refused > w.now || g.saving.Alone(id, w.now) {
			w.wake(w.now + consolidation.Rest)
			continue
		}
		if oldest == nil || cmp.Or(cmp.Compare(m.times.bound, oldest.times.bound), cmp.Compare(m.id, oldest.id)) < 0 {
			oldest = m
		}
	}
	if oldest == nil {
		return
	}
	c, why := w.clusters[oldest.cluster], outdatedReasons[oldest.more.outdatedBy]
	if !w.calm(c) || !g.mayDrain(why, w.world) || c.guard.loop.Until() > w.now {
		return
	}
	set := []int32{oldest.pos}
	bought, ok := w.shop(c, g, set, -1)
	if !ok {
		g.saving.LeaveAlone(oldest.id, w.now)
		w.wake(w.now + 1) // another one may go
		return
	}
	w.buy(c, g, set, bought, why)
}

// resume takes up the attempts of which records tell, once their clusters have reported: what was bought to replace
// machines that are still there, and are not to be left alone, goes on doing so.
func (w consolidating) resume() {
	w.cat.savers.resumed = slices.DeleteFunc(w.cat.savers.resumed, func(r resumed) bool {
		slot, ok := w.fleet.byID[r.id]
		if !ok || !w.fleet.at(slot).bound() {
			return true
		}
		c := w.clusters[w.fleet.at(slot).cluster]
		if !c.flags.reported {
			return false
		}
		var g *group
		var left []string
		for id := range strings.SplitSeq(r.replaces, ",") {
			m := w.standing(c, id)
			if m == nil || m.fixed || !m.more.group.Consolidation.Enabled && m.more.outdatedBy == upToDate || m.more.group.saving.Alone(id, w.now) {
				continue
			}
			if g == nil {
				g = m.more.group
			}
			if m.more.group == g {
				left = append(left, id)
			}
		}
		if g == nil {
			return true
		}
		a := g.saving.Attempt
		if a == nil {
			a = &consolidation.Attempt{Cluster: c.name, Replaced: left, Phase: consolidation.Buying, Began: w.now}
			g.saving.Attempt = a
			w.cat.savers.list(g)
		}
		if a.Phase == consolidation.Buying && slices.Equal(a.Replaced, left) && !slices.Contains(a.Bought, r.id) {
			a.Bought = append(a.Bought, r.id)
		}
		return true
	})
}

// lay makes the ledger for trial one of machines of a cluster in an order of positions. Those below zero are of
// machines that are to be bought.
func (w consolidating) lay(c *cluster, order []int32, bought []machine) *ledger {
	l, t := &c.ledger, &w.spaces[0].trial
	t.reset(l.width)
	t.trial = true
	t.ranks = append(t.ranks, l.ranks...)
	for i := range l.domains {
		t.track(l.domains[i].key).empty(&l.domains[i])
	}
	for _, pos := range order {
		if pos < 0 {
			m := &bought[^pos]
			t.push(pos, m, w.allocatable(c, m.class))
			continue
		}
		at := t.add(l.slots[pos], l.seqs[pos], l.stamps[pos], l.classes[pos], &c.alloc[l.classes[pos]])
		t.rankOf = append(t.rankOf, l.rankOf[pos])
		for i := range t.domains {
			t.domains[i].insert(l.domains[i].at[pos], at)
		}
	}
	t.enliven(l.live.levels)
	return t
}

// suffices lets the needs draw from a ledger for trial, and reports whether none lacks more by that.
func (w consolidating) suffices(c *cluster, t *ledger) bool {
	if w.keepMinimums(c, t) != nil {
		return false
	}
	for _, n := range c.needs {
		for i := range n.parts {
			p := &n.parts[i]
			lack := *n.amount(p)
			if !n.memory.gave {
				t.draw(n, p, &lack, 0, len(t.slots), c.levels, n.memory.own)
			}
			if !p.deficit.Covers(&lack) {
				return false
			}
		}
	}
	return true
}

// keepMinimums claims what the groups' minimums ask for, and returns a group that lacks more by that; nil: there is none.
func (w consolidating) keepMinimums(c *cluster, t *ledger) *group {
	for _, m := range c.minimums {
		left := m.group.Min
		for pos := 0; pos < len(t.slots) && left > 0; pos++ {
			if w.cat.classes[t.classes[pos]].Group == m.group.Name {
				t.claims[pos] = claim{needs: 1, priority: unlimited}
				left--
			}
		}
		if left > m.missing {
			return m.group
		}
	}
	return nil
}
