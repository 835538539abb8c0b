package demandloop

import (
	"context"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
)

// start has a worker carry something out for a machine, which is looked at when that is done. Done is
// called before. False: too much waits.
func (c *core) start(m *machine, what string, run func(ctx context.Context) error, done func(error)) bool {
	began := c.opts.Now()
	ok := c.crew.offer(job{run: run, done: func(err error) {
		m.turn.busy = false
		c.opts.Metrics.done(what, err, c.opts.Now().Sub(began))
		if err != nil {
			c.opts.Log.Warn("demand action failed", "action", what, "machine", m.id, "cluster", m.about.cluster, "disposition", "failed", "error", err)
		}
		done(err)
		c.look(m.id)
	}})
	if ok {
		m.turn.busy = true
	}
	return ok
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
