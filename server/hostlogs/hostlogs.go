// Package hostlogs keeps the logs that hosts hand over for operation collectLogs: objects below hostlog/ in the storage of a
// shard, compressed as they came.
//
// Their number is bounded: of an instance the last [OfInstance] are kept, and all of them for [Kept], also when the instance
// is gone, because that is often why one reads them. No object is listed but where logs come in, and now and then as long as the shard
// has host machines, or logs of some that this leader has seen.
//
// It leaves to others whether logs are wanted: a host hands over only what was asked of it.
package hostlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

const (
	// MaxSize is how large logs are at most, bytes.
	MaxSize = 1 << 20
	// OfInstance logs are kept of an instance.
	OfInstance = 4
	// Kept is how long logs are kept.
	Kept = 7 * 24 * time.Hour
)

// ErrRefused is matched by the errors about logs that are never stored, whoever sends them again.
var ErrRefused = errors.New("logs refused")

// Options are what a Keeper works with. All are required.
type Options struct {
	Shard string
	Store objectstore.Store
	// Writes bounds the repetition of writes. Its Permit proves the lease (S2).
	Writes objectstore.RetryPolicy
	Now    func() time.Time
	Log    *slog.Logger
}

// Keeper keeps the logs of a shard's hosts. It is safe for concurrent use. Make one with [New].
type Keeper struct{ opts Options }

// New returns a Keeper. It reads nothing.
func New(opts Options) *Keeper { return &Keeper{opts} }

// stored are logs as they were listed.
type stored struct {
	layout.HostLog
	key, etag string
}

// Put stores the logs that an operation has collected on the host of an instance, and returns the key of their object. Logs of the same
// operation take the place of those that there are.
func (k *Keeper) Put(ctx context.Context, tenant string, id identity.ID, operation string, content []byte) (key string, err error) {
	switch {
	case len(content) > MaxSize:
		return "", fmt.Errorf("%w: %d bytes are more than %d", ErrRefused, len(content), MaxSize)
	case !bytes.HasPrefix(content, []byte{0x1f, 0x8b}):
		return "", fmt.Errorf("%w: they are not compressed by gzip", ErrRefused)
	}
	all, err := k.list(ctx, layout.HostLogsOf(k.opts.Shard, tenant, id))
	if err != nil {
		return "", fmt.Errorf("logs of %s: %w", id, err)
	}
	one := stored{HostLog: layout.HostLog{Tenant: tenant, Instance: id, At: k.opts.Now(), Operation: operation}}
	if one.key = one.Key(k.opts.Shard); one.key == "" {
		return "", fmt.Errorf("%w: operation %.64q of instance %s can have none", ErrRefused, operation, id)
	}
	if i := slices.IndexFunc(all, func(s stored) bool { return s.Operation == operation }); i >= 0 {
		one = all[i]
	} else {
		all = append(all, one)
	}
	if _, err := objectstore.Put(ctx, k.opts.Store, one.key, content, one.etag, k.opts.Writes); err != nil {
		return "", fmt.Errorf("logs of %s: %w", id, err)
	}
	k.opts.Log.InfoContext(ctx, "logs of a host stored", "key", one.key, "bytes", len(content), "instance", id, "tenant", tenant, "operation", operation)
	k.remove(ctx, all[:max(0, len(all)-OfInstance)], "there are newer ones of the instance")
	return one.key, nil
}

// Sweep deletes what was kept for long enough, and returns how many are left.
func (k *Keeper) Sweep(ctx context.Context) (left int, err error) {
	all, err := k.list(ctx, layout.HostLogPrefix(k.opts.Shard))
	if err != nil {
		return 0, fmt.Errorf("logs of hosts: %w", err)
	}
	oldest := k.opts.Now().Add(-Kept)
	old := slices.DeleteFunc(slices.Clone(all), func(s stored) bool { return s.At.After(oldest) })
	return len(all) - k.remove(ctx, old, "they are kept for seven days"), nil
}

// list are the logs below a prefix, those of an instance in the order of their times.
func (k *Keeper) list(ctx context.Context, prefix string) (all []stored, err error) {
	for info, err := range objectstore.ListAll(ctx, k.opts.Store, prefix) {
		if err != nil {
			return nil, err
		}
		_, l, err := layout.ParseHostLogKey(info.Key)
		if err != nil {
			k.opts.Log.WarnContext(ctx, "object among the logs of hosts is left alone", "key", info.Key, "error", err)
			continue
		}
		all = append(all, stored{l, info.Key, info.ETag})
	}
	return all, nil
}

// remove deletes logs, and returns how many are gone. Those that cannot be deleted are at the next sweep.
func (k *Keeper) remove(ctx context.Context, all []stored, reason string) (gone int) {
	for _, s := range all {
		err := objectstore.Delete(ctx, k.opts.Store, s.key, s.etag, k.opts.Writes)
		if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
			k.opts.Log.WarnContext(ctx, "logs of a host not deleted", "key", s.key, "error", err)
			continue
		}
		gone++
		k.opts.Log.InfoContext(ctx, "logs of a host deleted", "key", s.key, "reason", reason)
	}
	return gone
}
