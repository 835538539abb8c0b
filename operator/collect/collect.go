// Package collect lets a controller look once at what several events in a row say of one object. One
// instance that starts is a dozen events within a second; a controller that reads all of it each time
// would do the same work a dozen times, and write statuses that hold for a moment.
//
// A request waits from the first event that asks for it; the ones that come until then are the same
// request. What a user has asked for is not collected: wrap the events of what follows from it.
//
// A [Waker] asks for what follows from no event of an object at all.
package collect

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// How long events are collected.
const (
	Soon  = 250 * time.Millisecond // by those who act
	Later = 2 * time.Second        // by those who write down how things stand
	Last  = 10 * time.Second       // by those who add all of a shard up
)

// Events returns a handler that asks for what h asks for, delay later. What was there before the
// controller began is asked for at once, at the priority that h gives it.
func Events[T any](delay time.Duration, h handler.TypedEventHandler[T, reconcile.Request]) handler.TypedEventHandler[T, reconcile.Request] {
	return collected[T]{handler: h, delay: delay}
}

// AllButCreates is as Events for a handler that has to see a new object at once.
func AllButCreates[T any](delay time.Duration, h handler.TypedEventHandler[T, reconcile.Request]) handler.TypedEventHandler[T, reconcile.Request] {
	return collected[T]{handler: h, delay: delay, createsAtOnce: true}
}

// CreatesAlone lets only creates pass: a controller looks at a new object of its own at once, and its
// updates are collected.
func CreatesAlone() predicate.Predicate {
	no := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	return predicate.Funcs{UpdateFunc: no.Update, DeleteFunc: no.Delete, GenericFunc: no.Generic}
}

type collected[T any] struct {
	handler handler.TypedEventHandler[T, reconcile.Request]
	delay   time.Duration
	// createsAtOnce: what is new is not collected.
	createsAtOnce bool
}

// Create implements handler.TypedEventHandler.
func (c collected[T]) Create(ctx context.Context, e event.TypedCreateEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if !e.IsInInitialList && !c.createsAtOnce {
		q = late{q, c.delay}
	}
	c.handler.Create(ctx, e, q)
}

// Update implements handler.TypedEventHandler.
func (c collected[T]) Update(ctx context.Context, e event.TypedUpdateEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	c.handler.Update(ctx, e, late{q, c.delay})
}

// Delete implements handler.TypedEventHandler.
func (c collected[T]) Delete(ctx context.Context, e event.TypedDeleteEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	c.handler.Delete(ctx, e, late{q, c.delay})
}

// Generic implements handler.TypedEventHandler.
func (c collected[T]) Generic(ctx context.Context, e event.TypedGenericEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	c.handler.Generic(ctx, e, late{q, c.delay})
}

// late is a queue to which everything is added after a while.
type late struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	delay time.Duration
}

// Add implements workqueue.TypedInterface. A request that waits already keeps its time.
func (l late) Add(r reconcile.Request) { l.AddAfter(r, l.delay) }
