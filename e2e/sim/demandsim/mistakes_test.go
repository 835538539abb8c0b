package demandsim_test

import (
	"testing"

	"nstance.dev/e2e/sim/mistaken"
)

// A mistake is a version of the engine that breaks a promise. The simulator has to find each: one
// that cannot find them proves nothing about the version without.
type mistake struct {
	name  string
	edits []mistaken.Edit
}

// TestMistakesCompile checks that every mistake still fits the code and compiles; whether each is
// found is the business of make sim-mistakes.
func TestMistakesCompile(t *testing.T) {
	var all []mistaken.Edit
	for _, m := range mistakes {
		all = append(all, m.edits...)
	}
	mistaken.Compile(t, "../../..", "./server/demand/...", all)
}

var mistakes = []mistake{
	{"credit without in-flight machines", []mistaken.Edit{
		{"server/demand/credit.go", `		m.pos = l.push(slot, m, &c.alloc[m.class])
`, `		if m.state == Configured {
			m.pos = l.push(slot, m, &c.alloc[m.class])
		}
`},
		{"server/demand/acquire.go", `	m.pos = c.ledger.push(slot, m, w.allocatable(c, m.class))
`, `	m.pos = c.ledger.push(slot, m, w.allocatable(c, m.class))
	c.flags.stale = true
`},
	}},
	{"whole-machine claims", []mistaken.Edit{{"server/demand/ledger.go", `	c := &l.claims[pos]
	if c.needs == 0 ||`, `	for i := range levels {
		live[i] &^= bit
	}
	c := &l.claims[pos]
	if c.needs == 0 ||`}}},
	{"re-rank without the deficit check", []mistaken.Edit{{"server/demand/credit.go", `			if !p.deficit.Covers(&lack) {`, `			if false && !p.deficit.Covers(&lack) {`}}},
	{"quarantine off by one", []mistaken.Edit{{"server/demand/rails/rails.go", `	quarantineCount = 3`, `	quarantineCount = 2`}}},
	{"priority inversion", []mistaken.Edit{{"server/demand/needs.go", `		return cmp.Compare(b.Priority, a.Priority)`, `		return cmp.Compare(a.Priority, b.Priority)`}}},
	{"a machine taken from a need of the same priority", []mistaken.Edit{
		{"server/demand/preempt.go", `claims.priority >= n.Priority`, `claims.priority > n.Priority`},
		{"server/demand/preempt.go", `least >= n.Priority`, `least > n.Priority`},
	}},
	{"priorities of different domains compared", []mistaken.Edit{{"server/demand/preempt.go", `w.domainOf(other) != w.domainOf(c) || `, ``}}},
	{"stamp cleared when the machine is configured", []mistaken.Edit{{"server/demand/apply.go", `	back := m.state == Draining
`, `	back := m.state == Draining
	m.stamp = Stamp{}
`}}},
	{"the tenant of a machine forgotten", []mistaken.Edit{{"server/demand/world.go", `	return m.tenant < 0 || m.tenant == c.index || m.more.group.Reuse`, `	return true`}}},
	{"earmark ignored", []mistaken.Edit{{"server/demand/world.go", `	return m.more.earmark == (Key{}) || m.more.earmark == n.Key || m.times.earmark <= w.now
`, `	return true
`}}},
	{"cooldown never reset", []mistaken.Edit{{"server/demand/carry.go", `func (o *offer) succeed() { o.coolFor, o.coolUntil = 0, 0 }`, `func (o *offer) succeed() { o.coolUntil = 0 }`}}},
	{"gang half bought", []mistaken.Edit{{"server/demand/acquire.go", `	case n.AllOrNothing && !w.completes(c, n):`, `	case n.AllOrNothing && n.lack.cycles < 0:`}}},
	{"spread ignoring an empty domain", []mistaken.Edit{{"server/demand/domains.go", `		if !have.Covers(&amount) {
			have`, `		if false && !have.Covers(&amount) {
			have`}}},
	{"float compare", []mistaken.Edit{{"server/demand/acquire.go", `		if cost < least {`, `		if float32(cost) < float32(least) {`}, {"server/demand/vector/vector.go", `	h1, l1 := bits.Mul64(uint64(a), uint64(b))
	h2, l2 := bits.Mul64(uint64(c), uint64(d))
	return h1 < h2 || h1 == h2 && l1 < l2`, `	_ = bits.Len64
	return float32(a)*float32(b) < float32(c)*float32(d)`}}},
	{"map order", []mistaken.Edit{{"server/demand/reclaim.go", `	for _, c := range w.sorted {
		if len(c.unclaimed) == 0`, `	for _, c := range w.byName {
		if len(c.unclaimed) == 0`}}},
	{"reclaim before the first roll-up", []mistaken.Edit{{"server/demand/reclaim.go", `len(c.unclaimed) == 0 || !c.flags.reported {`, `len(c.unclaimed) == 0 {`}}},
	{"reclaims without a cap", []mistaken.Edit{{"server/demand/reclaim.go", `window.Sum(w.now, reclaimSpan) >= most &&`, `window.Sum(w.now, reclaimSpan) > most &&`}}},
	{"a machine given back before what replaces it is there", []mistaken.Edit{{"server/demand/consolidation/attempt.go", `	case !s.Joined || s.Unsettled:`, `	case s.Unsettled:`}, {"server/demand/attempts.go", `	if m.cluster != c.index || m.state != Configured || m.leaving {`, `	if m.cluster != c.index || m.leaving {`}}},
	{"what was given back bought again", []mistaken.Edit{{"server/demand/consolidate.go", `		due = max(due, c.guard.returned+consolidation.Rest)`, `		due = max(due, c.guard.returned)`}}},
	{"a price known for a minute", []mistaken.Edit{{"server/demand/consolidation/price.go", `now-m.began < span`, `now-m.began < span/60`}}},
	{"a refusal forgotten", []mistaken.Edit{{"server/demand/reclaim.go", `		due = max(due, m.times.refused)`, `		due = max(due, 0)`}}},
}
