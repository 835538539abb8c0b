package instances

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// readsAtOnce is how many records are read in parallel at a take-over.
const readsAtOnce = 32

// Load makes every record of the shard known: by its copy in the snapshot, where the listing
// shows that the copy is still right, and else by reading it. One that cannot be read is
// reported to Unreadable and left alone (F10). Changed is told of [Tombstone]s alone. After an
// error it can be called again.
func (s *Store) Load(ctx context.Context) error {
	var known copies
	var listed []objectstore.Info
	g, readCtx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		known, err = s.snapshots.read(readCtx)
		return err
	})
	g.Go(func() (err error) {
		listed, err = s.list(readCtx)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	g, readCtx = errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for _, info := range listed {
		if rec, ok := known.take(info); ok {
			if err := s.load(rec, info.ETag); err != nil {
				_ = g.Wait() // what is under way ends first
				return err
			}
			continue
		}
		g.Go(func() error { return s.loadOne(readCtx, info.Key) })
	}
	s.records.addChanges(len(known)) // what is left in it stands in storage no more
	if err := g.Wait(); err != nil {
		return err
	}
	s.linkReplacements()
	return nil
}

func (s *Store) list(ctx context.Context) ([]objectstore.Info, error) {
	var listed []objectstore.Info
	for info, err := range objectstore.ListAll(ctx, s.opts.Objects, layout.InstancePrefix(s.opts.Shard)) {
		if err != nil {
			return nil, err
		}
		listed = append(listed, info)
	}
	return listed, nil
}

// loadOne reads one record and takes it in.
func (s *Store) loadOne(ctx context.Context, key string) error {
	rec, etag, err := s.fetch(ctx, key)
	switch {
	case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, ErrUnreadable):
		return nil // removed since the listing, or reported
	case err != nil:
		return err
	}
	s.records.addChanges(1) // the snapshot lacks it
	return s.load(rec, etag)
}

// load takes a record in as it stands in storage.
func (s *Store) load(rec layout.InstanceRecord, etag string) error {
	if err := s.records.outranked(rec); err != nil {
		return err
	}
	s.records.seed(rec, etag)
	row := RowOf(rec)
	err := s.cache.Insert(row)
	if errors.Is(err, cache.ErrExists) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("insert %s: %w", rec.ID, err)
	}
	if row.State == fleet.Deleted {
		s.opts.Changed(Change{Event: Tombstone, After: row})
	}
	return nil
}

// Fetch reads the record of an instance from storage, where it is not known, and keeps it
// without a row. The error matches [objectstore.ErrNotFound], [ErrUnreadable] (which is
// reported) or that of a later term, where it is one of these.
func (s *Store) Fetch(ctx context.Context, tenant string, id identity.ID) (layout.InstanceRecord, error) {
	rec, etag, err := s.fetch(ctx, layout.InstanceKey(s.opts.Shard, tenant, id))
	if err == nil {
		s.records.seed(rec, etag)
	}
	return rec, err
}

// Restore makes an instance known again whose record is known and whose row is not.
func (s *Store) Restore(id identity.ID) (layout.InstanceRecord, error) {
	rec, ok := s.Record(id)
	if !ok {
		return rec, fmt.Errorf("record %s: %w", id, objectstore.ErrNotFound)
	}
	if err := s.insert(rec, Found); err != nil {
		return rec, err
	}
	s.LinkReplacement(rec)
	return rec, nil
}

func (s *Store) fetch(ctx context.Context, key string) (rec layout.InstanceRecord, etag string, err error) {
	obj, err := s.opts.Objects.Get(ctx, key)
	if err != nil {
		return rec, "", fmt.Errorf("record %s: %w", key, err)
	}
	rec, err = layout.DecodeInstanceRecord(key, obj.Data)
	if err != nil {
		s.opts.Unreadable(ctx, key, err)
		return rec, "", fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return rec, obj.ETag, s.records.outranked(rec)
}
