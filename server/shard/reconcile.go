package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"nstance.dev/server/cache"
	"nstance.dev/server/events"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/instances"
	"nstance.dev/server/provisioning"
	"nstance.dev/server/removal"
	"nstance.dev/server/status"
	"nstance.dev/server/traces"
)

// actionsAtOnce bounds the actions of one group that are recorded in parallel.
const actionsAtOnce = 32

// reconciler makes passes over the groups that are queued.
type reconciler struct {
	opts       Options
	leadership *leadership
	queue      *queue
	planner    *planner
	cache      *cache.Cache // for decisions
	instances  *instances.Store
	groups     *groups.Store
	launcher   *provisioning.Launcher
	removals   *removal.Remover
	status     *status.Reader
	events     *events.Broadcaster
	traces     *traces.Traces
	repeats    repeats
	noted      func()                                                   // there is a new decision in the cache
	act        func(context.Context, fleet.GroupID, fleet.Action) error // carries one action out
}

// workers is how many groups are reconciled at once.
const workers = 8

// run reconciles what is queued until the queue is shut down.
func (r *reconciler) run(ctx context.Context) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { r.work(ctx) })
	}
	all.Wait()
}

// storeRetry is the pause after a pass whose writes were refused; each write has
// been retried with jitter before.
const storeRetry = time.Second

// work reconciles groups from the queue, one at a time and never one that
// another worker has.
func (r *reconciler) work(ctx context.Context) {
	for {
		group, shutdown := r.queue.waiting.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			r.reconcile(ctx, group)
		}
		r.queue.waiting.Done(group)
	}
}

// reconcile makes one pass over a group: look, plan, act. It waits for storage,
// never for the provider: creates and deletes are handed on once recorded.
func (r *reconciler) reconcile(ctx context.Context, group fleet.GroupID) {
	now := r.opts.Now()
	var e evaluation
	var pass fingerprint
	var wait time.Duration // because the same pass was made before
	fence := false
	err := r.instances.PendingRemovals.Decide(ctx, group, func() {
		e = r.planner.evaluate(group, now)
		fence = r.instances.NeedsFence(group, e.result.Send)
		pass = fingerprintOf(e.view.Instances, e.result.Send, fence)
		wait = r.repeats.wait(group, pass, now)
		if !fence && wait == 0 {
			r.instances.PendingRemovals.Condemned(group, e.result.Send)
		}
	})
	if err != nil {
		return // its leader's term is over
	}
	switch {
	case wait > 0:
		r.remember(e)
		r.reportRepeat(ctx, e, wait)
		if !fence {
			err = r.carryOut(ctx, group, creates(e.result.Send))
		}
	case fence: // it is planned again after that
		err = r.instances.Fence(ctx, group, e.view.Instances)
	default:
		r.remember(e)
		traced, span := r.decided(ctx, e)
		err = r.carryOut(traced, group, e.result.Send)
		if len(e.result.Send) > 0 {
			traces.End(span, err)
		}
	}
	ended := r.opts.Now()
	r.opts.Metrics.reconciled(ended.Sub(now))
	if err != nil {
		pass = 0 // it has a pause of its own
	}
	if wait == 0 {
		r.repeats.done(group, pass, ended)
	}
	switch {
	case r.leadership.endIfOver(err), ctx.Err() != nil:
		return
	case err != nil:
		r.opts.Log.WarnContext(ctx, "reconcile incomplete", "tenant", group.Tenant, "group", group.Name, "error", err)
		r.queue.enqueueAfter(group, storeRetry)
		return
	case wait > 0:
		r.queue.enqueueAfter(group, e.wakeWithin(wait))
	case len(e.result.Send) > 0:
		r.queue.Enqueue(group)
	case !e.wake().IsZero():
		r.queue.enqueueAfter(group, max(e.wake().Sub(now), time.Millisecond))
	}
	r.settle(ctx, group, e.plan.Counts)
}

// reportRepeat says, once for each repeat, that a pass has to wait because it would do what the
// one before has done.
func (r *reconciler) reportRepeat(ctx context.Context, e evaluation, wait time.Duration) {
	if !r.repeats.isNews(e.group) {
		return
	}
	r.opts.Metrics.repeats.Inc()
	r.opts.Log.WarnContext(ctx, "reconcile made no progress; backing off", "tenant", e.group.Tenant, "group", e.group.Name,
		"reason", "nothing has changed since the same actions were carried out",
		"action", e.result.Send[0].String(), "actions", len(e.result.Send), "retry_in", wait)
}

// decided begins the span of what a pass sends.
func (r *reconciler) decided(ctx context.Context, e evaluation) (context.Context, trace.Span) {
	if len(e.result.Shown) == 0 {
		r.traces.Settled(e.group)
	}
	return r.traces.Decided(ctx, e.group, len(e.result.Send))
}

// carryOut makes the actions of one plan happen, all of them, whatever becomes
// of the others.
func (r *reconciler) carryOut(ctx context.Context, group fleet.GroupID, actions []fleet.Action) error {
	var g errgroup.Group
	g.SetLimit(actionsAtOnce)
	errs := make([]error, len(actions))
	for i, action := range actions {
		g.Go(func() error {
			errs[i] = r.act(ctx, group, action)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return errors.Join(errs...)
}

func (r *reconciler) apply(ctx context.Context, group fleet.GroupID, action fleet.Action) error {
	switch a := action.(type) {
	case fleet.Create:
		return r.launch(ctx, group, a)
	case fleet.Condemn:
		defer r.instances.PendingRemovals.Done(group, a.ID)
		return r.removals.Condemn(ctx, a)
	case fleet.ShortenDrain:
		return r.removals.ShortenDrain(ctx, a)
	case fleet.Delete:
		return r.removals.Delete(a)
	default:
		panic(fmt.Sprintf("unknown action %T", action))
	}
}

// launch carries out the decision to make a machine. A cause that is the group's own is
// reported and held against the group; the error is one of storage.
func (r *reconciler) launch(ctx context.Context, group fleet.GroupID, a fleet.Create) error {
	eff, ok := r.groups.Effective(group)
	if !ok {
		return nil // the group went away since the decision
	}
	if !r.removals.MayReplace(a.Replaces) {
		return nil
	}
	id, err := r.opts.NewID(eff.Kind)
	if err != nil {
		return fmt.Errorf("new instance id: %w", err)
	}
	launched, err := r.launcher.Launch(ctx, id, eff, provisioning.Request{Replaces: a.Replaces})
	if err != nil || !launched || a.Replaces == "" {
		return err
	}
	return r.instances.SetReplacement(a.Replaces, id)
}

// remember keeps the decisions of a pass with their reasons and says what is new
// about them.
func (r *reconciler) remember(e evaluation) {
	_, exists := r.groups.Find(e.group)
	if !exists && len(e.view.Instances) == 0 {
		r.status.Summaries.Drop(e.group) // nothing is left that could be asked about
		r.cache.DropGroup(e.group)
		return
	}
	now := status.Summary{Shown: e.result.Shown, Conditions: e.conditions(), Paused: e.pause.By != ""}
	before := r.status.Summaries.Swap(e.group, now, e.at)
	news := explain.News(before.Shown, e.result.Shown)
	if len(news) > 0 {
		r.noted()
	}
	for _, d := range news {
		r.cache.AddDecision(d)
		r.opts.Metrics.decided(d)
		r.opts.Log.Info("group decision", "tenant", d.Group.Tenant, "group", d.Group.Name, "action", d.Action,
			"instance", d.Instance, "reason", d.Why(), "blocked_by", d.BlockedBy, "blocked_reason", d.BlockedWhy)
	}
	if before.Paused != now.Paused && exists {
		r.events.Group(e.group)
	}
}

// settle ends a deleted group once its last managed instance is gone.
func (r *reconciler) settle(ctx context.Context, id fleet.GroupID, counts fleet.Counts) {
	g, ok := r.groups.Find(id)
	if !ok || !g.Deleted || counts.Live+counts.Sick+counts.Leaving > 0 {
		return
	}
	r.leadership.tasks.Go(func() {
		if err := r.groups.Forget(r.leadership.ctx, id); err != nil {
			r.opts.Log.WarnContext(ctx, "entry of a deleted group not removed", "tenant", id.Tenant, "group", id.Name, "error", err)
			return
		}
		r.events.Group(id)
	})
}
