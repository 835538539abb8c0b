package gcpfake

import (
	"cmp"
	"slices"
	"time"
)

// events are what is going to happen by itself, the next one first.
type events struct {
	queue []event
	timer *time.Timer
	n     uint64
}

type event struct {
	at time.Time
	n  uint64 // of those at the same time the one that was planned first
	do func()
}

// after plans something. do runs with the cloud locked. The caller holds the lock.
func (c *Cloud) after(d time.Duration, do func()) {
	e := &c.events
	e.n++
	next := event{c.now.Add(d), e.n, do}
	at, _ := slices.BinarySearchFunc(e.queue, next, func(a, b event) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.n, b.n))
	})
	e.queue = slices.Insert(e.queue, at, next)
	c.alarm()
}

// settle lets everything happen whose time has come, and makes now the present.
// The caller holds the lock.
func (c *Cloud) settle() {
	present := time.Now()
	for len(c.events.queue) > 0 && !c.events.queue[0].at.After(present) {
		next := c.events.queue[0]
		c.events.queue = c.events.queue[1:]
		c.now = next.at
		next.do()
		c.notify()
	}
	c.now = present
	c.alarm()
}

// alarm wakes the cloud up for its next event, without a call. The caller holds the
// lock.
func (c *Cloud) alarm() {
	e := &c.events
	if len(e.queue) == 0 {
		return
	}
	wait := max(0, e.queue[0].at.Sub(c.now))
	if e.timer != nil {
		e.timer.Reset(wait)
		return
	}
	e.timer = time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settle()
	})
}

// notify wakes whoever waits for a change. The caller holds the lock.
func (c *Cloud) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// hooks are calls to the outside, made one by one and without the lock.
type hooks struct {
	queue   []func()
	running bool
	idle    chan struct{} // closed when running ends
}

// tell queues a call to the outside. The caller holds the lock.
func (c *Cloud) tell(do func()) {
	h := &c.hooks
	h.queue = append(h.queue, do)
	if h.running {
		return
	}
	h.running, h.idle = true, make(chan struct{})
	go c.tellAll()
}

func (c *Cloud) tellAll() {
	h := &c.hooks
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(h.queue) > 0 {
		next := h.queue[0]
		h.queue = h.queue[1:]
		c.mu.Unlock()
		next()
		c.mu.Lock()
	}
	h.running = false
	close(h.idle)
}

// Close ends all machines, and returns when what [Options.Run] started is stopped.
// Calls after that are answered from what is left.
func (c *Cloud) Close() {
	c.mu.Lock()
	c.events.queue = nil
	if c.events.timer != nil {
		c.events.timer.Stop()
	}
	for _, i := range c.instances {
		c.halt(i)
	}
	running, idle := c.hooks.running, c.hooks.idle
	c.mu.Unlock()
	if running {
		<-idle
	}
}
