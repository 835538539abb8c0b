package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/operatorapi"
	"nstance.dev/server/shard"
)

// tries is how often a caller repeats a call that was not answered.
const tries = 8

// ask makes a call of an operator, at whoever leads, until there is a definite
// answer or the caller gives up. Each try is told to the history.
func ask[T any](w *world, what string, try func() (note func(T, error)), do func(context.Context, *shard.Term) (T, error)) (T, error) {
	err := errUnknown
	var v T
	for n := range tries {
		p := w.leader()
		if p == nil {
			if pause(w.ctx, time.Second) != nil {
				return v, errUnknown
			}
			continue
		}
		note := func(T, error) {}
		if try != nil {
			note = try()
		}
		v, err = call(w, theOperators, p, what, do)
		note(v, err)
		if !errors.Is(err, errUnknown) {
			return v, err
		}
		if pause(w.ctx, w.dice.between(500*time.Millisecond, 3*time.Second, what, n)) != nil {
			break
		}
	}
	return v, err
}

// upsert sets the size of a dynamic group.
func (w *world) upsert(g groupID, size int) {
	n, template := int32(size), g.name
	try := func() func(*nstancev1.GroupStatus, error) {
		done := w.history.begin(g, opUpsert, size)
		return func(_ *nstancev1.GroupStatus, err error) { done(reading{}, err) }
	}
	_, err := ask(w, "upsert "+g.String(), try, func(ctx context.Context, r *shard.Term) (*nstancev1.GroupStatus, error) {
		return operatorapi.Of(r).UpsertGroup(ctx, g.tenant, &nstancev1.UpsertGroupRequest{
			Key: g.name, Config: &nstancev1.GroupConfig{Size: &n, Template: &template},
		})
	})
	w.told(err, "%s has size %d", g, size)
}

// deleteGroup deletes a dynamic group, or what the API has set for a static one.
func (w *world) deleteGroup(g groupID) {
	defer w.resumes(g)() // a pause goes with its group
	try := func() func(struct{}, error) {
		done := w.history.begin(g, opDelete, 0)
		return func(_ struct{}, err error) { done(reading{}, err) }
	}
	_, err := ask(w, "delete "+g.String(), try, func(ctx context.Context, r *shard.Term) (struct{}, error) {
		return struct{}{}, operatorapi.Of(r).DeleteGroup(ctx, g.tenant, &nstancev1.DeleteGroupRequest{Key: g.name})
	})
	w.told(err, "group %s is deleted", g)
}

// list reads the groups of a tenant, once.
func (w *world) list(tenant string) {
	p := w.leader()
	if p == nil {
		return
	}
	done := w.history.read(tenant)
	groups, err := call(w, theOperators, p, "list "+tenant, func(_ context.Context, r *shard.Term) ([]*nstancev1.GroupStatus, error) {
		return operatorapi.Of(r).ListGroups(tenant), nil
	})
	seen := map[groupID]reading{}
	for _, g := range groups {
		seen[groupID{tenant, g.Key}] = reading{there: !g.Deleting, size: int(g.Size)}
	}
	done(seen, err)
}

// create asks for an on-demand instance.
func (w *world) create(g groupID) {
	res, err := ask(w, "create "+g.String(), nil, func(ctx context.Context, r *shard.Term) (*nstancev1.CreateInstanceResponse, error) {
		return operatorapi.Of(r).CreateInstance(ctx, g.tenant, &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: g.name}})
	})
	if err == nil && w.truth.record(identity.ID(res.InstanceId)) == nil {
		w.violate("S15", "an on-demand instance was promised and has no record: %s", res.InstanceId)
	}
	w.told(err, "an instance of %s is promised", g)
}

// remove asks for the end of an instance.
func (w *world) remove(id identity.ID, decrement, skip bool) {
	m := w.machine(id)
	if m == nil {
		return
	}
	w.mu.Lock()
	w.wished[id] = true
	if skip {
		w.acked[id] = true // who skips a drain ends it
	}
	w.mu.Unlock()
	if decrement {
		w.history.blur(m.group)
	}
	_, err := ask(w, "remove "+m.name, nil, func(ctx context.Context, r *shard.Term) (*nstancev1.DeleteInstanceResponse, error) {
		return operatorapi.Of(r).DeleteInstance(ctx, m.group.tenant, &nstancev1.DeleteInstanceRequest{
			InstanceId: id.String(), DecrementSize: decrement, SkipDrain: skip,
		})
	})
	w.told(err, "%s is to go", m.name)
}

// acknowledge says that an instance is drained.
func (w *world) acknowledge(id identity.ID, tenant string) {
	w.mu.Lock()
	w.acked[id] = true // from here on somebody may have heard of it
	w.mu.Unlock()
	_, err := ask(w, "acknowledge "+w.nameOf(id), nil, func(_ context.Context, r *shard.Term) (struct{}, error) {
		return struct{}{}, operatorapi.Of(r).AcknowledgeDrained(tenant, &nstancev1.AcknowledgeDrainedRequest{InstanceId: id.String()})
	})
	w.told(err, "%s is drained", w.nameOf(id))
	if err == nil {
		w.mu.Lock()
		w.ackedAt[id] = time.Now()
		w.mu.Unlock()
		if rec := w.truth.record(id); rec != nil && rec.live() {
			w.violate("S15", "the drain of %s was acknowledged, and its record does not say so", w.nameOf(id))
		}
	}
}

// acknowledgeAll acknowledges every drain that is under way.
func (w *world) acknowledgeAll() {
	for id, rec := range w.truth.standing() {
		if d := rec.Deletion; d != nil && !d.DrainStartedAt.IsZero() {
			w.later(func() { w.acknowledge(id, rec.Tenant) })
		}
	}
}

// told notes how a call ended.
func (w *world) told(err error, format string, args ...any) {
	switch {
	case err == nil:
		w.logf(format, args...)
	case w.ctx.Err() == nil:
		w.logf("refused: %s: %v", fmt.Sprintf(format, args...), err)
	}
}

// attend starts the operators: who reads groups, who watches, and who drains.
func (w *world) attend() {
	for _, tenant := range []string{"default", "b"} {
		if w.guested(tenant) {
			continue
		}
		w.calls.Go(func() {
			for n := 0; pause(w.ctx, w.dice.between(10*time.Second, 20*time.Second, tenant, "reads", n)) == nil; n++ {
				w.list(tenant)
			}
		})
		w.calls.Go(func() { newWatcher(w, tenant, drainers{w}.Coordinated(tenant)).run() })
	}
}

// drainers says who drains, as the operators' records do: one of tenant default,
// from the beginning, if the plan has one.
type drainers struct{ w *world }

// Load implements shard.Drainers.
func (drainers) Load(context.Context) error { return nil }

// Coordinated implements shard.Drainers.
func (d drainers) Coordinated(tenant string) bool {
	return tenant == identity.DefaultTenant && d.w.plan.setting("operator") == "yes"
}

// Coordinate implements shard.Drainers.
func (drainers) Coordinate(context.Context, identity.Peer) error { return nil }

// watcher follows the events of a tenant's instances, and checks that they never
// go back (S17). One that coordinates drains also carries them out.
type watcher struct {
	w       *world
	tenant  string
	drains  bool
	last    map[string]int64
	deleted map[string]bool
	drained map[string]bool

	mu    sync.Mutex
	heard map[groupID]string // the class of the last error
}

func newWatcher(w *world, tenant string, drains bool) *watcher {
	return &watcher{w: w, tenant: tenant, drains: drains, last: map[string]int64{}, deleted: map[string]bool{}, drained: map[string]bool{}, heard: map[groupID]string{}}
}

// silence is how long a stream may say nothing before its watcher leaves it, as the
// operator does: it has a heartbeat three times as often.
const silence = 45 * time.Second

// run watches at whoever leads, until the world ends.
func (o *watcher) run() {
	for n := 0; o.w.ctx.Err() == nil; n++ {
		if p := o.w.leader(); p != nil {
			o.watch(p)
		}
		_ = pause(o.w.ctx, o.w.dice.between(500*time.Millisecond, 2*time.Second, o.tenant, "watches", n))
	}
}

// watch follows the events of one leader, until its stream ends or is silent: a leader
// that is stopped says nothing, and does not end its streams either.
func (o *watcher) watch(p *process) {
	term, err := p.shard.Term()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(o.w.ctx)
	defer cancel()
	o.w.calls.Go(func() {
		_ = operatorapi.Of(term).WatchErrors(ctx, o.tenant, func(ev *nstancev1.ErrorEvent) error { return o.hear(ev) })
	})
	stop := context.AfterFunc(term.Context(), cancel)
	defer stop()
	ended, silent := make(chan struct{}), make(chan struct{})
	timer := time.AfterFunc(silence, func() { close(silent) })
	defer timer.Stop()
	o.w.calls.Go(func() {
		defer close(ended)
		_ = operatorapi.Of(term).WatchInstances(ctx, o.tenant, func(ev *nstancev1.InstanceEvent) error {
			if err := p.may(ctx); err != nil {
				return err
			}
			if o.w.net.cut(p.box.name, theOperators) || !timer.Stop() {
				return errUnknown
			}
			o.see(ev)
			timer.Reset(silence)
			return nil
		})
	})
	select {
	case <-ended:
	case <-silent:
	}
}

// hear notes an error, unless the last one of its group was of the same class.
func (o *watcher) hear(ev *nstancev1.ErrorEvent) error {
	o.w.event("%s hears: %s %s", o.tenant, ev.GetGroup(), ev.GetClass())
	g := groupID{o.tenant, ev.GetGroup()}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.heard[g] != ev.Class {
		o.heard[g] = ev.Class
		o.w.logf("%s has an error: %s", g, ev.Class)
	}
	return nil
}

func (o *watcher) see(ev *nstancev1.InstanceEvent) {
	o.w.event("%s sees: %s %s", o.tenant, ev.GetInstanceId(), ev.GetStatus())
	id, name := ev.InstanceId, o.w.nameOf(identity.ID(ev.InstanceId))
	if rec := o.w.truth.record(identity.ID(id)); id == "" || rec != nil && rec.again {
		return // a write that came very late has brought the record back: no leader did
	}
	if ev.Revision < o.last[id] {
		o.w.violate("S17", "event %q of %s has revision %d after one of %d", ev.Status, name, ev.Revision, o.last[id])
	}
	o.last[id] = ev.Revision
	if o.deleted[id] && ev.Status != "deleted" {
		o.w.violate("S17", "event %q of %s after it was deleted", ev.Status, name)
	}
	switch {
	case ev.Status == "deleted":
		o.deleted[id] = true
		o.w.logf("%s is gone", name)
	case ev.Status == "pending_deletion" && o.drains && ev.DeleteAt != nil && !o.drained[id]:
		o.drained[id] = true
		o.w.calls.Go(func() { o.drain(identity.ID(id), name) })
	}
}

// drain moves the work off a machine, which may take longer than the timeout.
func (o *watcher) drain(id identity.ID, name string) {
	if o.w.weather.hits(drainNever, name) {
		return
	}
	timeout := o.w.plan.duration("drain")
	if pause(o.w.ctx, o.w.dice.between(timeout/4, timeout*3/4, name, "drain")) == nil {
		o.w.acknowledge(id, o.tenant)
	}
}
