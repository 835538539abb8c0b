package shard

import (
	"context"
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
	return max(c.r.cloud.createsIn(queueTime), queueFloor) - len(c.queues[group])
}

// pop takes the next call, round robin over the groups; nil if there is none.
func (c *creator) pop() *intent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turn) == 0 {
		return nil
	}
	group := c.turn[0]
	queue := c.queues[group]
	c.turn = c.turn[1:]
	if len(queue) > 1 {
		c.queues[group] = queue[1:]
		c.turn = append(c.turn, group)
	} else {
		delete(c.queues, group)
	}
	return queue[0]
}

// run sends what is queued until ctx ends, and waits for the calls under way.
func (c *creator) run(ctx context.Context) {
	var flights sync.WaitGroup
	defer flights.Wait()
	slots := make(chan struct{}, createsAtOnce)
	for {
		it := c.pop()
		if it == nil {
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
				continue
			}
		}
		if !c.takeOff(it) {
			it.drop()
			continue
		}
		select {
		case <-ctx.Done():
			c.land(it)
			return
		case slots <- struct{}{}:
		}
		if err := c.r.cloud.admit(ctx); err != nil {
			c.land(it)
			return // only the end of ctx ends a wait for the bucket
		}
		flights.Go(func() {
			c.r.send(ctx, it)
			c.land(it)
			<-slots
		})
	}
}

// takeOff marks a call as under way, unless nobody wants the instance any more.
func (c *creator) takeOff(it *intent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	row, ok := c.r.cache.Instance(it.request.InstanceID)
	if !ok || row.State != fleet.Pending {
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
