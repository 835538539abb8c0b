package instances

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// Store keeps the instances of a shard. It is safe for concurrent use.
type Store struct {
	PendingRemovals PendingRemovals

	opts      Options
	cache     *cache.Cache
	records   *records
	snapshots snapshots
	oversized oversized
}

// New returns a store that knows nothing yet; see [Store.Load].
func New(opts Options) *Store {
	s := &Store{opts: opts, cache: opts.Cache, records: newRecords(opts)}
	s.snapshots = snapshots{opts: opts, records: s.records, room: layout.MaxSnapshotPart}
	return s
}

// Run writes snapshots and compares the records with storage until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { s.snapshots.run(ctx) })
	both.Go(func() { s.audit(ctx) })
	both.Wait()
}

// Create makes a new instance durable and known. The error matches
// [objectstore.ErrPrecondition] where it has a record already, and
// [objectstore.ErrUnavailable] where nobody knows whether it has one now.
func (s *Store) Create(ctx context.Context, rec layout.InstanceRecord) error {
	if err := s.Write(ctx, rec); err != nil {
		return err
	}
	return s.insert(rec, Created)
}

// Write makes a new record durable as Create does, and no row.
func (s *Store) Write(ctx context.Context, rec layout.InstanceRecord) error {
	return s.records.create(ctx, rec)
}

// Remove deletes the record of an instance, and leaves the row; one that is gone already is
// no error.
func (s *Store) Remove(ctx context.Context, id identity.ID) error { return s.records.remove(ctx, id) }

// Withdraw deletes the record of an instance as Remove does, unless the instance is condemned:
// then the error matches [ErrCondemned], and the record stays until that is done.
func (s *Store) Withdraw(ctx context.Context, id identity.ID) error {
	return s.records.withdraw(ctx, id)
}

// Record returns a copy of a record, and whether there is one.
func (s *Store) Record(id identity.ID) (layout.InstanceRecord, bool) { return s.records.get(id) }

// Unconfirmed is the removal of an instance that was sent and whose outcome is not known,
// or nil. It must not be changed.
func (s *Store) Unconfirmed(id identity.ID) *layout.Deletion { return s.records.unconfirmed(id) }

// TemplatesInUse are those, in no order, that the instances whose machines may still be there
// were made from.
func (s *Store) TemplatesInUse() []groupfile.TemplateUse { return s.records.templatesInUse() }

// insert adds the row of a record. An audit that came between the write and here has taken
// the record in already.
func (s *Store) insert(rec layout.InstanceRecord, event Event) error {
	row := RowOf(rec)
	if err := s.cache.Insert(row); err != nil && !errors.Is(err, cache.ErrExists) {
		return fmt.Errorf("insert %s: %w", rec.ID, err)
	}
	s.opts.Changed(Change{Event: event, After: row})
	return nil
}

// Change makes a change of an instance durable, brings its row up to that and tells Changed.
// change may be called again on a newer version and must not have effects. Where it fails, the
// error matches its own, and nothing is written; where it or the write fails after another's
// write was found, the row is brought up to that. Change returns the row as it is afterwards, and
// an error that matches [objectstore.ErrNotFound] where there is no record (any more).
func (s *Store) Change(ctx context.Context, id identity.ID, change func(*layout.InstanceRecord) error) (cache.Instance, error) {
	var told Change
	err := s.records.update(ctx, id, s.named(id, change), func(was, rec layout.InstanceRecord) (err error) {
		told, err = s.follow(was, rec)
		return err
	})
	s.tell(told)
	return told.After, err
}

// named is a change that takes along what the provider calls the machine, where the record
// does not say. The write that was to note it may have failed, and whoever leads next knows a
// machine by its record until it is listed.
func (s *Store) named(id identity.ID, change func(*layout.InstanceRecord) error) func(*layout.InstanceRecord) error {
	return func(rec *layout.InstanceRecord) error {
		if err := change(rec); err != nil || rec.ProviderID != "" {
			return err
		}
		row, _ := s.cache.Instance(id)
		rec.ProviderID = row.ProviderID
		return nil
	}
}

// Refresh brings the row of an instance up to its record, where the answer to a write was
// lost, and tells Changed.
func (s *Store) Refresh(id identity.ID) error {
	rec, ok := s.Record(id)
	if !ok {
		return nil
	}
	told, err := s.follow(rec, rec)
	if err == nil {
		s.tell(told)
	}
	return err
}

func (s *Store) tell(told Change) {
	if told.Event != 0 {
		s.opts.Changed(told)
	}
}

// follow brings the row up to a record that has changed. An instance without a row is none
// that anybody knows of.
func (s *Store) follow(was, rec layout.InstanceRecord) (told Change, err error) {
	told.After, err = s.cache.Update(rec.ID, func(in *cache.Instance) error {
		told.Before = *in
		event, err := follow(in, was, rec)
		told.Event = event
		return err
	})
	if errors.Is(err, cache.ErrUnknown) {
		return Change{}, nil
	}
	return told, err
}

// Note changes what no record says of an instance; see [cache.Cache.Update], whose contract
// holds for change.
func (s *Store) Note(id identity.ID, change func(*cache.Instance) error) (cache.Instance, error) {
	return s.cache.Update(id, change)
}

// End notes that an instance has ended for the given reason, and tells Changed. It returns
// its group. Repeats tell nobody again.
func (s *Store) End(id identity.ID, event fleet.Event) fleet.GroupID {
	told := Change{Event: Ended}
	row, err := s.cache.Update(id, func(in *cache.Instance) error {
		told.Before = *in
		return end(in, event, s.opts.Now())
	})
	if told.After = row; err == nil && told.Before.State != fleet.Deleted {
		s.opts.Changed(told)
	}
	return row.Group
}

// RegisterAgain notes that the agent of an instance, which had registered, has done so again,
// as one does that has lost the answer, and tells Changed.
func (s *Store) RegisterAgain(id identity.ID) error {
	told := Change{Event: Registered}
	row, err := s.cache.Update(id, func(in *cache.Instance) error {
		told.Before = *in
		return noteRegistered(in)
	})
	if told.After = row; err == nil {
		s.opts.Changed(told)
	}
	return err
}

// Lose forgets an instance whose record another writer has deleted, and tells Changed. Its
// machine is not touched.
func (s *Store) Lose(id identity.ID) {
	row, ok := s.cache.Instance(id)
	if !ok {
		return
	}
	s.records.forget(id)
	s.cache.Remove(id)
	s.opts.Changed(Change{Event: Lost, Before: row, After: row})
}

// Known returns the row of an instance that is not deleted.
func (s *Store) Known(id identity.ID) (cache.Instance, bool) {
	in, ok := s.cache.Instance(id)
	return in, ok && in.State != fleet.Deleted
}

// Of are the instances of a group, with the reasons for which they are condemned, or are
// about to be.
func (s *Store) Of(group fleet.GroupID) []fleet.Instance {
	pending := s.PendingRemovals.of(group)
	ins := s.records.condemning(s.cache.Fleet(group))
	for i := range ins {
		if reason, ends := pending[ins[i].ID]; ends {
			ins[i].Condemning, ins[i].Writing = reason, true
		}
	}
	return ins
}
