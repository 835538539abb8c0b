package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/server/objectstore"
)

// observation is what a standby saw of the lock.
type observation struct {
	etag   string // "" where the lock is absent
	data   []byte
	doc    Document
	broken error // why doc is quarantined; nil where it could be read
}

func (o observation) absent() bool { return o.etag == "" }

// source is where a standby looks at the lock. A source may repeat itself, but
// must not report a version older than one it reported before.
type source interface {
	look(ctx context.Context) (observation, error)
}

// stored looks at the lock in the object store.
type stored struct {
	store objectstore.Store
	key   string
}

func (s stored) look(ctx context.Context) (observation, error) {
	o, err := s.store.Get(ctx, s.key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return observation{}, nil
	}
	if err != nil {
		return observation{}, fmt.Errorf("read lock %s: %w", s.key, err)
	}
	seen := observation{etag: o.ETag, data: o.Data}
	seen.doc, seen.broken = Decode(o.Data)
	return seen, nil
}

// standing is what a standby knows about the lock it sees, beside its content.
type standing struct {
	unchanged time.Duration // since it first saw this version
	ours      bool          // this process wrote the version as leader, and leads no more
	reclaimed bool          // its former process wrote the version and is gone
}

// mayTake decides whether a lock that is there may be taken now, and why.
func mayTake(o observation, s standing) (why string, ok bool) {
	switch {
	case o.broken != nil:
		return "quarantined", false
	case o.doc.Released:
		return "released", true
	case s.ours:
		return "written by this process", true
	case s.reclaimed:
		return "held by this server before it restarted", true
	default:
		return "unchanged for its lease", s.unchanged >= o.doc.Lease()
	}
}
