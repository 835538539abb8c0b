package tenant

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nstance.dev/e2e/sim/demandsim/cluster"
	"nstance.dev/operator/demand/stuck"
	"nstance.dev/protos/needs"
)

// Options are how an operator is set. The zero value is one that refuses nothing.
type Options struct {
	// Refuse says why a Node should not be drained voluntarily; empty is no reason. Nil never
	// refuses. [FitCheck] is the operator's own.
	Refuse func(o *Operator, node string) string
	// StartupTaints are the keys of those that keep a Node from being reported ready.
	StartupTaints []string
	// ToCome says whether machines for a need are still to come, or the shard is short of them, as the
	// objects for upcoming Nodes and available capacity would. It is required.
	ToCome func(needs.Row) stuck.Need
	// PendingOnly makes roll-ups of pending Pods alone. It is a mistake that a simulation has to
	// find: see the tests.
	PendingOnly bool
}

// Operator is a model of an operator. [New] makes one, which has no session.
type Operator struct {
	// Cluster is the one that it speaks for.
	Cluster *cluster.Cluster

	opts     Options
	demand   *demand
	session  bool
	synced   time.Time // when its caches are complete after a restart
	rollupAt time.Time // of the next roll-up by the clock
	soon     time.Time // of the one that a change of Pods asked for; zero if there is none
	drains   []*drain
	reports  []Report
	told     map[string]Report // what was last reported of each machine, by its id
}

// New makes an operator for a cluster.
func New(c *cluster.Cluster, opts Options) *Operator {
	return &Operator{Cluster: c, opts: opts, demand: newDemand(opts.PendingOnly, opts.ToCome), told: map[string]Report{}}
}

// Connect begins a session: a roll-up follows as soon as the caches are complete, and a report of
// each Node.
func (o *Operator) Connect(now time.Time) {
	o.session, o.rollupAt = true, now
	o.demand.newSession()
	clear(o.told)
}

// Disconnect ends the session. Drains go on, and what they come to is told in the next one.
func (o *Operator) Disconnect() { o.session = false }

// Synced says whether the caches are complete.
func (o *Operator) Synced(now time.Time) bool { return !now.Before(o.synced) }

// Connected says whether there is a session.
func (o *Operator) Connected() bool { return o.session }

// Restart is a process that ends and begins again: its memory is lost, its drains have stopped and
// leave their Nodes cordoned, and no roll-up is made until its caches are complete.
func (o *Operator) Restart(synced time.Time) {
	o.session, o.synced, o.drains, o.reports = false, synced, nil, nil
	o.demand = newDemand(o.opts.PendingOnly, o.opts.ToCome)
	for _, p := range o.Cluster.Pods() {
		o.demand.see(p)
	}
}

// Step lets the operator go on to now, and returns the reports and the roll-up that it has to
// send; nil is no roll-up. Without a session it sends nothing.
func (o *Operator) Step(now time.Time) ([]Report, RollUp) {
	if o.watch() && o.soon.IsZero() {
		o.soon = now.Add(RollUpMinInterval)
	}
	if now.Before(o.synced) {
		return nil, nil
	}
	o.drainOn(now)
	if !o.session {
		return nil, nil
	}
	var up RollUp
	if !now.Before(o.rollupAt) || !o.soon.IsZero() && !now.Before(o.soon) {
		o.rollupAt, o.soon = now.Add(RollUpInterval), time.Time{}
		var err error
		if up, err = o.demand.build(o.Cluster, now); err != nil {
			panic(err.Error()) // the demand of a world is small
		}
	}
	o.observe(now, up != nil)
	reports := o.reports
	o.reports = nil
	return reports, up
}

// Held tells the operator that its last roll-up was held: it repeats it.
func (o *Operator) Held(now time.Time) {
	o.rollupAt = now.Add(RollUpInterval)
}

// Rejected tells the operator that the shard has kept nothing of its last roll-up.
func (o *Operator) Rejected(now time.Time) {
	o.demand.writer.Forget(o.demand.writer.Sequence())
	o.rollupAt = now.Add(RollUpMinInterval)
}

// watch takes in what has changed, and says whether Pods have.
func (o *Operator) watch() bool {
	changed, gone := o.Cluster.Changes()
	for _, p := range gone {
		o.demand.lose(p)
	}
	for _, p := range changed {
		o.demand.see(p)
	}
	return len(changed)+len(gone) > 0
}

// observe reports Nodes of machines: a first match, a change of readiness, a change between
// something to evict and nothing, and after each roll-up those with nothing.
func (o *Operator) observe(now time.Time, rolled bool) {
	for _, n := range o.Cluster.Nodes() {
		id := n.Object.Spec.ProviderID
		if id == "" {
			continue
		}
		is := Report{
			Machine: id, Node: n.Object.Name, Ready: n.Ready() && !o.starting(n), At: now,
			Allocatable: cluster.VectorOf(n.Object.Status.Allocatable), Evictable: len(o.Cluster.Evictable(n.Object.Name)),
		}
		was, known := o.told[id]
		if known && was.Ready == is.Ready && (was.Evictable == 0) == (is.Evictable == 0) && (!rolled || is.Evictable > 0) {
			continue
		}
		o.told[id] = is
		o.reports = append(o.reports, is)
	}
}

// starting says whether a Node still has a startup taint.
func (o *Operator) starting(n *cluster.Node) bool {
	return slices.ContainsFunc(n.Object.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(o.opts.StartupTaints, t.Key) })
}

// Ended tells the operator that a machine is idle or gone: its Node is deleted, and what was known
// of its drain is forgotten.
func (o *Operator) Ended(machine string) {
	if n := o.nodeOf(machine); n != nil {
		o.Cluster.Remove(n.Object.Name)
	}
	o.drains = slices.DeleteFunc(o.drains, func(d *drain) bool { return d.Machine == machine })
	delete(o.told, machine)
}

// nodeOf is the Node of a machine, or nil.
func (o *Operator) nodeOf(machine string) *cluster.Node {
	for _, n := range o.Cluster.Nodes() {
		if n.Object.Spec.ProviderID == machine {
			return n
		}
	}
	return nil
}
