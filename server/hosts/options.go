package hosts

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/keylock"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// Limits of what callers and hosts may say (S22).
const (
	MaxPayload    = 1 << 20   // bytes of an assignment
	MaxCredential = 160 << 10 // bytes of a credential
	MaxStatus     = 64 << 10  // bytes of a status
)

// Heartbeat is how often a watcher hears that there is no news.
const Heartbeat = 15 * time.Second

// Options are what [Machines] work with. All are required but those that say otherwise.
type Options struct {
	Shard string
	Term  uint64
	Store objectstore.Store
	// Writes bounds the repetition of writes. Its Permit proves the lease (S2).
	Writes objectstore.RetryPolicy
	Cache  *cache.Cache // read

	// Agents are asked for under the lock of a machine.
	Agents func() Agents

	// Heard is told of an instance about which [Machines.Node] may say something else than before; nil: nobody is.
	Heard func(id identity.ID)

	// Logs keep the logs that hosts hand over.
	Logs Logs

	// Go runs a function in a goroutine that the leader's term waits for.
	Go func(func())

	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool

	Metrics *Metrics
	Now     func() time.Time
	Log     *slog.Logger
}

// Agents bring work to the hosts. [agents.Service] does.
type Agents interface {
	// SendWork queues work for the agent of an instance, without waiting. An error says that
	// it was not queued.
	SendWork(id identity.ID, work *nstancev1.MachineWork) error
}

// Machines keeps the assignments of a shard for one leader's term. It is safe for concurrent
// use. Its effects end with the term and not with the call that has asked for them.
type Machines struct {
	opts Options
	ctx  context.Context //nolint:containedctx // the leadership's: effects end with it, not with a caller
	book
	writing  keylock.Locks[identity.ID] // held by who writes the object of an instance
	watchers watchers
	loaded   chan struct{} // closed once all assignments have been read
	orderOf  places
}

// New returns machines of which nothing is known yet; see [Machines.Run]. Effects end with
// ctx, which proves the lease.
func New(ctx context.Context, opts Options) *Machines {
	if opts.Heard == nil {
		opts.Heard = func(identity.ID) {}
	}
	return &Machines{
		opts: opts, ctx: ctx, loaded: make(chan struct{}),
		book: book{machines: map[identity.ID]*machine{}}, watchers: watchers{all: map[*watcher]struct{}{}},
	}
}

// wait waits until all assignments have been read.
func (m *Machines) wait(ctx context.Context) error {
	select {
	case <-m.loaded:
		return nil
	case <-m.ctx.Done():
		return refusal.ErrTermOver
	case <-ctx.Done():
		return ctx.Err()
	}
}
