package demandloop

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	agentbinding "nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/binding"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// taking takes in what is in the mailbox.
type taking struct{ *core }

func (c taking) letter(l letter) {
	switch l := l.(type) {
	case connect:
		c.connect(l)
	case disconnect:
		if cluster := c.clusters[l.cluster]; cluster != nil && cluster.session == l.session {
			cluster.session = nil
			c.feed.tell(demand.Session{Cluster: l.cluster})
			c.opts.Log.Info("operator disconnected", "cluster", l.cluster)
		}
	case counted:
		l.reply <- c.engine.Census()
	case inspect:
		l.reply <- c.picture(l.cluster, l.need)
	case posted:
		if cluster := c.clusters[l.cluster]; cluster != nil && cluster.session == l.session {
			c.message(cluster, l.message)
		}
	}
}

// connect begins a session: its operator is told all there is of its machines, and asked for what is open.
func (c taking) connect(l connect) {
	cluster := c.cluster(l.cluster)
	cluster.session, cluster.hello, cluster.capacities = l.session, l.hello, map[string]Capacity{}
	cluster.snapshot++
	snapshot := Snapshot{ID: cluster.snapshot, Epoch: c.opts.Term}
	var own, buying []identity.ID
	for id, m := range c.machines {
		switch {
		case m.about.cluster == l.cluster:
			own = append(own, id)
		case m.join.buying != nil && m.join.buying.Binding.Cluster == l.cluster:
			buying = append(buying, id) // it is not made before the operator says what it takes to join
		}
	}
	slices.Sort(own)
	slices.Sort(buying)
	for _, id := range own {
		snapshot.Nodes = append(snapshot.Nodes, c.machines[id].about.last)
	}
	l.reply <- snapshot
	c.feed.tell(demand.Session{Cluster: l.cluster, Live: true})
	c.opts.Log.Info("operator connected", "cluster", l.cluster, "instance", l.hello.Instance, "machines", len(own))
	for _, id := range append(own, buying...) {
		m := c.machines[id]
		c.unask(m)
		m.asked = time.Time{}
		c.look(id)
	}
}

func (c taking) message(cluster *cluster, m Inbound) {
	switch m := m.(type) {
	case RollupReceived:
		if !m.SameAs {
			cluster.keep(m.Rows)
		}
		c.feed.tell(demand.Rollup{Cluster: cluster.name, Sequence: m.Sequence, Rows: m.Rows, Overheads: m.Overheads, Repeated: m.SameAs})
	case Blob:
		if asking := cluster.asks[m.Request]; asking != nil {
			joining(c).answered(asking, m)
		}
	case ReclaimAnswer:
		c.reclaimAnswer(cluster, m)
	case NodeReports:
		for _, r := range m {
			c.nodeReport(cluster, r)
		}
	}
}

// reclaimAnswer takes in what the operator says to an instruction. Each of ours names one machine.
func (c taking) reclaimAnswer(cluster *cluster, answer ReclaimAnswer) {
	name, _ := strings.CutPrefix(answer.Instruction, "rcl-")
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		name = name[:i]
	}
	m, s, ok := c.ours(cluster, name)
	switch {
	case ok && m.turn.busy:
		c.deferWork(func() { c.reclaimAnswer(cluster, answer) })
		return
	case !ok || !drains(&s, answer.Instruction):
		return
	}
	d := draining(c)
	for _, refusal := range answer.Refused {
		if refusal.Machine == name {
			if s.rec.Binding.Drain.Voluntary {
				d.keep(m, &s, "refused: "+refusal.Reason, refusal.RetryAfter)
			}
			return
		}
	}
	d.accepted(m, &s, answer.Started > 0)
}

// drains reports whether a machine drains by an instruction, and has not left.
func drains(s *sight, instruction string) bool {
	b := s.rec.Binding
	return s.station.State == demand.Draining && !s.station.Leaving && b.Drain.Instruction == instruction && b.Drain.LeftAt.IsZero()
}

// ours is a machine of a cluster; false: it is another's.
func (c taking) ours(cluster *cluster, name string) (*machine, sight, bool) {
	m := c.machines[identity.ID(name)]
	if m == nil || m.join.buying != nil {
		return nil, sight{}, false
	}
	s, ok := c.see(m.id)
	if !ok || s.rec.Binding == nil || s.rec.Binding.Cluster != cluster.name {
		return nil, sight{}, false
	}
	return m, s, true
}

// nodeReport takes in what a cluster sees of the Node of a machine.
func (c taking) nodeReport(cluster *cluster, r NodeReport) {
	if c.machines[identity.ID(r.Machine)] == nil || c.mayBeNode(identity.ID(r.Machine)) {
		c.found(cluster, r)
		return
	}
	m, s, ok := c.ours(cluster, r.Machine)
	switch {
	case ok && m.turn.busy:
		c.deferWork(func() { c.nodeReport(cluster, r) })
		return
	case !ok || s.station.Leaving:
		return
	}
	m.about.lacks = r.NotReady
	if r.Node != "" && r.Node != m.about.node {
		m.about.node = r.Node
		framing(c).show(m, &s)
	}
	switch {
	case r.Instruction != "" && drains(&s, r.Instruction) && (r.Drained || r.Error != ""):
		draining(c).ended(m, &s, r.Drained, r.Error)
	case r.Ready && s.station.State == demand.Configuring:
		joining(c).ready(m)
	}
	if s.station.State == demand.Configured || s.station.State == demand.Configuring {
		c.feed.tell(demand.Report{ID: r.Machine, Empty: r.EvictablePods != nil && *r.EvictablePods == 0, Allocatable: r.Allocatable})
	}
}

// found binds a machine that a cluster of its tenant has for a Node, and that no decision has bound: it was made
// by a group with a size, joined by itself, and counts from now on.
func (c taking) found(cluster *cluster, r NodeReport) {
	id := identity.ID(r.Machine)
	row, known := c.opts.Records.Known(id)
	rec, recorded := c.opts.Records.Record(id)
	if !r.Ready || !known || !recorded || row.OnDemand || row.Group.Tenant != cluster.name || !row.State.Registered() {
		return
	}
	_, ofDemand := c.supply.Group(row.Group)
	s := sight{row: row, rec: rec, fixed: !ofDemand}
	if ofDemand && !s.handedOver() {
		return
	}
	m := c.machines[id]
	switch {
	case m == nil:
		m = &machine{id: id, failure: demand.Lost}
		c.machines[id] = m
	case m.turn.busy:
		return
	default:
		c.forget(m) // as the idle one that it was taken for
	}
	m.about.fixed, m.about.node = !ofDemand, r.Node
	d, _ := c.supply.Describe(Source{Group: row.Group, InstanceType: row.InstanceType})
	c.write(m, "found", func(rec *layout.InstanceRecord) error { return binding.Found(rec, cluster.name, d.Price, c.opts.Now()) }, nothing)
}

// mayBeNode reports whether a machine that could join clusters may be a Node already.
func (c taking) mayBeNode(id identity.ID) bool {
	s, ok := c.see(id)
	return ok && s.handedOver()
}

// notes takes in what was noted of machines.
func (c taking) notes(n notes) {
	if n.supply {
		c.resupply()
	}
	for _, id := range sorted(n.refused) {
		if m := c.machines[id]; m != nil {
			m.failure = n.refused[id]
		}
	}
	for _, id := range sorted(n.machines) {
		c.look(id)
	}
	for _, id := range sorted(n.greeted) {
		c.greeted(id, n.greeted[id])
	}
	for _, id := range sorted(n.reported) {
		c.reported(id, n.reported[id])
	}
}

// greeted takes in whether a machine whose agent is there can join clusters.
func (c taking) greeted(id identity.ID, can bool) {
	m := c.machines[id]
	if m == nil && can {
		m = &machine{id: id, failure: demand.Lost}
		m.join.able = able
		c.machines[id] = m
		if _, ok := c.see(id); !ok { // no machine of demand mode
			delete(c.machines, id)
			return
		}
	}
	if m == nil {
		return
	}
	m.join.able, m.join.sent = unable, ""
	if can {
		m.join.able = able
	}
	if s, ok := c.see(id); ok && s.station.State == demand.Draining && !s.rec.Binding.Drain.LeftAt.IsZero() {
		m.asked = time.Time{} // it may not have heard
	}
	c.look(id)
}

// reported takes in what an agent says of the binding of its machine.
func (c taking) reported(id identity.ID, r agentbinding.Report) {
	m := c.machines[id]
	switch {
	case m == nil || m.join.buying != nil:
		return
	case m.turn.busy:
		c.deferWork(func() { c.reported(id, r) })
		return
	}
	s, ok := c.see(id)
	if !ok || s.station.Leaving || s.rec.Binding == nil {
		return
	}
	joining(c).reported(m, &s, r)
	draining(c).reported(m, &s, r)
}

// resupply tells the engine what can be bought now, as far as that is news, and has machines looked at
// whose group has another mode, or is made from something else.
func (c taking) resupply() {
	next, before := c.opts.Supply(), c.supply
	c.supply = next
	known := map[string]demand.Group{}
	if before != nil {
		for _, g := range before.Groups() {
			known[g.Name] = g
		}
	}
	for _, g := range next.Groups() {
		if old, ok := known[g.Name]; !ok || !reflect.DeepEqual(old, g) {
			c.feed.tell(demand.GroupChanged{Group: g})
		}
	}
	for _, p := range next.Pools() {
		if before == nil || !slices.Contains(before.Pools(), p) {
			c.feed.tell(p)
		}
	}
	if before == nil || !reflect.DeepEqual(before.Policy(), next.Policy()) {
		c.feed.tell(demand.PolicyChanged{Policy: next.Policy()})
	}
	if before == nil || !reflect.DeepEqual(before.Offers(), next.Offers()) {
		c.feed.tell(demand.OffersChanged{Offers: next.Offers()})
	}
	c.suspend(next.Suspended())
	modes := map[fleet.GroupID]bool{}
	rows := c.opts.Records.All()
	for i := range rows {
		if _, ok := next.Group(rows[i].Group); ok {
			modes[rows[i].Group] = true
		}
	}
	if before != nil && maps.Equal(modes, c.modes) && maps.Equal(before.Makings(), next.Makings()) {
		return
	}
	c.modes = modes
	ids := make([]identity.ID, 0, len(rows))
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	slices.Sort(ids)
	for _, id := range ids {
		c.look(id)
	}
}

// suspend tells the engine what is paused now, and what is not any more.
func (c taking) suspend(now []demand.Suspended) {
	scopes := map[string]demand.Suspended{}
	for _, s := range now {
		scopes[s.Scope] = s
		if c.scopes[s.Scope] != s {
			c.feed.tell(s)
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(c.scopes)) {
		if _, still := scopes[scope]; !still {
			c.feed.tell(demand.Suspended{Scope: scope})
		}
	}
	c.scopes = scopes
}
