package leader

import (
	"slices"
	"time"

	"nstance.dev/e2e/sim/demandsim/cloud"
	"nstance.dev/e2e/sim/demandsim/cluster"
	"nstance.dev/e2e/sim/demandsim/tenant"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

// blobWait is how long a blob that failed is not asked for again.
const blobWait = 10 * time.Second

// observe compares each record with its VM, and goes on with what is under way.
func (l *Leader) observe() {
	if l.term != l.opts.Store.Term {
		return // the records are another leader's
	}
	records := slices.Clone(l.opts.Store.Records)
	// Machines without Pods are drained first: else the Pods of another one would find a place there,
	// and lose it at once.
	slices.SortStableFunc(records, func(a, b *Record) int {
		switch {
		case a.Drain.Empty == b.Drain.Empty:
			return 0
		case a.Drain.Empty:
			return -1
		}
		return 1
	})
	for _, r := range records {
		if l.Ended() {
			return
		}
		vm := l.opts.Cloud.Get(r.ID)
		switch {
		case vm == nil && r.State == demand.Creating:
			l.create(r) // its leader ended before it could ask
			continue
		case vm == nil || vm.Stage == cloud.Gone:
			if l.effect() == nil {
				l.lost(r)
			}
			continue
		case vm.Stage == cloud.Broken:
			l.broken(r)
		case r.Condemned:
			l.endCondemned(r)
		case vm.Stage != cloud.Deleting:
			l.follow(r, vm)
		}
	}
}

// follow goes on with a machine that is well.
func (l *Leader) follow(r *Record, vm *cloud.Machine) {
	switch r.State {
	case demand.Creating:
		if vm.Stage == cloud.Idle && l.effect() == nil {
			l.move(r, demand.Idle, 0)
			if r.Cluster != "" {
				l.bootstrap(r)
			}
		}
	case demand.Idle:
		// One that was not tried was left by a leader that ended before it could.
		if r.Cluster != "" && (r.tries == 0 || !l.now.Before(r.Since.Add(blobWait))) && l.effect() == nil {
			l.bootstrap(r)
		}
	case demand.Draining:
		l.drainOn(r, vm)
	case demand.Deleting:
		l.opts.Cloud.Delete(r.ID, l.now) // its leader ended before it could ask
	case demand.Speculative, demand.Configuring, demand.Configured, demand.Failed:
	}
}

// drainOn goes on with a drain: the operator is told until it knows, and a machine that has left
// its cluster is idle or deleted.
func (l *Leader) drainOn(r *Record, vm *cloud.Machine) {
	d := &r.Drain
	switch {
	case d.Leaving && vm.Stage == cloud.Idle:
		if l.effect() != nil {
			return
		}
		l.opts.World.Acted("left", r, "")
		if l.opts.DeleteAfterDrain {
			l.end(r)
			return
		}
		l.leave(r)
		l.move(r, demand.Idle, 0)
	case d.Leaving:
		_ = l.opts.Cloud.Leave(r.ID, l.now) // it is joined, or leaves already
	case !l.now.Before(d.Deadline):
		l.late(r)
	case !d.told && !l.now.Before(d.again):
		d.again = l.now.Add(reissue)
		ack, live := l.opts.World.Instruct(r.Cluster, tenant.Instruction{ID: d.Instruction, Machine: r.ID, Grace: d.Grace, Voluntary: d.Voluntary})
		if live {
			l.acknowledged(r, ack)
		}
	}
}

func (l *Leader) acknowledged(r *Record, ack tenant.Ack) {
	switch {
	case ack.Refused != "":
		l.keep(r, ack.Refused)
	case ack.Started:
		r.Drain.told = true
	default: // it has no Node
		l.depart(r)
	}
}

// late is what becomes of a drain whose time is over.
func (l *Leader) late(r *Record) {
	if r.Drain.Voluntary {
		l.opts.World.Instruct(r.Cluster, tenant.Instruction{ID: r.Drain.Instruction, Machine: r.ID, Cancel: true})
		l.keep(r, "the drain did not end in time")
		return
	}
	l.depart(r)
}

// keep takes a machine back that is not given back.
func (l *Leader) keep(r *Record, reason string) {
	if l.effect() != nil {
		return
	}
	l.opts.World.Acted("kept", r, reason)
	r.Drain = Drain{}
	l.move(r, demand.Configured, 0)
	l.tell(demand.Refused{ID: r.ID})
}

// depart lets a machine leave its cluster.
func (l *Leader) depart(r *Record) {
	if l.effect() != nil {
		return
	}
	r.Drain.Leaving = true
	_ = l.opts.Cloud.Leave(r.ID, l.now) // one that is not joined is found so by the next look
}

// endCondemned deletes a condemned machine whose time is over.
func (l *Leader) endCondemned(r *Record) {
	if !l.now.Before(r.Deadline) && r.State != demand.Deleting && l.effect() == nil {
		l.condemnedEnds(r)
	}
}

func (l *Leader) condemnedEnds(r *Record) {
	l.leave(r)
	r.State, r.Since = demand.Deleting, l.now
	l.opts.Cloud.Delete(r.ID, l.now)
}

// broken is what becomes of a machine that the provider says is broken.
func (l *Leader) broken(r *Record) {
	switch {
	case r.Condemned:
		l.endCondemned(r)
	case r.State == demand.Creating:
		if l.effect() == nil {
			l.fail(r, demand.FailureOther)
		}
	case r.State == demand.Failed || r.State == demand.Deleting:
	default:
		l.Condemn(r.ID, 0)
	}
}

// lost is what becomes of a record whose VM does not exist.
func (l *Leader) lost(r *Record) {
	l.gone(r)
}

// Report takes what an operator says of a Node.
func (l *Leader) Report(from string, report tenant.Report) {
	if l.Ended() || l.term != l.opts.Store.Term {
		return
	}
	r := l.opts.Store.Get(report.Machine)
	if r == nil || r.Cluster != from {
		return
	}
	switch {
	case report.Instruction != "":
		l.answered(r, report)
		return
	case r.State == demand.Configuring && report.Ready && l.effect() == nil:
		l.opts.World.Acted("configured", r, "")
		l.move(r, demand.Configured, 0)
		if l.opts.HideInFlight {
			l.introduce(r)
		}
	}
	if !r.Condemned {
		l.tell(demand.Report{ID: r.ID, Empty: report.Evictable == 0, Allocatable: amounts(report.Allocatable)})
	}
}

// answered takes what a drain came to.
func (l *Leader) answered(r *Record, report tenant.Report) {
	switch {
	case r.Condemned:
		if report.Drained && r.State != demand.Deleting && l.effect() == nil {
			l.condemnedEnds(r)
		}
	case r.State != demand.Draining || r.Drain.Instruction != report.Instruction || r.Drain.Leaving:
	case report.Drained || !r.Drain.Voluntary:
		l.depart(r)
	default:
		l.late(r)
	}
}

// Resync tells a leader what a new session changes: instructions are given again.
func (l *Leader) Resync(cluster string) {
	for _, r := range l.opts.Store.Records {
		switch {
		case r.Cluster != cluster:
		case r.Condemned && r.State != demand.Deleting:
			l.opts.World.Instruct(cluster, tenant.Instruction{ID: "end-" + r.ID, Machine: r.ID, Grace: max(r.Deadline.Sub(l.now), time.Second)})
		case r.State == demand.Draining:
			r.Drain.told, r.Drain.again = false, time.Time{}
		}
	}
}

// amounts are a vector as the engine takes it.
func amounts(v cluster.Vector) (all []vector.Amount) {
	for _, a := range v.Amounts() {
		all = append(all, vector.Amount{Name: a.Name, Amount: a.Amount})
	}
	return all
}
