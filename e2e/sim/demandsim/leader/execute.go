package leader

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"nstance.dev/e2e/sim/demandsim/cloud"
	"nstance.dev/e2e/sim/demandsim/tenant"
	"nstance.dev/server/demand"
)

// blobTries is how often a machine's blob is asked for, failedHold how long a failed machine is
// kept, and reissue how long an instruction waits for its acknowledgement.
const (
	blobTries = 5
	// outdatedDrain is how long the drain of a machine may take that makes room.
	outdatedDrain = 10 * time.Minute
	reissue       = 30 * time.Second
)

// execute carries out one action. What is not begun is told to the engine.
func (l *Leader) execute(a demand.Action) {
	if err := l.carryOut(a); err != nil && !errors.Is(err, errEnded) {
		l.tell(demand.Dropped{ID: a.Machine})
	}
}

func (l *Leader) carryOut(a demand.Action) error {
	if a.Kind == demand.Provision {
		return l.provision(a)
	}
	r := l.opts.Store.Get(a.Machine)
	if r == nil {
		return fmt.Errorf("%s: there is no record", a)
	}
	if r.Condemned {
		return fmt.Errorf("%s: it is condemned", a)
	}
	if err := l.effect(); err != nil {
		return err
	}
	l.opts.World.Acted(a.Kind.String(), r, string(a.Reason))
	switch a.Kind {
	case demand.Bootstrap:
		r.Cluster, r.Stamp, r.Replaces, r.Price = a.Cluster, a.Stamp, "", a.Price
		l.bootstrap(r)
	case demand.Reclaim, demand.Preempt:
		r.Drain = Drain{
			Instruction: fmt.Sprintf("rcl-%s-%d", r.ID, l.now.Unix()), Voluntary: a.Voluntary, Empty: a.Reason == demand.ReasonEmpty, Grace: a.Grace, Deadline: l.now.Add(a.Grace + reissue),
		}
		l.move(r, demand.Draining, 0)
	case demand.Cancel:
		r.Cluster, r.Stamp, r.Replaces = "", demand.Stamp{}, ""
	case demand.Fail:
		l.fail(r, demand.NeverJoined)
	case demand.Delete:
		if a.Cluster != "" {
			r.Relieved = l.now
			l.Condemn(r.ID, outdatedDrain)
			return nil
		}
		l.end(r)
	default:
		return fmt.Errorf("%s: its kind is not known", a)
	}
	return nil
}

// provision makes a machine: the record first, then the call.
func (l *Leader) provision(a demand.Action) error {
	if err := l.effect(); err != nil {
		return err
	}
	r := &Record{ID: a.Machine, Offer: a.Offer, State: demand.Creating, Cluster: a.Cluster, Stamp: a.Stamp, Replaces: a.Replaces, Price: a.Price, Since: l.now}
	l.opts.Store.add(r)
	l.opts.World.Acted(a.Kind.String(), r, string(a.Reason))
	if l.opts.HideInFlight {
		l.tell(demand.Gone{ID: r.ID})
	}
	l.create(r)
	return nil
}

// create asks the provider for the machine of a record.
func (l *Leader) create(r *Record) {
	if l.effect() != nil {
		return // the next leader finds the record, and asks
	}
	err := l.opts.Cloud.Create(r.ID, r.Offer, l.now)
	if err == nil {
		return
	}
	failure := demand.FailureOther
	switch {
	case errors.Is(err, cloud.ErrNoCapacity):
		failure = demand.NoCapacity
	case errors.Is(err, cloud.ErrQuota):
		failure = demand.OverQuota
	}
	l.fail(r, failure)
	l.gone(r) // it never had a VM
}

// fail marks a machine that is given up.
func (l *Leader) fail(r *Record, failure demand.Failure) {
	l.opts.World.Acted("failed", r, "")
	l.move(r, demand.Failed, failure)
	l.leave(r)
}

// leave ends what a machine was for a cluster.
func (l *Leader) leave(r *Record) {
	if r.Cluster != "" {
		l.opts.World.Ended(r.Cluster, r.ID)
	}
	r.Cluster, r.Stamp, r.Replaces, r.Drain = "", demand.Stamp{}, "", Drain{}
}

// end deletes a machine.
func (l *Leader) end(r *Record) {
	l.leave(r)
	l.move(r, demand.Deleting, 0)
	l.opts.Cloud.Delete(r.ID, l.now)
}

// gone archives the record of a machine whose VM does not exist.
func (l *Leader) gone(r *Record) {
	l.leave(r)
	l.tell(demand.Gone{ID: r.ID})
	l.opts.Store.archive(r)
	l.opts.World.Acted("gone", r, "")
}

// bootstrap tells an idle machine to join the cluster that it is meant for.
func (l *Leader) bootstrap(r *Record) {
	if r.State != demand.Idle {
		return // it follows when the machine is up
	}
	switch l.opts.World.Blob(r.Cluster, r.ID) {
	case BlobReady:
		r.tries = 0
		if l.effect() != nil {
			return
		}
		if err := l.opts.Cloud.Configure(r.ID, r.Cluster, l.now); err != nil {
			l.fail(r, demand.FailureOther)
			return
		}
		r.Tenant = r.Cluster
		l.move(r, demand.Configuring, 0)
	case BlobError:
		l.opts.World.Acted("blob-error", r, "")
		l.tell(demand.BlobFailed{ID: r.ID}) // the engine takes the binding back
		r.Cluster, r.Stamp, r.Replaces, r.tries = "", demand.Stamp{}, "", 0
	case BlobTimeout:
		l.retry(r)
	}
}

// retry counts a bootstrap that did not begin. The intent is kept, and the fifth ends it.
func (l *Leader) retry(r *Record) {
	if r.tries++; r.tries >= blobTries {
		l.fail(r, demand.FailureOther)
		return
	}
	r.Since = l.now
	l.tell(demand.Changed{ID: r.ID, State: demand.Idle}) // it was not begun; the intent is kept
}

// Condemn ends a machine for a reason outside of demand: its Node is drained by force until the
// deadline, then it is deleted.
func (l *Leader) Condemn(id string, within time.Duration) {
	r := l.opts.Store.Get(id)
	if r == nil || r.Condemned || r.State == demand.Deleting || l.effect() != nil {
		return
	}
	r.Condemned, r.Deadline = true, l.now.Add(within)
	l.opts.World.Acted("condemned", r, "")
	l.tell(demand.Leaving{ID: id})
	if r.Cluster == "" || within <= 0 {
		return
	}
	l.opts.World.Instruct(r.Cluster, tenant.Instruction{ID: "end-" + r.ID, Machine: r.ID, Grace: within})
}

func sortedKeys(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }
