package demandloop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	agentbinding "nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/demand"
)

// Loop is the demand mode of one shard for one leader's term. It is safe for concurrent use.
type Loop struct {
	mailbox *mailbox
	core    *core // of the goroutine of Run
	done    chan struct{}
	last    time.Time // of the last cycle
	next    time.Time // when the engine wants to be asked again
	probe   time.Time // when operators may have to be told what can be had
	usage   atomic.Pointer[map[string]demand.Usage]
	audit   *audit
	watch   *stopwatch
}

// New returns a loop that knows nothing, and starts nothing.
func New(opts Options) (*Loop, error) {
	opts.defaults()
	watch := &stopwatch{metrics: opts.Metrics, now: opts.Now}
	opts.Engine.Phase = watch.next
	core, err := newCore(opts)
	if err != nil {
		return nil, fmt.Errorf("demand loop: %w", err)
	}
	return &Loop{mailbox: newMailbox(), core: core, done: make(chan struct{}), audit: newAudit(opts.Log), watch: watch}, nil
}

// Connect implements [Link].
func (l *Loop) Connect(ctx context.Context, cluster string, h Hello, s Session) (Snapshot, error) {
	reply := make(chan Snapshot, 1)
	if err := l.mailbox.send(ctx, connect{cluster, h, s, reply}); err != nil {
		return Snapshot{}, fmt.Errorf("connect cluster %s: %w", cluster, err)
	}
	select {
	case snapshot := <-reply:
		return snapshot, nil
	case <-l.mailbox.done:
		return Snapshot{}, fmt.Errorf("connect cluster %s: %w", cluster, errTermOver)
	case <-ctx.Done():
		l.Disconnect(cluster, s) // its turn may still come
		return Snapshot{}, fmt.Errorf("connect cluster %s: %w", cluster, ctx.Err())
	}
}

// Disconnect implements [Link].
func (l *Loop) Disconnect(cluster string, s Session) {
	_ = l.mailbox.send(context.Background(), disconnect{cluster, s}) // only the end of the loop ends it
}

// Post implements [Link].
func (l *Loop) Post(ctx context.Context, cluster string, s Session, m Inbound) error {
	if err := l.mailbox.send(ctx, posted{cluster, s, m}); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	return nil
}

// Done implements [Link].
func (l *Loop) Done() <-chan struct{} { return l.done }

// Changed says that the record or the life of an instance has changed.
func (l *Loop) Changed(id identity.ID) {
	l.mailbox.note(func(n *notes) { put(&n.machines, id, true) })
}

// SupplyChanged says that [Options.Supply] returns another one.
func (l *Loop) SupplyChanged() { l.mailbox.note(func(n *notes) { n.supply = true }) }

// CreateRefused says why the machine of an instance is not made, before the instance ends.
func (l *Loop) CreateRefused(id identity.ID, why demand.Failure) {
	l.mailbox.note(func(n *notes) { put(&n.refused, id, why) })
}

// Greeted says that the agent of an instance is connected, and whether its machine can join clusters.
func (l *Loop) Greeted(id identity.ID, able bool) {
	l.mailbox.note(func(n *notes) { put(&n.greeted, id, able) })
}

// Binding says what the agent of an instance reports of its machine's binding.
func (l *Loop) Binding(id identity.ID, r agentbinding.Report) {
	l.mailbox.note(func(n *notes) { put(&n.reported, id, r) })
}

const (
	cycleEvery   = 10 * time.Second
	cycleSpacing = 100 * time.Millisecond
)

// Run makes cycles until ctx ends, which has to be the leadership's: workers are under way with it, and
// are waited for.
func (l *Loop) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer func() {
		running.Wait()
		l.core.logUnfinished()
	}()
	defer close(l.done)
	defer close(l.mailbox.done)
	census := count(l.census)
	l.core.opts.Metrics.now.count.Store(&census)
	defer l.core.opts.Metrics.now.count.CompareAndSwap(&census, nil)
	running.Go(func() { l.core.pool.run(ctx, l.core.opts.Workers) })
	l.now()
	taking{l.core}.resupply()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case letter := <-l.mailbox.letters:
			l.now()
			taking{l.core}.letter(letter)
		case e := <-l.core.pool.results:
			l.now()
			l.finish(e)
		case <-l.mailbox.wake:
			l.now()
			taking{l.core}.notes(l.mailbox.take())
		case <-timer.C:
			l.now()
		}
		l.absorb()
		for m := l.core.agenda.next(l.core.now); m != nil; m = l.core.agenda.next(l.core.now) {
			l.core.look(m.id)
		}
		if at := l.due(); !l.core.now.Before(at) {
			l.cycle()
		}
		if !l.probe.IsZero() && !l.core.now.Before(l.probe) {
			l.advertise()
		}
		timer.Reset(max(l.wake().Sub(l.core.opts.Now()), 0))
	}
}

// absorbAtOnce is how much is taken in before time is looked at again.
const absorbAtOnce = 1024

// absorb takes in what has come meanwhile, results of workers first.
func (l *Loop) absorb() {
	for range absorbAtOnce {
		select {
		case e := <-l.core.pool.results:
			l.finish(e)
			continue
		default:
		}
		select {
		case letter := <-l.mailbox.letters:
			taking{l.core}.letter(letter)
		case <-l.mailbox.wake:
			taking{l.core}.notes(l.mailbox.take())
		default:
			return
		}
	}
}

// finish takes in what a worker has done, and what was said meanwhile.
func (l *Loop) finish(e result) {
	l.core.pool.outstanding--
	e.job.done(e.err)
	deferred := l.core.deferred
	l.core.deferred = nil
	for _, again := range deferred {
		again()
	}
}

// now reads the clock, which does not go back.
func (l *Loop) now() {
	if now := l.core.opts.Now(); now.After(l.core.now) {
		l.core.now = now
	}
}

// due is when the next cycle begins as things stand.
func (l *Loop) due() time.Time {
	due := l.last.Add(cycleEvery)
	if len(l.core.feed.events) > 0 {
		due = l.last
	}
	if !l.next.IsZero() && l.next.Before(due) {
		due = l.next
	}
	if soonest := l.last.Add(cycleSpacing); due.Before(soonest) {
		due = soonest
	}
	return due
}

// wake is when there is something to do, if nothing happens.
func (l *Loop) wake() time.Time {
	wake := l.due()
	for _, t := range []time.Time{l.core.agenda.soonest(), l.probe} {
		if !t.IsZero() && t.Before(wake) {
			wake = t
		}
	}
	return wake
}

// cycle makes one step of the engine, and begins what it decides.
func (l *Loop) cycle() {
	c := l.core
	if next := c.supply.Next(); !next.IsZero() && !c.now.Before(next) {
		taking{c}.resupply()
	}
	events := c.feed.events
	c.feed.events = nil
	began := c.opts.Now()
	result := c.engine.Step(c.now, events)
	l.watch.next("")
	l.last, l.next = c.now, result.Next
	c.opts.Metrics.cycled(c.opts.Now().Sub(began), result)
	for _, e := range result.Ended {
		c.opts.Log.Info("replacement of machines ended", "group", e.Group, "cluster", e.Cluster, "machines", e.Replaced, "reason", e.Why, "failed", e.Failed)
	}
	for _, err := range result.Rejected {
		c.opts.Log.Warn("engine refused an event", "error", err)
	}
	framing{c}.answer(result.Answers)
	if len(events) > 0 || len(result.Actions) > 0 || result.Capped != l.audit.capped { // else all is as it was
		c.plan(result.Actions)
		l.audit.decided(result)
	}
	for _, a := range result.Actions {
		acting{c}.act(a)
	}
	if l.usage.Load() == nil || len(events) > 0 || len(result.Actions) > 0 {
		usage := c.engine.Usage()
		l.usage.Store(&usage)
	}
	l.advertise()
}

// Usage is what the machines of a group, by its name `TENANT/GROUP`, take as of the last cycle; false: there was
// none, or the engine knows no such group.
func (l *Loop) Usage(group string) (demand.Usage, bool) {
	all := l.usage.Load()
	if all == nil {
		return demand.Usage{}, false
	}
	u, ok := (*all)[group]
	return u, ok
}

// advertise tells operators what could be had.
func (l *Loop) advertise() {
	l.probe = time.Time{}
	for _, cluster := range l.core.clusters {
		if at := (framing{l.core}).advertise(cluster); !at.IsZero() && (l.probe.IsZero() || at.Before(l.probe)) {
			l.probe = at
		}
	}
}
