package demand

import (
	"cmp"
	"slices"
	"time"
)

// Engine decides for one shard. The zero Engine is not ready; see [New].
type Engine struct {
	w     world
	quiet bool // the last cycle left nothing to be done before the next due time
}

// New returns an Engine that knows of nothing. It starts nothing.
func New(settings Settings) (*Engine, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	settings.MaxCreates = cmp.Or(settings.MaxCreates, 1000)
	settings.MaxShortfalls = cmp.Or(settings.MaxShortfalls, 100)
	settings.Policy.Victims = cmp.Or(settings.Policy.Victims, DefaultWeights)
	e := &Engine{w: world{
		settings: settings, cat: newCatalog(), byName: map[string]*cluster{}, profiles: map[string]*profile{},
		scopes: map[string]Disposition{},
	}}
	e.w.topo.values, e.w.topo.places = map[string]int32{}, map[string]*places{}
	e.w.fleet.byID = map[string]int32{}
	return e, nil
}

// Step applies a batch of events in order, and decides. Times must not go back from one call to the
// next. The result holds until the next call.
func (e *Engine) Step(now time.Time, batch []Event) Result {
	w := &e.w
	w.now = max(w.now, instantOf(now))
	w.out.Actions, w.out.Answers, w.out.Rejected = w.out.Actions[:0], w.out.Answers[:0], w.out.Rejected[:0]
	w.out.Capped, w.out.Ended, w.out.Served, w.out.Reordered = 0, w.out.Ended[:0], w.out.Served[:0], 0
	for _, event := range batch {
		if err := (intake{w}).apply(event); err != nil {
			w.out.Rejected = append(w.out.Rejected, err)
		}
	}
	if len(batch) == 0 && e.quiet && (w.next == 0 || w.now < w.next) {
		return w.out
	}
	w.cycle++
	w.next, w.creates = 0, 0
	for _, c := range w.clusters {
		c.flags.spent = false
	}
	for _, p := range phases {
		if w.settings.Phase != nil {
			w.settings.Phase(p.name)
		}
		p.do(w)
	}
	e.quiet = !slices.ContainsFunc(w.clusters, func(c *cluster) bool { return c.flags.dirty })
	w.out.Next = time.Time{}
	if w.next != 0 {
		w.out.Next = timeOf(w.next)
	}
	return w.out
}

// phases are the parts of a cycle, in their order.
var phases = []struct {
	name string
	do   func(*world)
}{
	{"credit", func(w *world) { giving{w}.expire(); w.list(); w.credit() }},
	{"acquire", func(w *world) { buying{w}.acquire() }},
	{"preempt", func(w *world) { taking{w}.preempt() }},
	{"reclaim", func(w *world) { consolidating{w}.advance(); giving{w}.reclaim() }},
	{"release", func(w *world) { giving{w}.release() }},
	{"consolidate", func(w *world) { consolidating{w}.begin() }},
	{"tally", func(w *world) { w.tally(); undoing{w}.revert(); w.fleet.sweep() }},
}

// tally writes down what every need lacks, and lists the most urgent.
func (w *world) tally() {
	w.out.Shortfalls = w.out.Shortfalls[:0]
	for _, c := range w.clusters {
		c.lacks = false
	}
	waiting{w}.tally()
	w.short = slices.DeleteFunc(w.short, func(n *need) bool { return !w.lacking(n) })
	w.out.Short = len(w.short)
	slices.SortFunc(w.short, func(a, b *need) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.lack.since, b.lack.since), walk(a, b))
	})
	for _, n := range w.short[:min(len(w.short), w.settings.MaxShortfalls)] {
		w.out.Shortfalls = append(w.out.Shortfalls, Shortfall{
			Cluster: n.home.name, Need: n.Key, Fingerprint: n.Fingerprint, Priority: n.Priority, Deficit: n.shown(),
			Since: timeOf(n.lack.since), Cycles: n.lack.cycles, Reason: n.lack.reason,
		})
	}
}

// lacking writes down what a need lacks after this cycle, and reports whether it lacks anything.
func (w *world) lacking(n *need) bool {
	missing := n.missing()
	if missing.IsZero() && n.lack.waits.amount.IsZero() {
		n.lack = lack{}
		n.memory.blockedFor = 0
		return false
	}
	if n.lack.cycles == 0 || n.lack.cycle != w.cycle-1 {
		n.lack.since, n.lack.cycles = w.now, 0
	}
	n.lack.cycles++
	n.lack.cycle = w.cycle
	switch {
	case missing.IsZero():
		n.lack.reason = n.lack.waits.why
		return true
	case !n.short():
		n.lack.reason = Skew
	}
	n.home.lacks = n.home.lacks || n.profile.same >= 0 || len(n.profile.spread) > 0 || n.AllOrNothing
	return true
}
