package demand

import (
	"slices"
	"strings"
	"time"

	"nstance.dev/server/demand/consolidation"
)

// advance takes the attempts that are under way as far as they go now.
func (w consolidating) advance() {
	w.resume()
	ended := false
	for _, g := range w.cat.savers.groups {
		a := g.saving.Attempt
		if a == nil {
			continue
		}
		c := w.cluster(a.Cluster)
		switch step, why := a.Next(w.sight(c, g, a)); step {
		case consolidation.Wait:
		case consolidation.Place:
			if w.rearrange(c, a.Bought, a.Replaced, false) {
				a.Place()
			} else {
				g.saving.End(w.now, "a need would lack more by it", true)
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
			g.saving.End(w.now, why, true)
		default:
			g.saving.End(w.now, why, step != consolidation.Finish)
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
		Joined: true, Standing: true, Left: true, Short: w.lacksAny(c), Withdrawn: !g.Consolidation.Enabled,
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
// whether it did: no need may lack more by that. Without keep, nothing may even be drawn from those.
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
	full := slices.Concat(order, downs)
	if keep {
		order = full
	}
	if !w.suffices(c, w.lay(c, order, nil)) {
		return false
	}
	seqs := slices.Sorted(slices.Values(l.seqs))
	slots := slices.Clone(l.slots)
	for i, pos := range full {
		w.fleet.at(slots[pos]).seq = seqs[i]
	}
	credit := crediting{w.world, w.spaces[0]}
	credit.fill(c)
	credit.attribute(c)
	credit.date(c)
	c.flags.dirty = true
	w.wake(w.now + 1)
	return true
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
			if m == nil || m.fixed || !m.more.group.Consolidation.Enabled || m.more.group.saving.Alone(id, w.now) {
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
		}
		if a.Phase == consolidation.Buying && slices.Equal(a.Replaced, left) && !slices.Contains(a.Bought, r.id) {
			a.Bought = append(a.Bought, r.id)
		}
		return true
	})
}

// ConsolidationView is what is known of the replacement of a group's machines by cheaper ones, for people.
type ConsolidationView struct {
	Group     string
	MinSaving int64 // in millionths
	// Cluster, Phase, Replaced, Bought and Since are of the attempt that is under way; empty: there is none.
	Cluster  string
	Phase    string
	Replaced []string
	Bought   []string
	Since    time.Time
	Next     time.Time // when another one is looked for; zero: as soon as nothing else is to be done
	Last     string    // why the last one ended; empty: there was none in this process
}

// Consolidations returns what is known of the groups whose machines are replaced by cheaper ones, by group.
func (e *Engine) Consolidations() (all []ConsolidationView) {
	for _, g := range e.w.cat.savers.groups {
		v := ConsolidationView{Group: g.Name, MinSaving: g.Consolidation.MinSaving, Last: g.saving.Why}
		if g.saving.Next > e.w.now {
			v.Next = time.UnixMilli(g.saving.Next).UTC()
		}
		if a := g.saving.Attempt; a != nil {
			v.Cluster, v.Phase, v.Since = a.Cluster, a.Phase.String(), time.UnixMilli(a.Began).UTC()
			v.Replaced, v.Bought = slices.Clone(a.Replaced), slices.Clone(a.Bought)
		}
		all = append(all, v)
	}
	return all
}
