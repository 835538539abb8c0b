package demandloop

import (
	"context"
	"errors"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
)

// start has a worker carry something out for a machine, which is looked at when that is done. Done is
// called before. False: too much waits.
func (c *core) start(m *machine, what string, run func(ctx context.Context) error, done func(error)) bool {
	began := c.opts.Now()
	j := job{run: run, what: what, machine: m.id, cluster: m.about.cluster}
	j.done = func(err error) {
		m.turn.busy = false
		c.opts.Metrics.done(what, outcomeOf(err), c.opts.Now().Sub(began))
		if err != nil {
			c.audit(j, err)
		}
		done(err)
		c.look(m.id)
	}
	ok := c.pool.offer(j)
	if ok {
		m.turn.busy = true
	}
	return ok
}

// The outcomes of effects, which are dispositions of decisions too, but for the first.
const (
	outcomeDone   = "done"
	outcomeFailed = "failed"
	outcomeFenced = "fenced" // the leadership ended before it was done: the next leader decides
)

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeDone
	case errors.Is(err, lease.ErrNotLeader), errors.Is(err, context.Canceled): // the time of a job alone ends by its deadline
		return outcomeFenced
	default:
		return outcomeFailed
	}
}

// audit logs what of an effect did not come about.
func (c *core) audit(j job, err error) {
	c.opts.Log.Warn("demand action failed", "action", j.what, "machine", j.machine, "cluster", j.cluster, "disposition", outcomeOf(err), "error", err)
}

// logUnfinished logs what was under way, or waited for a worker, when the leadership ended. The workers have ended.
func (c *core) logUnfinished() {
	for {
		select {
		case e := <-c.pool.results:
			c.opts.Metrics.done(e.job.what, outcomeOf(e.err), 0)
			if e.err != nil {
				c.audit(e.job, e.err)
			}
		case j := <-c.pool.jobs:
			c.opts.Metrics.done(j.what, outcomeFenced, 0)
			c.audit(j, errNotBegun)
		default:
			return
		}
	}
}

// write has the record of a machine changed, for what follows from its state: a failure is tried again
// later. Then is called when it is durable.
func (c *core) write(m *machine, what string, change func(*layout.InstanceRecord) error, then func()) {
	c.do(m, what, func(ctx context.Context) error { return c.change(ctx, m.id, change) }, then)
}

// do has something done for a machine that follows from its state: a failure is tried again later.
func (c *core) do(m *machine, what string, run func(ctx context.Context) error, then func()) {
	ok := c.start(m, what, run, func(err error) {
		if err != nil {
			c.later(m)
			return
		}
		m.turn.pause = 0
		then()
	})
	if !ok {
		c.later(m)
	}
}

func (c *core) change(ctx context.Context, id identity.ID, change func(*layout.InstanceRecord) error) error {
	_, err := c.opts.Records.Change(ctx, id, change)
	return err
}

// nothing is what follows where the look at the machine says all.
func nothing() {}
