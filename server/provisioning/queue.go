package provisioning

import (
	"context"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// createsAtOnce bounds the create calls that wait for an answer.
const createsAtOnce = 256

// queue sends create calls as fast as the provider's buckets allow, one group
// after the other, so that a large group does not hold up a small one (L7).
type queue struct {
	provider Provider
	rows     *cache.Cache
	send     func(context.Context, *attempt) // makes the call, and deals with its outcome

	mu       sync.Mutex
	queues   map[fleet.GroupID][]*attempt
	turn     []fleet.GroupID // groups with a queue, the next one first
	inFlight map[identity.ID]chan struct{}
	wake     chan struct{} // has room for one
}

func newQueue(provider Provider, rows *cache.Cache, send func(context.Context, *attempt)) *queue {
	return &queue{
		provider: provider, rows: rows, send: send, queues: map[fleet.GroupID][]*attempt{}, inFlight: map[identity.ID]chan struct{}{},
		wake: make(chan struct{}, 1),
	}
}

// push queues a create call behind the others of its group.
func (q *queue) push(it *attempt) {
	q.mu.Lock()
	if len(q.queues[it.group]) == 0 {
		q.turn = append(q.turn, it.group)
	}
	q.queues[it.group] = append(q.queues[it.group], it)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// The attempts of one group that wait are bounded, so that none waits long
// enough for its nonce to age: by what the provider takes in queueTime, and at
// least queueFloor.
const (
	queueTime  = 10 * time.Second
	queueFloor = 50
)

// room is how many more calls of a group may be queued now.
func (q *queue) room(group fleet.GroupID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.provider.CreatesWithin(group, queueTime), queueFloor) - len(q.queues[group])
}

// opens reports whether a call is queued, and for how long the first one has to wait
// because its group is slow.
func (q *queue) opens() (wait time.Duration, queued bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, group := range q.turn {
		delay := q.provider.CreateDelay(group)
		if i == 0 || delay < wait {
			wait = delay
		}
	}
	return wait, len(q.turn) > 0
}

// next takes the next call off that somebody wants, round robin over the groups that need
// not wait; nil if there is none. It returns with it those that nobody wants any more.
func (q *queue) next() (it *attempt, unwanted []*attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := 0; i < len(q.turn); {
		group := q.turn[i]
		if q.provider.CreateDelay(group) > 0 {
			i++
			continue
		}
		it := q.pop(i)
		if !q.markInFlight(it) {
			unwanted = append(unwanted, it)
			continue
		}
		q.provider.TakeDelayed(group)
		return it, unwanted
	}
	return nil, unwanted
}

// pop takes the first call of the group with that place in the order of turns, which has
// its next turn after all others. The caller holds mu.
func (q *queue) pop(place int) *attempt {
	group := q.turn[place]
	waiting := q.queues[group]
	q.turn = slices.Delete(q.turn, place, place+1)
	if len(waiting) > 1 {
		q.queues[group] = waiting[1:]
		q.turn = append(q.turn, group)
	} else {
		delete(q.queues, group)
	}
	return waiting[0]
}

// run sends what is queued until ctx ends, and waits for the calls under way. Whose turn
// it is is decided when a call may be sent, and not before.
func (q *queue) run(ctx context.Context) {
	var flights sync.WaitGroup
	defer flights.Wait()
	slots := make(chan struct{}, createsAtOnce)
	admitted := false
	for q.awaitReady(ctx) {
		if !admitted {
			select {
			case <-ctx.Done():
				return
			case slots <- struct{}{}:
			}
			if err := q.provider.WaitCreate(ctx); err != nil {
				return // only the end of ctx ends a wait for the bucket
			}
			admitted = true
		}
		it, unwanted := q.next()
		for _, it := range unwanted {
			it.drop()
		}
		if it == nil {
			continue
		}
		admitted = false
		flights.Go(func() {
			q.send(ctx, it)
			q.complete(it)
			<-slots
		})
	}
}

// awaitReady waits until there is a call that need not wait because its group is slow. It
// reports whether ctx has not ended until then.
func (q *queue) awaitReady(ctx context.Context) bool {
	for {
		wait, queued := q.opens()
		if queued && wait == 0 {
			return ctx.Err() == nil
		}
		later := make(<-chan time.Time) // never
		if queued {
			later = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return false
		case <-q.wake:
		case <-later:
		}
	}
}

// markInFlight marks a call as under way, unless nobody wants the instance any more. That
// a listing shows its VM does not answer a call whose outcome is open: a driver that
// makes a machine in several steps goes on with them only when it is asked again. The
// caller holds mu.
func (q *queue) markInFlight(it *attempt) bool {
	row, ok := q.rows.Instance(it.ID)
	open := it.State.MayExist() && row.State == fleet.Provisioning
	if !ok || row.State != fleet.Pending && !open {
		return false
	}
	q.inFlight[it.ID] = make(chan struct{})
	return true
}

func (q *queue) complete(it *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.inFlight[it.ID])
	delete(q.inFlight, it.ID)
}

// awaitCompletion blocks until no create call of the instance is under way. A call that
// has not been sent by then finds the instance condemned and is dropped.
func (q *queue) awaitCompletion(ctx context.Context, id identity.ID) error {
	q.mu.Lock()
	flight := q.inFlight[id]
	q.mu.Unlock()
	if flight == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-flight:
		return nil
	}
}
