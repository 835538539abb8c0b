package shard

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

const (
	watchQueue = 256 // events that may wait for one watcher
	heartbeat  = 15 * time.Second
)

// events tells watchers what happened. Publishing never blocks: a watcher that
// does not read is cut off and has to begin again (L11).
type events struct {
	shard string
	term  uint64
	// describe says all of an instance, as lists of instances do.
	describe func(cache.Instance) *nstancev1.InstanceStatus

	mu        sync.Mutex        // keeps the events of one object in order
	described map[string]uint64 // descriptions of a tenant's groups made so far
	watchers  map[chan struct{}]struct{}
	instances hub[*nstancev1.InstanceEvent]
	groups    hub[*nstancev1.GroupEvent]
	failures  hub[*nstancev1.ErrorEvent]
}

func newEvents(shard string, term uint64, describe func(cache.Instance) *nstancev1.InstanceStatus) *events {
	return &events{shard: shard, term: term, describe: describe, described: map[string]uint64{}, watchers: map[chan struct{}]struct{}{}}
}

// revision makes a revision, of a count that each tenant has for itself, that also grows
// from one leader to the next (S12, S17).
func (e *events) revision(n uint64) int64 { return int64(e.term<<40 + n) }

// Changed returns a channel that gets a value when instances have changed since
// the last one was taken, and what ends that.
func (r *Reign) Changed() (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.watchers[ch] = struct{}{}
	return ch, func() {
		r.events.mu.Lock()
		defer r.events.mu.Unlock()
		delete(r.events.watchers, ch)
	}
}

// instance publishes the state of a row under the given status.
func (e *events) instance(c *cache.Cache, id identity.ID, status string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ch := range e.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	if row, ok := c.Instance(id); ok {
		e.instances.publish(row.Group.Tenant, e.instanceEvent(row, status))
	}
}

func (e *events) instanceEvent(row cache.Instance, status string) *nstancev1.InstanceEvent {
	ev := &nstancev1.InstanceEvent{
		InstanceId: row.ID.String(), Tenant: row.Group.Tenant, ProviderInstanceId: row.ProviderID,
		Group: row.Group.Name, Status: status, Reason: string(row.Removal.Reason), Revision: e.revision(row.Revision),
	}
	if !row.UnhealthyAt.IsZero() {
		ev.UnhealthyAt = timestamppb.New(row.UnhealthyAt)
	}
	if !row.Removal.DeleteAt.IsZero() {
		ev.DeleteAt = timestamppb.New(row.Removal.DeleteAt)
	}
	if status != "deleted" {
		ev.Instance = e.describe(row)
	}
	return ev
}

// group publishes what became of a group.
func (e *events) group(tenant string, ev *nstancev1.GroupEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.groups.publish(tenant, ev)
}

// failure publishes an error and keeps it for later readers.
func (e *events) failure(c *cache.Cache, group fleet.GroupID, id identity.ID, class, text string, at time.Time) {
	c.AddError(cache.ErrorRow{Tenant: group.Tenant, Group: group.Name, Instance: id, Error: class + ": " + text, At: at})
	ev := &nstancev1.ErrorEvent{Class: class, Shard: e.shard, Error: text, Timestamp: timestamppb.New(at)}
	if group.Name != "" {
		ev.Group = &group.Name
	}
	if id != "" {
		text := id.String()
		ev.InstanceId = &text
	}
	e.failures.publish(group.Tenant, ev)
}

func (e *events) close() {
	e.instances.close()
	e.groups.close()
	e.failures.close()
}

// WatchErrors sends the tenant's errors from now on, until ctx or the reign ends.
func (r *Reign) WatchErrors(ctx context.Context, tenant string, send func(*nstancev1.ErrorEvent) error) error {
	sub := r.events.failures.subscribe(tenant)
	defer r.events.failures.unsubscribe(sub)
	return follow(ctx, sub, nil, send)
}

// WatchInstances sends what is being removed, a mark, and then every event of
// the tenant's instances and a heartbeat, until ctx or the reign ends.
func (r *Reign) WatchInstances(ctx context.Context, tenant string, send func(*nstancev1.InstanceEvent) error) error {
	sub := r.events.instances.subscribe(tenant)
	defer r.events.instances.unsubscribe(sub)
	seen := map[string]int64{}
	for _, row := range r.cache.Tenant(tenant) {
		if !row.State.Leaving() {
			continue
		}
		status := "pending_deletion"
		if row.State == fleet.Deleting {
			status = "deleting"
		}
		ev := r.events.instanceEvent(row, status)
		seen[ev.InstanceId] = ev.Revision
		if err := send(ev); err != nil {
			return err
		}
	}
	if err := send(&nstancev1.InstanceEvent{Status: "snapshot_end"}); err != nil {
		return err
	}
	digest := r.digestOf(tenant)
	beat := func() error {
		return send(&nstancev1.InstanceEvent{Status: "heartbeat", ConfigDigest: digest()})
	}
	return follow(ctx, sub, beat, func(ev *nstancev1.InstanceEvent) error {
		if ev.Revision <= seen[ev.InstanceId] {
			return nil // the snapshot was newer
		}
		return send(ev)
	})
}

// ConfigDigest returns the digest of the tenant's part of the configuration that this
// reign decides by.
func (r *Reign) ConfigDigest(tenant string) string { return r.wanted.config().DigestFor(tenant) }

// digestOf returns ConfigDigest for one watcher, made anew only for another configuration.
// The result is not safe for concurrent use.
func (r *Reign) digestOf(tenant string) func() string {
	var of *config.Config
	var digest string
	return func() string {
		if now := r.wanted.config(); now != of {
			of, digest = now, now.DigestFor(tenant)
		}
		return digest
	}
}

// WatchGroups sends all groups of the tenant and then their changes, until ctx
// or the reign ends.
func (r *Reign) WatchGroups(ctx context.Context, tenant string, send func(*nstancev1.GroupEvent) error) error {
	sub := r.events.groups.subscribe(tenant)
	defer r.events.groups.unsubscribe(sub)
	seen := map[string]int64{}
	for _, g := range r.groupsOf(tenant) {
		seen[g.Key] = g.Revision
		if err := send(&nstancev1.GroupEvent{Type: "UPSERT", Group: g}); err != nil {
			return err
		}
	}
	return follow(ctx, sub, nil, func(ev *nstancev1.GroupEvent) error {
		if ev.Type == "UPSERT" && ev.Group.Revision <= seen[ev.Group.Key] {
			return nil
		}
		return send(ev)
	})
}

// follow passes a subscription's events on until ctx ends or it is closed.
func follow[T any](ctx context.Context, sub *subscription[T], beat func() error, send func(T) error) error {
	var ticks <-chan time.Time
	if beat != nil {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
			if err := beat(); err != nil {
				return err
			}
		case ev, open := <-sub.queue:
			if !open {
				return sub.why
			}
			if err := send(ev); err != nil {
				return err
			}
		}
	}
}

var (
	errWatcherSlow = &refusal.Error{Code: refusal.ResourceExhausted, Reason: "WATCHER_TOO_SLOW",
		Message: "the watcher does not read fast enough; connect again for a new snapshot"}
	errReignOver = &refusal.Error{Code: refusal.Unavailable, Reason: "NOT_LEADER", Message: "this server does not lead the shard any more"}
)

// hub hands events to subscribers. The zero hub has none.
type hub[T any] struct {
	mu     sync.Mutex
	subs   map[*subscription[T]]struct{}
	closed bool
}

type subscription[T any] struct {
	tenant string
	queue  chan T
	why    error // set before queue is closed
}

func (h *hub[T]) subscribe(tenant string) *subscription[T] {
	sub := &subscription[T]{tenant: tenant, queue: make(chan T, watchQueue)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		sub.why = errReignOver
		close(sub.queue)
		return sub
	}
	if h.subs == nil {
		h.subs = map[*subscription[T]]struct{}{}
	}
	h.subs[sub] = struct{}{}
	return sub
}

func (h *hub[T]) unsubscribe(sub *subscription[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, sub)
}

// publish gives an event to the tenant's subscribers, without waiting.
func (h *hub[T]) publish(tenant string, ev T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		if sub.tenant != tenant {
			continue
		}
		select {
		case sub.queue <- ev:
		default:
			h.drop(sub, errWatcherSlow)
		}
	}
}

func (h *hub[T]) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for sub := range h.subs {
		h.drop(sub, errReignOver)
	}
}

func (h *hub[T]) drop(sub *subscription[T], why error) {
	sub.why = why
	close(sub.queue)
	delete(h.subs, sub)
}
