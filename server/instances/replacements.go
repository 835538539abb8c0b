package instances

import (
	"context"
	"errors"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// linkReplacements restores who was made to take whose place: the record of the
// new instance says so, from before its VM was asked for. What one leader began the
// next one goes on with.
func (s *Store) linkReplacements() {
	for _, rec := range s.records.replacements() { // the last of several counts
		s.LinkReplacement(rec)
	}
}

// LinkReplacement does so for one record. An instance between two others that is on
// its way out does not part them.
func (s *Store) LinkReplacement(rec layout.InstanceRecord) {
	if rec.Deletion != nil {
		return
	}
	for _, of := range s.records.replacedBy(rec) {
		if err := s.SetReplacement(of, rec.ID); err != nil {
			s.opts.Log.Warn("replacement of an instance not noted", "instance", of, "replacement", rec.ID, "error", err)
		}
	}
}

// PassOnReplacement prepares the end of an instance. If it was to take another one's place, its
// own replacement does from now on, and says so in its record: the link between those
// two must not end with what stood between them (S16).
func (s *Store) PassOnReplacement(ctx context.Context, id identity.ID) error {
	rec, _ := s.Record(id)
	row, _ := s.cache.Instance(id)
	first, waits := s.Known(rec.Replaces)
	if !waits || row.Replacement == "" || first.Replacement != id && first.Replacement != row.Replacement {
		return nil
	}
	_, err := s.Change(ctx, row.Replacement, func(next *layout.InstanceRecord) error {
		if next.Replaces == id {
			next.Replaces = first.ID
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.SetReplacement(first.ID, row.Replacement)
}

// SetReplacement notes who takes the place of an instance, which may have ended.
func (s *Store) SetReplacement(of, by identity.ID) error {
	_, err := s.cache.Update(of, func(in *cache.Instance) error {
		in.Replacement = by
		return nil
	})
	if errors.Is(err, cache.ErrUnknown) {
		return nil
	}
	return err
}
