package gcpfake

import (
	"slices"
	"time"
)

// status is the state of a machine in the API's words.
// https://docs.cloud.google.com/compute/docs/instances/instance-lifecycle
//
//	insert, start   PROVISIONING → STAGING → RUNNING
//	stop            RUNNING → STOPPING → TERMINATED
//	suspend         RUNNING → SUSPENDING → SUSPENDED, and resume like start
//	delete          any → STOPPING → gone
//	spot notice     RUNNING → STOPPING → TERMINATED, or gone
//	a crash         RUNNING → TERMINATED
//
// What is begun with a machine ends what was going on with it, operation included. So
// a delete need not wait until the machine has booted.
type status string

const (
	provisioning status = "PROVISIONING"
	staging      status = "STAGING"
	running      status = "RUNNING"
	stopping     status = "STOPPING"
	terminated   status = "TERMINATED"
	suspending   status = "SUSPENDING"
	suspended    status = "SUSPENDED"
)

// bootingOps are the calls that need a free machine in the zone.
var bootingOps = map[string]bool{"instances.insert": true, "instances.start": true, "instances.resume": true}

func (i *instance) is(s ...status) bool { return slices.Contains(s, status(i.pb.GetStatus())) }

// leaving reports whether the machine's deletion goes on.
func (i *instance) leaving() bool { return i.op != nil && i.op.pb.GetOperationType() == "delete" }

func (c *Cloud) set(i *instance, s status) {
	i.pb.Status = new(string(s))
	c.notify()
}

// turn begins something with a machine. op is nil where nobody asked for it.
func (c *Cloud) turn(i *instance, op *operation) {
	i.change++
	if i.op != nil {
		c.finish(i.op, nil)
	}
	i.op = op
}

// then carries on with what was begun, unless something else was begun meanwhile.
func (c *Cloud) then(i *instance, wait time.Duration, do func()) {
	change := i.change
	c.after(wait, func() {
		if i.change == change {
			do()
		}
	})
}

// done ends what was begun.
func (c *Cloud) done(i *instance) {
	if i.op != nil {
		c.finish(i.op, nil)
		i.op = nil
	}
}

// boot starts a machine that does not run.
func (c *Cloud) boot(i *instance, op *operation) {
	c.turn(i, op)
	i.preempted = false
	c.take(i, 1)
	c.set(i, provisioning)
	c.then(i, c.conditions.Boot/2, func() { c.set(i, staging) })
	c.then(i, c.conditions.Boot, func() {
		i.pb.LastStartTimestamp = new(stamp(c.now))
		c.set(i, running)
		c.run(i)
		c.done(i)
	})
}

// shutdown stops a machine; through is what it is meanwhile, at the end what then.
func (c *Cloud) shutdown(i *instance, op *operation, through, end status) {
	c.turn(i, op)
	c.set(i, through)
	c.halt(i)
	c.then(i, c.conditions.End, func() {
		c.rest(i, end)
		c.done(i)
	})
}

// rest is the state of a machine that was stopped, or stopped by itself.
func (c *Cloud) rest(i *instance, end status) {
	i.pb.LastStopTimestamp = new(stamp(c.now))
	c.take(i, -1)
	c.set(i, end)
}

// remove ends a machine for good.
func (c *Cloud) remove(i *instance, op *operation) {
	occupied := !i.is(terminated, suspended)
	c.turn(i, op)
	c.set(i, stopping)
	c.halt(i)
	c.then(i, c.conditions.End, func() {
		if occupied {
			c.take(i, -1)
		}
		c.vanish(i)
		c.done(i)
	})
}

// vanish makes a machine be no more. It goes on showing for the lag.
func (c *Cloud) vanish(i *instance) {
	i.subnet.release(i)
	c.leaveBalancers(i)
	delete(c.instances, i.place())
	i.gone = c.now
	c.ghosts = append(c.ghosts, i)
	c.after(c.conditions.Lag, func() {
		c.ghosts = slices.DeleteFunc(c.ghosts, func(g *instance) bool { return g == i })
	})
	c.notify()
}

// take takes a machine out of the zone's stock, or gives one back.
func (c *Cloud) take(i *instance, n int) {
	at := place{i.zone, i.kind.Name}
	if _, limited := c.room[at]; limited {
		c.room[at] -= n
	}
}

// run starts what stands for the machine.
func (c *Cloud) run(i *instance) {
	if c.opts.Run == nil {
		return
	}
	m, change := c.machine(i), i.change
	c.tell(func() {
		stop, err := c.opts.Run(m)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settle()
		switch {
		case err != nil && i.change == change:
			c.turn(i, nil)
			c.rest(i, terminated)
		case err == nil:
			i.stop = stop
		}
	})
}

// halt ends what stands for the machine, if it was started. It comes after the start
// in the queue, and so finds what that left.
func (c *Cloud) halt(i *instance) {
	if c.opts.Run == nil {
		return
	}
	c.tell(func() {
		c.mu.Lock()
		stop := i.stop
		i.stop = nil
		c.mu.Unlock()
		if stop != nil {
			stop()
		}
	})
}
