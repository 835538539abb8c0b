package demand

import "nstance.dev/server/demand/vector"

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
			all[g.Name] = Usage{Machines: g.count, Resources: w.cat.space.Amounts(&g.used), Spend: g.spend, Full: w.full(g)}
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
			if missing := n.missing(); missing.IsZero() || n.lack.cycle != w.cycle {
				continue
			}
			for name := range w.serving(n) {
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
func (w *world) full(g *group) bool {
	offered := false
	for _, o := range w.cat.offers {
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
func (w *world) serving(n *need) map[string]bool {
	groups := map[string]bool{}
	for i := range min(len(w.cat.classes), 64*len(n.eligible)) {
		if n.has(int32(i)) {
			groups[w.cat.classes[i].Group] = true
		}
	}
	return groups
}
