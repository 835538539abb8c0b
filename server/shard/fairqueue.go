package shard

import (
	"context"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// createsAtOnce bounds the create calls that wait for an answer.
const createsAtOnce = 256

// creator sends create calls as fast as the provider's buckets allow, one group
// after the other, so that a large group does not hold up a small one (L7).
type creator struct {
	r *Reign

	mu     sync.Mutex
	queues map[fleet.GroupID][]*intent
	turn   []fleet.GroupID // groups with a queue, the next one first
	flying map[identity.ID]chan struct{}
	wake   chan struct{} // has room for one
}

func newCreator(r *Reign) *creator {
	return &creator{
		r: r, queues: map[fleet.GroupID][]*intent{}, flying: map[identity.ID]chan struct{}{},
		wake: make(chan struct{}, 1),
	}
}

// push queues a create call behind the others of its group.
func (c *creator) push(it *intent) {
	c.mu.Lock()
	if len(c.queues[it.group]) == 0 {
		c.turn = append(c.turn, it.group)
	}
	c.queues[it.group] = append(c.queues[it.group], it)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// The intents of one group that wait are bounded, so that none waits long
// enough for its nonce to age: by what the provider takes in queueTime, and at
// least queueFloor.
const (
	queueTime  = 10 * time.Second
	queueFloor = 50
)

// room is how many more calls of a group may be queued now.
func (c *creator) room(group fleet.GroupID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.r.provider.CreatesWithin(group, queueTime), queueFloor) - len(c.queues[group])
}

// opens reports whether a call is queued, and for how long the first one has to wait
// because its group is slow.
func (c *creator) opens() (wait time.Duration, queued bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, group := range c.turn {
		delay := c.r.provider.CreateDelay(group)
		if i == 0 || delay < wait {
			wait = delay
		}
	}
	return wait, len(c.turn) > 0
}

// next takes the next call off that somebody wants, round robin over the groups that need
// not wait; nil if there is none. It returns with it those that nobody wants any more.
func (c *creator) next() (it *intent, unwanted []*intent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 0; i < len(c.turn); {
		group := c.turn[i]
		if c.r.provider.CreateDelay(group) > 0 {
			i++
			continue
		}
		it := c.pop(i)
		if !c.takeOff(it) {
			unwanted = append(unwanted, it)
			continue
		}
		c.r.provider.TakeDelayed(group)
		return it, unwanted
	}
	return nil, unwanted
}

// pop takes the first call of the group with that place in the order of turns, which has
// its next turn after all others. The caller holds mu.
func (c *creator) pop(place int) *intent {
	group := c.turn[place]
	queue := c.queues[group]
	c.turn = slices.Delete(c.turn, place, place+1)
	if len(queue) > 1 {
		c.queues[group] = queue[1:]
		c.turn = append(c.turn, group)
	} else {
		delete(c.queues, group)
	}
	return queue[0]
}

// run sends what is queued until ctx ends, and waits for the calls under way. Whose turn
// it is is decided when a call may be sent, and not before.
func (c *creator) run(ctx context.Context) {
	var flights sync.WaitGroup
	defer flights.Wait()
	slots := make(chan struct{}, createsAtOnce)
	admitted := false
	for c.await(ctx) {
		if !admitted {
			select {
			case <-ctx.Done():
				return
			case slots <- struct{}{}:
			}
			if err := c.r.provider.WaitCreate(ctx); err != nil {
				return // only the end of ctx ends a wait for the bucket
			}
			admitted = true
		}
		it, unwanted := c.next()
		for _, it := range unwanted {
			it.drop()
		}
		if it == nil {
			continue
		}
		admitted = false
		flights.Go(func() {
			c.r.send(ctx, it)
			c.land(it)
			<-slots
		})
	}
}

// await waits until there is a call that need not wait because its group is slow. It
// reports whether ctx has not ended until then.
func (c *creator) await(ctx context.Context) bool {
	for {
		wait, queued := c.opens()
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
		case <-c.wake:
		case <-later:
		}
	}
}

// takeOff marks a call as under way, unless nobody wants the instance any more. That
// a listing shows its VM does not answer a call whose outcome is open: a driver that
// makes a machine in several steps goes on with them only when it is asked again. The
// caller holds mu.
func (c *creator) takeOff(it *intent) bool {
	row, ok := c.r.cache.Instance(it.request.InstanceID)
	open := it.doubtful && row.State == fleet.Provisioning
	if !ok || row.State != fleet.Pending && !open {
		return false
	}
	c.flying[it.request.InstanceID] = make(chan struct{})
	return true
}

func (c *creator) land(it *intent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.flying[it.request.InstanceID])
	delete(c.flying, it.request.InstanceID)
}

// wait blocks until no create call of the instance is under way. A call that
// has not been sent by then finds the instance condemned and is dropped.
func (c *creator) wait(ctx context.Context, id identity.ID) error {
	c.mu.Lock()
	flight := c.flying[id]
	c.mu.Unlock()
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
