package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/fleet"
)

// actionsAtOnce bounds the actions of one group that are recorded in parallel.
const actionsAtOnce = 32

// storeRetry is the pause after a pass whose writes were refused; each write has
// been retried with jitter before.
const storeRetry = time.Second

// work reconciles groups from the queue, one at a time and never one that
// another worker has.
func (r *Reign) work(ctx context.Context) {
	for {
		group, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			r.reconcile(ctx, group)
		}
		r.queue.Done(group)
	}
}

// reconcile makes one pass over a group: look, plan, act. It waits for storage,
// never for the provider: creates and deletes are handed on once recorded.
func (r *Reign) reconcile(ctx context.Context, group fleet.GroupID) {
	now := r.now()
	var w weighing
	fence := false
	err := r.instances.Endings.Decide(ctx, group, func() {
		w = r.weigh(group, now)
		if fence = r.instances.MustFence(group, w.verdict.Send); !fence {
			r.instances.Endings.Condemned(group, w.verdict.Send)
		}
	})
	if err != nil {
		return // its leader's term is over
	}
	if fence { // it is planned again after that
		err = r.instances.Fence(ctx, group, w.view.Instances)
	} else {
		r.remember(w)
		traced, span := r.traces.decide(ctx, w)
		err = r.carryOut(traced, group, w.verdict.Send)
		if len(w.verdict.Send) > 0 {
			endSpan(span, err)
		}
	}
	r.opts.Metrics.reconciled(r.now().Sub(now))
	switch {
	case r.stumble(err), ctx.Err() != nil:
		return
	case err != nil:
		r.log.WarnContext(ctx, "reconcile incomplete", "tenant", group.Tenant, "group", group.Name, "error", err)
		r.queue.AddAfter(group, storeRetry)
		return
	case len(w.verdict.Send) > 0:
		r.queue.Add(group)
	case !w.wake().IsZero():
		r.queue.AddAfter(group, max(w.wake().Sub(now), time.Millisecond))
	}
	r.wanted.settle(ctx, group, w.plan.Counts)
}

// pending is how many managed instances of a group have a record and no VM yet.
func (r *Reign) pending(group fleet.GroupID) int {
	n := 0
	for _, in := range r.cache.Fleet(group) {
		if in.State == fleet.Pending && !in.OnDemand {
			n++
		}
	}
	return n
}

// view is what the decision about a group depends on.
func (r *Reign) view(group fleet.GroupID, now time.Time) fleet.View {
	v := fleet.View{
		Group:     r.wanted.group(group),
		Instances: r.membersOf(group),
		Drains:    r.drains(group.Tenant),
		Silence:   r.health.silent(),
	}
	breaker, lasts := r.breakers.settle(group, v.Instances, now)
	v.Creates = sooner(r.gate(group, breaker, now), lasts)
	r.outdating(&v, breaker, lasts, now)
	if eff, ok := r.wanted.effective(group); ok {
		v.MaxRepairs = max(1, eff.Rails.MaxUnavailable.Of(eff.Size))
	}
	if r.collector.recovering() {
		left, next := r.losses.room(r.deletionBound(), now)
		v.Losses = fleet.Budget{Limited: true, Left: left, Next: next}
	}
	if v.Group.Deleted {
		v.Deletes, v.DeletesNext = r.deletions.room(r.deletionBound(), now)
	}
	return v
}

// membersOf are the instances of a group with everything that decisions look at.
func (r *Reign) membersOf(group fleet.GroupID) []fleet.Instance {
	return r.health.heardOf(r.instances.Of(group))
}

// gate says whether creates of the group may be sent now.
func (r *Reign) gate(group fleet.GroupID, breaker fleet.Breaker, now time.Time) fleet.Gate {
	if g := r.backoffs.gate(group, now); g.Blocked != "" {
		return g
	}
	if g := r.inquiries.gate(group); g.Blocked != "" {
		return g
	}
	return breaker.Creates(r.tries(group), now)
}

// tries is how many machines in an hour the group may make in place of ones that
// never registered.
func (r *Reign) tries(group fleet.GroupID) int {
	if eff, ok := r.wanted.any(group); ok {
		return eff.Rails.NeverRegisteredPerHour
	}
	return r.wanted.config().Server.Rails.NeverRegisteredPerHour
}

// deletionBound is how many instances may go in a minute that no caller named:
// those of deleted groups, and those lost at once in great numbers (S8).
func (r *Reign) deletionBound() int {
	live := 0
	for _, in := range r.cache.All() {
		if in.State.Live() {
			live++
		}
	}
	share := r.wanted.config().Server.Rails.MaxDeleteShare
	return max(10, share.Of(live))
}

// carryOut makes the actions of one plan happen, all of them, whatever becomes
// of the others.
func (r *Reign) carryOut(ctx context.Context, group fleet.GroupID, actions []fleet.Action) error {
	var g errgroup.Group
	g.SetLimit(actionsAtOnce)
	errs := make([]error, len(actions))
	for i, action := range actions {
		g.Go(func() error {
			errs[i] = r.apply(ctx, group, action)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return errors.Join(errs...)
}

func (r *Reign) apply(ctx context.Context, group fleet.GroupID, action fleet.Action) error {
	switch a := action.(type) {
	case fleet.Create:
		return r.prepare(ctx, group, a)
	case fleet.Condemn:
		defer r.instances.Endings.Done(group, a.ID)
		return r.condemn(ctx, a)
	case fleet.Hasten:
		return r.hasten(ctx, a)
	case fleet.Delete:
		return r.startDelete(ctx, a)
	default:
		panic(fmt.Sprintf("unknown action %T", action))
	}
}
