package instances

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// snapshotAfter is how many records may have changed until a snapshot is due: they are as
// many requests for the next leader.
const snapshotAfter = 100

// ErrUnreadable says that a record is there and makes no sense.
var ErrUnreadable = errors.New("the record makes no sense")

// records are the records of the shard as they stand in object storage, with their etags.
// Writes to one record follow each other; those to different records go in parallel.
type records struct {
	objects objectstore.Store
	shard   string
	term    uint64
	writes  objectstore.RetryPolicy

	stale chan struct{} // has room for one: more than snapshotAfter records have changed

	mu      sync.Mutex
	byID    map[identity.ID]*entry
	changed int // since the last snapshot was begun
}

func newRecords(opts Options) *records {
	return &records{
		objects: opts.Objects, shard: opts.Shard, term: opts.Term, writes: opts.Writes,
		stale: make(chan struct{}, 1), byID: map[identity.ID]*entry{},
	}
}

// entry is one record. Whoever writes it holds its turn; the fields are
// guarded by the lock of all records, which nobody holds while storage is slow.
type entry struct {
	turn   chan struct{} // has room for one; nil while nobody wants it: most records are written a few times in their life
	takers int           // who has the turn, or waits for it
	rec    layout.InstanceRecord
	etag   string // empty: not in storage (any more)

	// unconfirmed is the removal in a write whose outcome is not known: it may stand in
	// storage, or come to stand there until the next write is known to. nil: there is none.
	unconfirmed *layout.Deletion
	writing     bool // that write is under way
}

// take waits for the turn to write and returns what gives it back.
func (rs *records) take(ctx context.Context, e *entry) (release func(), err error) {
	turn := rs.line(e)
	select {
	case turn <- struct{}{}:
		return func() { <-turn; rs.leave(e) }, nil
	case <-ctx.Done():
		rs.leave(e)
		return nil, ctx.Err()
	}
}

// line lines up for the turn, until leave.
func (rs *records) line(e *entry) (turn chan struct{}) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if e.turn == nil {
		e.turn = make(chan struct{}, 1)
	}
	e.takers++
	return e.turn
}

func (rs *records) leave(e *entry) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if e.takers--; e.takers == 0 {
		e.turn = nil
	}
}

// outranked is an error if a later leader has written the record.
func (rs *records) outranked(rec layout.InstanceRecord) error {
	if rec.Term <= rs.term {
		return nil
	}
	return &lease.SupersededError{Document: "record " + rec.ID.String(), Term: rec.Term}
}

// maxMerges bounds how often a write that lost a race is merged and tried again.
const maxMerges = 5

// seed notes a record as it was read.
func (rs *records) seed(rec layout.InstanceRecord, etag string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if e := rs.byID[rec.ID]; e != nil {
		if e.etag != etag {
			e.unconfirmed = nil
		}
		e.rec, e.etag = rec, etag
		return
	}
	rs.byID[rec.ID] = &entry{rec: rec, etag: etag}
}

// get returns a copy of a record, and whether there is one.
func (rs *records) get(id identity.ID) (layout.InstanceRecord, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	e := rs.byID[id]
	if e == nil {
		return layout.InstanceRecord{}, false
	}
	return e.rec, e.etag != ""
}

func (rs *records) entryOf(id identity.ID) *entry {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byID[id]
}

// read returns what is known of an entry; set replaces it.
func (rs *records) read(e *entry) (layout.InstanceRecord, string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return e.rec, e.etag
}

func (rs *records) set(e *entry, rec layout.InstanceRecord, etag string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.noteChanges(1)
	e.rec, e.etag, e.unconfirmed, e.writing = rec, etag, nil, false
}

// create makes a new record durable.
func (rs *records) create(ctx context.Context, rec layout.InstanceRecord) error {
	rec.Term = rs.term
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	etag, err := objectstore.Put(ctx, rs.objects, rs.key(rec), data, "", rs.writes)
	if err != nil {
		return fmt.Errorf("record %s: %w", rec.ID, err)
	}
	rs.seed(rec, etag)
	rs.addChanges(1)
	return nil
}

// update changes a record by change, which may be called again on a newer
// version and must not have effects. Before anybody else has a turn, then is called with
// the record as it was known before and as it is durable: with the change, or, where that
// failed, with what another write was found to have left.
func (rs *records) update(ctx context.Context, id identity.ID, change func(*layout.InstanceRecord) error, then func(was, rec layout.InstanceRecord) error) error {
	e := rs.entryOf(id)
	if e == nil {
		return fmt.Errorf("record %s: %w", id, objectstore.ErrNotFound)
	}
	release, err := rs.take(ctx, e)
	if err != nil {
		return fmt.Errorf("record %s: %w", id, err)
	}
	defer release()
	was, before := rs.read(e)
	rec, err := rs.merge(ctx, e, change)
	if err == nil {
		return then(was, rec)
	}
	if rec, etag := rs.read(e); etag != "" && etag != before { // what another write left was found on the way
		return errors.Join(err, then(was, rec))
	}
	return err
}

// merge writes a change, if need be onto what other writes have left.
func (rs *records) merge(ctx context.Context, e *entry, change func(*layout.InstanceRecord) error) (layout.InstanceRecord, error) {
	for range maxMerges {
		rec, err := rs.write(ctx, e, change)
		if !errors.Is(err, objectstore.ErrPrecondition) {
			return rec, err
		}
		if err := rs.reread(ctx, e); err != nil {
			return rec, err
		}
	}
	rec, _ := rs.read(e)
	return rec, fmt.Errorf("record %s: %w after %d merges", rec.ID, objectstore.ErrPrecondition, maxMerges)
}

// write makes one attempt and returns the record as it is known after it.
func (rs *records) write(ctx context.Context, e *entry, change func(*layout.InstanceRecord) error) (layout.InstanceRecord, error) {
	rec, etag := rs.read(e)
	if etag == "" { // removed while this waited for its turn
		return rec, fmt.Errorf("record %s: %w", rec.ID, objectstore.ErrNotFound)
	}
	next := rec
	if err := change(&next); err != nil {
		return rec, err
	}
	next.Term = rs.term
	data, err := next.Encode()
	if err != nil {
		return rec, err
	}
	done := func(error) {}
	if rec.Deletion == nil && next.Deletion != nil {
		done = rs.sending(e, next.Deletion)
	}
	etag, err = objectstore.Put(ctx, rs.objects, rs.key(next), data, etag, rs.writes)
	if err != nil {
		done(err)
		return rec, fmt.Errorf("record %s: %w", next.ID, err)
	}
	rs.set(e, next, etag)
	return next, nil
}

// reread fetches what another writer left. A later term there is an error.
func (rs *records) reread(ctx context.Context, e *entry) error {
	old, _ := rs.read(e)
	key := rs.key(old)
	obj, err := rs.objects.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("record %s: %w", old.ID, err)
	}
	rec, err := layout.DecodeInstanceRecord(key, obj.Data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if err := rs.outranked(rec); err != nil {
		return err
	}
	rs.set(e, rec, obj.ETag)
	return nil
}

// catchUp reads a record again. Where somebody else has written it, then is called with what
// was known and what is there, before anybody has the next turn.
func (rs *records) catchUp(ctx context.Context, id identity.ID, then func(was, rec layout.InstanceRecord) error) error {
	e := rs.entryOf(id)
	if e == nil {
		return nil
	}
	release, err := rs.take(ctx, e)
	if err != nil {
		return fmt.Errorf("record %s: %w", id, err)
	}
	defer release()
	was, before := rs.read(e)
	if before == "" {
		return nil
	}
	if err := rs.reread(ctx, e); err != nil {
		return err
	}
	if rec, etag := rs.read(e); etag != before {
		return then(was, rec)
	}
	return nil
}

// remove deletes a record; one that is gone already is no error.
func (rs *records) remove(ctx context.Context, id identity.ID) error {
	return rs.removeIf(ctx, id, func(layout.InstanceRecord) error { return nil })
}

// removeIf deletes a record to which check has no objection once it is its turn.
func (rs *records) removeIf(ctx context.Context, id identity.ID, check func(layout.InstanceRecord) error) error {
	e := rs.entryOf(id)
	if e == nil {
		return nil
	}
	release, err := rs.take(ctx, e)
	if err != nil {
		return fmt.Errorf("remove record %s: %w", id, err)
	}
	defer release()
	for range maxMerges {
		err = rs.delete(ctx, e, check)
		if !errors.Is(err, objectstore.ErrPrecondition) {
			break
		}
		// A write of ours has taken effect late: look at what it left.
		switch unread := rs.reread(ctx, e); {
		case errors.Is(unread, objectstore.ErrNotFound):
			rec, _ := rs.read(e)
			rs.set(e, rec, "")
		case unread != nil:
			return unread
		}
	}
	if err != nil {
		return fmt.Errorf("remove record %s: %w", id, err)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.noteChanges(1)
	e.etag = ""
	delete(rs.byID, id)
	return nil
}

// delete makes one attempt; a record that is gone already is no error.
func (rs *records) delete(ctx context.Context, e *entry, check func(layout.InstanceRecord) error) error {
	rec, etag := rs.read(e)
	if etag == "" {
		return nil
	}
	if err := check(rec); err != nil {
		return err
	}
	err := objectstore.Delete(ctx, rs.objects, rs.key(rec), etag, rs.writes)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	return err
}

// forget drops a record that is not in storage any more.
func (rs *records) forget(id identity.ID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byID, id)
}

// ids returns whose records there are, in order.
func (rs *records) ids() []identity.ID {
	rs.mu.Lock()
	ids := slices.Collect(maps.Keys(rs.byID))
	rs.mu.Unlock()
	slices.Sort(ids)
	return ids
}

// replacements returns the records of instances that take the place of others and are
// to live, in the order of their ids.
func (rs *records) replacements() []layout.InstanceRecord {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var all []layout.InstanceRecord
	for _, e := range rs.byID {
		if e.etag != "" && e.rec.Replaces != "" && e.rec.Deletion == nil {
			all = append(all, e.rec)
		}
	}
	slices.SortFunc(all, func(a, b layout.InstanceRecord) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// replacedBy are the instances whose place the one of rec takes, nearest first:
// the one that it was made for and, as long as that one has to go itself, the one
// that it had been made for. Links that lead in a circle end where they meet.
func (rs *records) replacedBy(rec layout.InstanceRecord) []identity.ID {
	var all []identity.ID
	for of := rec.Replaces; of != "" && of != rec.ID && !slices.Contains(all, of); {
		all = append(all, of)
		if next, ok := rs.get(of); ok && next.Deletion != nil {
			of = next.Replaces
		}
	}
	return all
}

// stored returns a record and its etag, and whether it stands in storage.
func (rs *records) stored(id identity.ID) (layout.InstanceRecord, string, bool) {
	e := rs.entryOf(id)
	if e == nil {
		return layout.InstanceRecord{}, "", false
	}
	rec, etag := rs.read(e)
	return rec, etag, etag != ""
}

// addChanges counts records in which storage differs from the newest snapshot.
func (rs *records) addChanges(n int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.noteChanges(n)
}

// noteChanges needs mu.
func (rs *records) noteChanges(n int) {
	if rs.changed += n; rs.changed <= snapshotAfter {
		return
	}
	select {
	case rs.stale <- struct{}{}:
	default:
	}
}

// resetChanges begins to count anew, and returns what was counted.
func (rs *records) resetChanges() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	n := rs.changed
	rs.changed = 0
	select {
	case <-rs.stale:
	default:
	}
	return n
}

func (rs *records) key(rec layout.InstanceRecord) string {
	return layout.InstanceKey(rs.shard, rec.Tenant, rec.ID)
}

// templatesInUse are those, in no order, that the instances whose machines may still be there were made from.
func (rs *records) templatesInUse() []groupfile.TemplateUse {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	uses := map[groupfile.TemplateUse]bool{}
	for _, e := range rs.byID {
		if e.etag != "" && (e.rec.Deletion == nil || e.rec.Deletion.GoneAt.IsZero()) {
			uses[groupfile.TemplateUse{Tenant: e.rec.Tenant, Template: e.rec.Template}] = true
		}
	}
	return slices.Collect(maps.Keys(uses))
}
