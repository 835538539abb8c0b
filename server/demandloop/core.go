package demandloop

import (
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
)

// core is all that the loop's goroutine owns.
type core struct {
	opts     Options
	engine   *demand.Engine
	pool     *workerPool
	machines map[identity.ID]*machine
	clusters map[string]*cluster
	agenda   agenda
	feed     feed
	supply   Supply
	modes    map[fleet.GroupID]bool // groups of demand mode
	scopes   map[string]demand.Suspended
	now      time.Time
	deferred []func()        // what was said of machines that a worker had
	frames   uint64          // how many have been told
	planned  []demand.Action // that the last cycle has decided, and that are not done
	unnamed  int
}

func newCore(opts Options) (*core, error) {
	c := &core{
		opts: opts, pool: newWorkerPool(opts.Workers), machines: map[identity.ID]*machine{}, clusters: map[string]*cluster{},
		scopes: map[string]demand.Suspended{}, now: opts.Now(),
	}
	opts.Engine.NewID = c.newID
	engine, err := demand.New(opts.Engine)
	if err != nil {
		return nil, fmt.Errorf("demand engine: %w", err)
	}
	c.engine = engine
	return c, nil
}

// newID names a machine of an offer. One that gets no name is dropped when it is to be made.
func (c *core) newID(offer string) string {
	if source, ok := c.supply.Source(offer); ok {
		if group, ok := c.supply.Group(source.Group); ok {
			if id, err := c.opts.NewID(group.Kind); err == nil {
				return id.String()
			}
		}
	}
	c.unnamed++
	return fmt.Sprintf("unnamed %d", c.unnamed)
}

// cluster returns what is kept of a cluster, from now on.
func (c *core) cluster(name string) *cluster {
	have := c.clusters[name]
	if have == nil {
		have = &cluster{name: name, asks: map[string]*machine{}}
		c.clusters[name] = have
	}
	return have
}

// nextFrame numbers what an operator is told of a machine: greater with each, over terms too.
func (c *core) nextFrame() uint64 {
	c.frames++
	return c.opts.Term<<32 + c.frames
}

// deferWork keeps what was said of a machine that a worker has, until some worker is done. What does not fit is
// dropped: operators and agents say it again with their next session.
func (c *core) deferWork(again func()) {
	if len(c.deferred) < jobQueue {
		c.deferred = append(c.deferred, again)
	}
}

// later has a machine looked at again after a while that grows while it fails.
func (c *core) later(m *machine) {
	m.turn.pause = min(max(firstPause, 2*m.turn.pause), longestPause)
	m.turn.notBefore = c.now.Add(m.turn.pause)
	c.agenda.add(m, m.turn.notBefore)
}

const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// unask gives up what was asked for a machine: an answer to it is dropped.
func (c *core) unask(m *machine) {
	if m.join.ask != nil {
		delete(m.join.ask.cluster.asks, m.join.ask.request)
		m.join.ask = nil
	}
}
