package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// election is one lock of this server, or the absence of one: a configuration
// may say that it leads without a lock, or never.
type election struct {
	elector *lease.Elector            // nil: there is no lock
	always  func(ctx context.Context) // leads without a lock; nil: never leads
}

// run campaigns, or leads, until ctx ends and the lock is released.
func (e *election) run(ctx context.Context) error {
	switch {
	case e.elector != nil:
		return e.elector.Run(ctx)
	case e.always != nil:
		e.always(lease.Always(ctx, 1))
	}
	<-ctx.Done()
	return nil
}

// leads reports whether this server leads.
func (e *election) leads() bool {
	if e.elector == nil {
		return e.always != nil
	}
	return e.elector.IsLeader()
}

// leader is the leader's document as this server last saw it.
func (e *election) leader() (lease.Document, bool) {
	if e.elector == nil {
		return lease.Document{}, false
	}
	return e.elector.Observed()
}

// held is the document under which this server leads now.
func (e *election) held() (lease.Document, bool) {
	if e.elector == nil {
		return lease.Document{}, false
	}
	return e.elector.Held()
}

// resign gives the lock, which there is, up for a while.
func (e *election) resign(ctx context.Context, stayOut time.Duration) error {
	return e.elector.Resign(ctx, stayOut)
}

// elsewhere is where the leader is reached: nowhere, if nobody leads or the server with
// this id itself is about to.
func (e *election) elsewhere(id string) lease.Addrs {
	doc, ok := e.leader()
	if !ok || doc.Released || doc.LeaderID == id {
		return lease.Addrs{}
	}
	return doc.Addrs
}

func electorOptions(c document.Election, id, addr string, addrs lease.Addrs, log *slog.Logger) lease.Options {
	return lease.Options{
		ID: id, LeaderAddr: addr, Addrs: addrs, Lease: c.LeaderTimeout.Std(), Renew: c.FrequentInterval.Std(), Poll: c.PeerInterval.Std(),
		Recheck: c.InfrequentInterval.Std(), Log: log,
	}
}

// reclaim proves, by the lock on the cache directory, that the process which
// last led with this directory is gone.
func reclaim(c *cache.Cache, key string) func() (uint64, bool) {
	return func() (uint64, bool) {
		term := c.Term(key)
		return term, term > 0
	}
}

// stepBack gives the lock up where leading ended because a later term has written
// to the shard: another server leads, or did before its lock was lost. This one
// leads again only under a term above that.
func (e *election) stepBack(why error) {
	var superseded *lease.SupersededError
	if e.elector != nil && errors.As(why, &superseded) {
		e.elector.Outranked(superseded.Term)
	}
}

// ownTerm is the last term under which a server with this cache directory led.
func ownTerm(c *cache.Cache, key string) func(context.Context) (uint64, error) {
	return func(context.Context) (uint64, error) { return c.Term(key), nil }
}

// highest is the highest of the terms that the sources know.
func highest(sources ...func(context.Context) (uint64, error)) func(context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) {
		var most uint64
		for _, source := range sources {
			term, err := source(ctx)
			if err != nil {
				return 0, err
			}
			most = max(most, term)
		}
		return most, nil
	}
}

// shardDocuments answers what the shard's elector has to know of its documents.
type shardDocuments struct {
	store objectstore.Store
	shard string
}

// minTerm is the term of the group file: the document that every leader writes
// before any other.
func (d shardDocuments) minTerm(ctx context.Context) (uint64, error) {
	key := layout.GroupsKey(d.shard)
	obj, err := d.store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	file, err := groupfile.Decode(key, obj.Data)
	if err != nil {
		return 0, nil //nolint:nilerr // quarantined: its term counts for nothing, the lock's own does
	}
	return uint64(file.Term), nil
}

// fresh reports whether the shard never had an instance.
func (d shardDocuments) fresh(ctx context.Context) (bool, error) {
	for _, prefix := range []string{layout.InstancePrefix(d.shard), layout.SnapshotPrefix(d.shard)} {
		page, err := d.store.List(ctx, prefix, "", 1)
		if err != nil {
			return false, err
		}
		if len(page.Objects) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// freshCluster reports whether the cluster never had a certificate authority.
func freshCluster(store objectstore.Store) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		_, err := store.Get(ctx, layout.CACertKey)
		if errors.Is(err, objectstore.ErrNotFound) {
			return true, nil
		}
		return false, err
	}
}

func newElector(store objectstore.Store, key string, opts lease.Options) (*lease.Elector, error) {
	elector, err := lease.New(store, key, opts)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", key, err)
	}
	return elector, nil
}
