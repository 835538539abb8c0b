package operatorauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
)

// Options are what a Registry needs of its process. Fields without a default are
// required.
type Options struct {
	Cluster   string
	Store     objectstore.Store
	Keys      func() *pki.Keys            // nil until the cluster has a CA
	ClientTTL func() time.Duration        // of an operator's certificate; 0: pki.DefaultOperatorTTL
	HasTenant func(string) bool           // whether a tenant is configured in the server's own shard
	Cache     *cache.Cache                // gets a copy of the records that are known; may be nil
	Interval  time.Duration               // between two readings of all records; 5m
	Attention time.Duration               // between two of the record of an operator that is attended to; 30s
	NewID     func() (identity.ID, error) // identity.NewID with the operators' prefix
	Now       func() time.Time            // time.Now
	Log       *slog.Logger                // slog.Default
}

func (o *Options) defaults() {
	if o.Interval <= 0 {
		o.Interval = 5 * time.Minute
	}
	if o.Attention <= 0 {
		o.Attention = 30 * time.Second
	}
	if o.NewID == nil {
		o.NewID = newID
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.ClientTTL == nil {
		o.ClientTTL = func() time.Duration { return 0 }
	}
}

func newID() (identity.ID, error) { return identity.NewID(identity.OperatorPrefix) }

// Registry knows the cluster's operators. It is safe for concurrent use.
type Registry struct {
	opts Options

	mu       sync.Mutex
	lead     context.Context //nolint:containedctx // the cluster leadership, valid or over: it bounds effects, not calls; nil: never had it
	known    map[identity.ID]*operator
	attended map[identity.ID]int    // by how many
	unread   map[identity.ID]string // tenants of records that are there and could not be read
	misses   misses
}

// New returns a registry that knows nobody yet. It starts nothing.
func New(opts Options) *Registry {
	opts.defaults()
	return &Registry{
		opts: opts, known: map[identity.ID]*operator{}, attended: map[identity.ID]int{}, unread: map[identity.ID]string{},
		misses: misses{until: map[miss]time.Time{}},
	}
}

// Lead lets the registry register operators and renew their certificates for as
// long as ctx, the leadership context of the cluster's lock, proves leadership.
func (r *Registry) Lead(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lead = ctx
}

// Leading reports whether this server leads the cluster at this moment.
func (r *Registry) Leading() bool {
	_, err := r.leadership()
	return err == nil
}

// leadership returns the context under which effects may happen.
func (r *Registry) leadership() (context.Context, error) {
	r.mu.Lock()
	ctx := r.lead
	r.mu.Unlock()
	if ctx == nil {
		return nil, ErrNotLeader
	}
	return ctx, prove(ctx)
}

// prove looks at the lease at this moment: also right before a certificate leaves,
// for recording it takes its time (S2). One that is held back is not lost, the
// same key asks again.
func prove(lead context.Context) error {
	if err := lease.Check(lead); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return nil
}

// keys returns the keys of the cluster, which a leader has from its first moment
// on.
func (r *Registry) keys() (*pki.Keys, error) {
	if k := r.opts.Keys(); k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("%w: the cluster's keys are not loaded", ErrUnavailable)
}

// write stores a document; each try proves first that this server still leads (S2).
func (r *Registry) write(ctx context.Context, key string, data []byte, etag string) (string, error) {
	etag, err := objectstore.Put(ctx, r.opts.Store, key, data, etag, objectstore.RetryPolicy{Permit: lease.Check})
	switch {
	case err == nil, errors.Is(err, objectstore.ErrPrecondition):
		return etag, err
	case errors.Is(err, lease.ErrNotLeader):
		return "", fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// read returns an operator's record and its etag. The error matches
// objectstore.ErrNotFound where there is none.
func (r *Registry) read(ctx context.Context, key string) (layout.OperatorRecord, string, error) {
	obj, err := r.opts.Store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return layout.OperatorRecord{}, "", err
	}
	if err != nil {
		return layout.OperatorRecord{}, "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	rec, err := layout.DecodeOperatorRecord(key, obj.Data)
	if err != nil {
		return layout.OperatorRecord{}, "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return rec, obj.ETag, nil
}
