package instances

import (
	"context"
	"errors"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// auditInterval is how often the stored records are compared with what is known.
// Nobody but this leader writes them, so a difference is somebody's hand.
const auditInterval = time.Hour

// firstAudits are the pauses before the looks after a take-over, from the take-over
// on. A leader that was stopped right after it had proved its lease sends what it was
// about to send when it goes on. It can't replace a record that stands, but it can
// create one after its successor has read them all.
var firstAudits = [...]time.Duration{30 * time.Second, 5 * time.Minute}

// audit compares the stored records with what is known, some time after the take-over and
// then at its interval, until ctx ends.
func (s *Store) audit(ctx context.Context) {
	for n := 0; ; n++ {
		wait := auditInterval
		if n < len(firstAudits) {
			wait = firstAudits[n]
		}
		if retry.Wait(ctx, wait) != nil {
			return
		}
		if err := s.Audit(ctx); err != nil && ctx.Err() == nil && !s.opts.Over(err) {
			s.opts.Log.WarnContext(ctx, "records not compared with storage", "error", err)
		}
	}
}

// Audit takes in records that storage has and this leader has not, lets go of those that it
// has and storage has not, and brings itself up to those that somebody else has written, such
// as a former leader whose write took long (F13).
func (s *Store) Audit(ctx context.Context) error {
	before := s.records.ids() // a record made during the listing need not be in it
	stored := map[identity.ID]bool{}
	for info, err := range objectstore.ListAll(ctx, s.opts.Objects, layout.InstancePrefix(s.opts.Shard)) {
		if err != nil {
			return err
		}
		_, _, id, err := layout.ParseInstanceKey(info.Key)
		if err != nil {
			continue // not a record; whoever put it there knows why
		}
		stored[id] = true
		switch _, etag, known := s.records.stored(id); {
		case !known:
			err = s.takeIn(ctx, info.Key, id)
		case etag != info.ETag: // unless it was written during the listing
			err = s.catchUp(ctx, info.Key, id)
		}
		if err != nil {
			return err
		}
	}
	for _, id := range before {
		if stored[id] {
			continue
		}
		if err := s.confirmLost(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// takeIn makes an instance known whose record somebody has put into storage.
func (s *Store) takeIn(ctx context.Context, key string, id identity.ID) error {
	rec, etag, err := s.fetch(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, ErrUnreadable) {
		return nil
	}
	if err != nil {
		return err
	}
	s.records.seed(rec, etag)
	if row, ok := s.cache.Instance(id); ok && row.State == fleet.Deleted {
		// A write of its record whose answer was lost has taken effect after all.
		s.opts.Log.WarnContext(ctx, "record of an ended instance came back, removing it", "instance", id)
		return s.Remove(ctx, id)
	}
	s.opts.Log.WarnContext(ctx, "record found that this leader did not know", "instance", id)
	return s.insert(rec, Found)
}

// catchUp reads a record that may have been written by somebody else, and brings the row up
// to it.
func (s *Store) catchUp(ctx context.Context, key string, id identity.ID) error {
	var told Change
	err := s.records.catchUp(ctx, id, func(was, rec layout.InstanceRecord) (err error) {
		s.opts.Log.WarnContext(ctx, "record was changed by another writer", "instance", id, "term", rec.Term)
		told, err = s.follow(was, rec)
		return err
	})
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return nil // removed since the listing, or found to be lost by the next one
	case errors.Is(err, ErrUnreadable):
		s.opts.Unreadable(ctx, key, err)
		return nil
	case err != nil:
		return err
	}
	s.tell(told)
	return nil
}

// confirmLost reads a record that a listing lacked before it believes it.
func (s *Store) confirmLost(ctx context.Context, id identity.ID) error {
	rec, known := s.Record(id)
	if !known {
		return nil // removed in order meanwhile
	}
	_, err := s.opts.Objects.Get(ctx, rec.Key())
	if !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	if _, known := s.Record(id); known {
		s.Lose(id)
	}
	return nil
}
