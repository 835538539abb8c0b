package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/server/objectstore"
)

// observation is what a standby saw of the lock, in storage or by the leader's
// own word.
type observation struct {
	etag   string // "" where the lock is absent, or heard of
	data   []byte // nil where it was heard of
	heard  bool   // the leader said so: to take the lock, look at it in storage first
	doc    Document
	broken error // why doc is quarantined; nil where it could be read
}

func (o observation) absent() bool { return o.etag == "" && !o.heard }

// same reports whether o, seen in storage, is the version that was seen before.
func (o observation) same(before observation) bool {
	if before.heard {
		return !o.absent() && o.broken == nil && o.doc.sameVersion(before.doc)
	}
	return o.etag == before.etag && bytes.Equal(o.data, before.data)
}

// look reads the lock from the object store.
func (e *Elector) look(ctx context.Context) (observation, error) {
	o, err := e.store.Get(ctx, e.key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return observation{}, nil
	}
	if err != nil {
		return observation{}, fmt.Errorf("read lock %s: %w", e.key, err)
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
