// Package shard is the shell around the heart: it finds out what is true, asks
// package fleet what to do about it, and carries that out.
//
// A [Shard] lives as long as its process. While it holds the shard lock it has
// a [Reign], made by a take-over from object storage and one provider listing,
// and thrown away when the lease ends; nothing of it is reused. What a reign
// knows stands in package cache.
//
// The rules that every file here keeps:
//
//   - Each effect - a write to storage, a call to the provider, a certificate -
//     takes the leadership context and proves the lease right before it (S2).
//   - The record of an instance is durable before its VM is asked for (S3), and
//     what an API call reported as done is durable (S15).
//   - Events only wake the loop up. [Reign.Enqueue] may be called too often or, at
//     the price of time, once too seldom; what happens follows from the state.
//   - Nothing waits in line behind another group's slow call (L7).
//
// Package rpc turns the methods of a Reign into gRPC services; package serve
// decides who leads and which configuration is in force.
package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/provider"
	"nstance.dev/server/refusal"
	"nstance.dev/server/secrets"
	"nstance.dev/server/userdata"
)

// Options are what a Shard needs of its process. Required are those up to
// ServerHosts; each other says what its zero value means.
type Options struct {
	Cluster string
	Shard   string
	Version string // of the server program

	Store     objectstore.Store
	Driver    driver.Driver
	Cache     *cache.Cache
	Keys      func() *Keys            // nil until the cluster has a CA; then leading may begin
	Secrets   func() secrets.Store    // where files of kind secret come from
	Addresses func() driver.Addresses // what agents and operators are told
	Metrics   *Metrics
	// ServerHosts are the names and addresses of servers, which no machine may have in
	// its certificates; nil: none are known.
	ServerHosts func() []string
	Drainers    Drainers // nil: nobody coordinates drains

	// Misfit says why machines of an instance type are not of an architecture, as far
	// as the provider has said so before; nil: they are, or nothing is known.
	Misfit func(instanceType, arch string) error

	// FetchUserdata gets user data that stands at an https address; by default
	// package userdata does.
	FetchUserdata func(ctx context.Context, address string) ([]byte, error)

	Tracer trace.Tracer                             // traces nothing
	Log    *slog.Logger                             // slog.Default
	Now    func() time.Time                         // time.Now
	NewID  func(prefix string) (identity.ID, error) // identity.NewID

	// Unpaced takes an agent's messages as fast as they come: for measurements alone.
	Unpaced bool

	// Jitter places a pause within its range: uniform from 0 to below 1; rand.Float64.
	// It is called by several goroutines at once.
	Jitter func() float64
}

// Keys are what certificates and nonces are made with, as far as this server may
// have them.
type Keys struct {
	Authority *pki.Authority
	Nonces    *pki.NonceSigner
	Verifier  *pki.NonceVerifier
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = identity.NewID
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Misfit == nil {
		o.Misfit = func(string, string) error { return nil }
	}
	if o.FetchUserdata == nil {
		o.FetchUserdata = userdata.NewFetcher(nil).Fetch
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
}

// Shard is one server's part in a shard: a standby, or its leader.
// It is safe for concurrent use.
type Shard struct {
	opts    Options
	reign   atomic.Pointer[Reign] // that serves
	leading atomic.Pointer[Reign] // the same, or one that still takes over
	parking parking

	mu     sync.Mutex
	static Static
	served chan struct{} // closed when a reign begins, and then replaced
}

// New makes a standby that has the given configuration in force.
func New(opts Options, static Static) *Shard {
	opts.defaults()
	s := &Shard{opts: opts, static: static, served: make(chan struct{})}
	opts.Metrics.observe(s)
	return s
}

// Static returns the configuration in force.
func (s *Shard) Static() Static {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.static
}

// Reign returns the reign that serves now. While this server does not lead, or
// still rebuilds what it has to know, the error is a [refusal.Error] with the code
// Unavailable.
func (s *Shard) Reign() (*Reign, error) {
	if r := s.reign.Load(); r != nil {
		return r, nil
	}
	return nil, errNotLeader
}

var errNotLeader = &refusal.Error{Code: refusal.Unavailable, Reason: "NOT_LEADER", Message: "not shard leader"}

// Lead takes the shard over and leads it until ctx, the leadership context, ends.
// It returns nil then, or the error that made leading impossible.
func (s *Shard) Lead(ctx context.Context, term uint64) error {
	log := s.opts.Log.With("term", term)
	r := newReign(ctx, s.opts, log, term, s.Static())
	r.parking = &s.parking
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
	defer s.reign.CompareAndSwap(r, nil)
	s.parking.resume(r)
	log.InfoContext(ctx, "leading", "instances", r.cache.Len(), "after", s.opts.Now().Sub(started))
	err := r.run(ctx)
	r.address.Release(r.ctx)
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// serve lets a leader decide that has taken over. A take-over may last minutes, and nothing
// is decided by a configuration that was replaced meanwhile: a size would be lowered that was
// raised (S6).
func (s *Shard) serve(ctx context.Context, r *Reign) error {
	for {
		s.mu.Lock()
		latest := s.static
		if latest.Config == r.wanted.config() {
			s.reign.Store(r)
			close(s.served)
			s.served = make(chan struct{})
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		r.log.InfoContext(ctx, "configuration has changed during the take-over", "etag", latest.ETag)
		err := r.persist(ctx, "put the newest configuration in force", func(ctx context.Context) error {
			return r.wanted.reload(ctx, latest)
		})
		if err != nil {
			return err
		}
	}
}

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
	ctx, cancel := context.WithTimeout(r.ctx, within)
	defer cancel()
	if err := r.provider.Probe(ctx); err != nil && r.ctx.Err() == nil {
		r.log.WarnContext(r.ctx, "provider not reached", "error", err)
	}
}

// lost reports whether err means that this server no longer leads.
func lost(err error) bool { return errors.Is(err, lease.ErrNotLeader) }

// Reconsider has every group looked at again, if this server leads: something was
// learnt that no event tells.
func (s *Shard) Reconsider() {
	if r, err := s.Reign(); err == nil {
		r.enqueueAll()
	}
}

// errUnknown answers for objects that do not exist and for those of other
// tenants alike (S12).
func errUnknown(what, name string) *refusal.Error {
	return refusal.New(refusal.NotFound, "NOT_FOUND", "%s %q not found", what, name)
}

// WaitForReign waits until this server serves the shard.
func (s *Shard) WaitForReign(ctx context.Context) (*Reign, error) {
	for {
		s.mu.Lock()
		served := s.served
		s.mu.Unlock()
		if r := s.reign.Load(); r != nil {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-served:
		}
	}
}

// Apply puts another configuration in force, here and in the reign if there is
// one. If it cannot be made durable the old one stays.
func (s *Shard) Apply(ctx context.Context, static Static) error {
	s.mu.Lock()
	r := s.reign.Load()
	if r == nil {
		s.static = static // a take-over begins to serve with it
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if err := r.wanted.apply(ctx, static); err != nil {
		return err
	}
	r.sessions.welcomeAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.static = static
	return nil
}
