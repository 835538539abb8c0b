// Package shard runs one shard's control loop: it observes, asks package fleet for
// a plan, and executes that.
//
// A [Shard] lives as long as its process. While it holds the shard lock it has
// a [Term], made by a take-over from object storage and one provider listing,
// and thrown away when the lease ends; nothing of it is reused. What a term
// knows stands in package cache.
//
// The rules that every file here keeps:
//
//   - Each effect - a write to storage, a call to the provider, a certificate -
//     takes the leadership context and proves the lease right before it (S2).
//   - The record of an instance is durable before its VM is asked for (S3), and
//     what an API call reported as done is durable (S15).
//   - Events only wake the loop up. [Term.Enqueue] may be called too often or, at
//     the price of time, once too seldom; what happens follows from the state.
//   - Nothing waits in line behind another group's slow call (L7).
//
// A term is made of parts that know each other by as little as they need: its planner gathers
// what decisions follow from, its reconciler carries plans out, its [Requests] do what callers
// ask for. How machines are made, end, are well and get their files, each is known by a package
// of its own; wiring.go says what those get to know of each other.
//
// Requests speak plain types: package operatorapi turns them into the messages of the wire
// contract, and package rpc serves these. Package serve decides who leads and which
// configuration is in force.
//
// Lock order: the tasks' and the Shard's are each taken alone. Nobody is called under them.
package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/server/agents"
	"nstance.dev/server/config"
	"nstance.dev/server/provider"
	"nstance.dev/server/refusal"
)

// Shard is one server's part in a shard: a standby, or its leader.
// It is safe for concurrent use.
type Shard struct {
	opts    Options
	term    atomic.Pointer[Term] // that serves
	leading atomic.Pointer[Term] // the same, or one that still takes over
	parking agents.Parking       // of streams while the lease is lost

	mu     sync.Mutex
	static config.Version
	served chan struct{} // closed when a term begins, and then replaced
}

// New makes a standby that has the given configuration in force.
func New(opts Options, static config.Version) *Shard {
	opts.defaults()
	s := &Shard{opts: opts, static: static, served: make(chan struct{})}
	s.observe()
	return s
}

// Static returns the configuration in force.
func (s *Shard) Static() config.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.static
}

// Term returns the term that serves now. While this server does not lead, or
// still rebuilds what it has to know, the error is a [refusal.Error] with the code
// Unavailable.
func (s *Shard) Term() (*Term, error) {
	if r := s.term.Load(); r != nil {
		return r, nil
	}
	return nil, errNotLeader
}

var errNotLeader = &refusal.Error{Code: refusal.Unavailable, Reason: "NOT_LEADER", Message: "not shard leader"}

// Lead takes the shard over and leads it until ctx, the leadership context, ends.
// It returns nil then, or the error that made leading impossible.
func (s *Shard) Lead(ctx context.Context, term uint64) error {
	opts := s.opts
	opts.Log = s.opts.Log.With("term", term)
	r := newTerm(ctx, opts, term, s.Static(), &s.parking)
	s.leading.Store(r)
	defer s.leading.CompareAndSwap(r, nil)
	started := s.opts.Now()
	if err := r.takeOver(ctx); err != nil {
		r.abandon(err)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("take over shard %s: %w", s.opts.Shard, err)
	}
	if err := s.serve(ctx, r); err != nil {
		r.abandon(err)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("take over shard %s: %w", s.opts.Shard, err)
	}
	defer s.term.CompareAndSwap(r, nil)
	r.agents.Resume()
	opts.Log.InfoContext(ctx, "became shard leader", "instances", r.planner.cache.Len(), "after", s.opts.Now().Sub(started))
	err := r.run(ctx)
	r.address.Release(r.leadership.ctx)
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// serve begins to reconcile once the take-over is done and the newest configuration is in force. A take-over may
// last minutes; by the configuration of its beginning, a size that was raised meanwhile would be lowered (S6).
func (s *Shard) serve(ctx context.Context, r *Term) error {
	for {
		s.mu.Lock()
		latest := s.static
		if latest.Config == r.planner.groups.Config() {
			s.term.Store(r)
			close(s.served)
			s.served = make(chan struct{})
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		r.opts.Log.InfoContext(ctx, "configuration has changed during the take-over", "etag", latest.ETag)
		err := r.persist(ctx, "put the newest configuration in force", func(ctx context.Context) error {
			r.planner.launcher.Configure(latest.Config)
			return r.planner.groups.Reload(ctx, latest.Config)
		})
		if err != nil {
			return err
		}
	}
}

// EndParked has agents whose streams wait here for a leader look for it themselves:
// another server leads, or this one stops.
func (s *Shard) EndParked() { s.parking.EndAll() }

// ProviderTrouble tells what this server's leadership, a take-over under way
// included, knows of the provider. Of a standby it is the zero value.
func (s *Shard) ProviderTrouble() provider.Trouble {
	if r := s.leading.Load(); r != nil {
		return r.provider.Trouble()
	}
	return provider.Trouble{}
}

// ProbeProvider makes a leader try one provider call more, which may take so long
// and whose outcome ProviderTrouble counts. A standby does nothing.
func (s *Shard) ProbeProvider(within time.Duration) {
	r := s.leading.Load()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.leadership.ctx, within)
	defer cancel()
	if err := r.provider.Probe(ctx); err != nil && r.leadership.ctx.Err() == nil {
		r.opts.Log.WarnContext(r.leadership.ctx, "provider not reached", "error", err)
	}
}

// Reevaluate has every group evaluated again, if this server leads: something was
// learnt that no event tells.
func (s *Shard) Reevaluate() {
	if r, err := s.Term(); err == nil {
		r.queue.enqueueAll()
	}
}

// WaitForTerm waits until this server serves the shard.
func (s *Shard) WaitForTerm(ctx context.Context) (*Term, error) {
	for {
		s.mu.Lock()
		served := s.served
		s.mu.Unlock()
		if r := s.term.Load(); r != nil {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-served:
		}
	}
}

// Apply puts another configuration in force, here and in the term if there is
// one. If it cannot be made durable the old one stays.
func (s *Shard) Apply(ctx context.Context, static config.Version) error {
	s.mu.Lock()
	r := s.term.Load()
	if r == nil {
		s.static = static // a take-over begins to serve with it
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if err := r.reconfigure(ctx, static.Config); err != nil {
		return err
	}
	r.agents.Welcome()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.static = static
	return nil
}
