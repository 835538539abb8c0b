package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

var at = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// started is a leader with one instance that is recorded, and whose create has no answer.
func started(t *testing.T) (*archive, *leader, identity.ID) {
	t.Helper()
	a := newArchive(t)
	r := a.term()
	id, err := a.ids.NewID("vmx")
	if err != nil {
		t.Fatal(err)
	}
	rec := layout.InstanceRecord{
		ID: id, Tenant: "default", ClusterID: "test", Shard: testShard, Group: "web", Template: "plain", Kind: "vmx",
		InstanceType: "small", Arch: "amd64", SubnetPool: "p", SubnetID: "net-1", Provider: "local",
		Status: layout.StatusPending, CreatedAt: layout.At(at),
	}
	if err := r.Create(r.ctx, rec); err != nil {
		t.Fatal(err)
	}
	return a, r, id
}

func (r *leader) events() []Event {
	var all []Event
	for _, c := range r.changes {
		all = append(all, c.Event)
	}
	return all
}

func register(rec *layout.InstanceRecord) error {
	rec.Status, rec.RegisteredAt, rec.Hostname = layout.StatusRegistered, layout.At(at), "claimed"
	rec.Certificate.Serial, rec.PublicKeyPEM = "1", "key"
	return nil
}

func toGo(rec *layout.InstanceRecord) error {
	rec.Status = layout.StatusDeleting
	rec.Deletion = &layout.Deletion{Reason: string(fleet.ReasonUnhealthy), RequestedAt: layout.At(at), DeleteAt: layout.At(at.Add(time.Hour)), DrainStartedAt: layout.At(at)}
	return nil
}

// TestS3_ARowFollowsItsRecord: each change of a record, what it makes of the row, and what is
// told.
func TestS3_ARowFollowsItsRecord(t *testing.T) {
	type change = func(*layout.InstanceRecord) error
	sooner := func(rec *layout.InstanceRecord) error {
		d := *rec.Deletion
		d.DeleteAt = layout.At(at.Add(time.Minute))
		rec.Deletion = &d
		return nil
	}
	acked := func(rec *layout.InstanceRecord) error {
		d := *rec.Deletion
		d.DrainAckedAt = layout.At(at)
		rec.Deletion = &d
		return nil
	}
	gone := func(rec *layout.InstanceRecord) error {
		d := *rec.Deletion
		d.GoneAt = layout.At(at)
		rec.Deletion = &d
		return nil
	}
	notToGo := func(rec *layout.InstanceRecord) error {
		rec.Status, rec.Deletion = layout.StatusRegistered, nil
		return nil
	}
	nothing := func(*layout.InstanceRecord) error { return nil }
	replace := func(rec *layout.InstanceRecord) error {
		rec.Replace = &layout.ReplaceRequest{RequestedAt: layout.At(at), SkipDrain: true}
		return nil
	}
	for name, c := range map[string]struct {
		changes []change
		events  []Event
		state   fleet.State
		check   func(cache.Instance) bool
	}{
		"nothing": {[]change{nothing}, []Event{Updated}, fleet.Pending, nil},
		"registers": {[]change{register}, []Event{Registered}, fleet.Running, func(in cache.Instance) bool {
			return in.Power == fleet.Up && in.CertSerial == "1" && in.Hostname == "claimed" && in.RegisteredAt.Equal(at)
		}},
		"registers once": {[]change{register, register}, []Event{Registered, Updated}, fleet.Running, nil},
		"is to go": {[]change{toGo}, []Event{Condemned}, fleet.Draining, func(in cache.Instance) bool {
			return in.Removal.Reason == fleet.ReasonUnhealthy && in.UnhealthyAt.Equal(at)
		}},
		"is to go sooner": {[]change{toGo, sooner}, []Event{Condemned, Condemned}, fleet.Draining, func(in cache.Instance) bool {
			return in.Removal.DeleteAt.Equal(at.Add(time.Minute))
		}},
		"is drained": {[]change{toGo, acked}, []Event{Condemned, Updated}, fleet.Draining, func(in cache.Instance) bool { return in.Removal.Acked }},
		"is gone": {[]change{toGo, gone}, []Event{Condemned, Ended}, fleet.Deleted, func(in cache.Instance) bool {
			return in.Power == fleet.Gone && in.DeletedAt.Equal(at)
		}},
		"is gone for good": {[]change{toGo, gone, register}, []Event{Condemned, Ended}, fleet.Deleted, nil},
		"registers while it is to go": {[]change{toGo, register}, []Event{Condemned, Updated}, fleet.Draining, func(in cache.Instance) bool {
			return in.CertSerial == "1"
		}},
		"is to be replaced": {[]change{replace}, []Event{Updated}, fleet.Pending, func(in cache.Instance) bool { return in.ReplaceFirst && in.SkipDrain }},
	} {
		t.Run(name, func(t *testing.T) {
			_, r, id := started(t)
			r.changes = nil
			for _, change := range c.changes {
				in, err := r.Change(r.ctx, id, change)
				if row, _ := r.cache.Instance(id); err != nil || row.State != in.State {
					t.Fatalf("Change returned %s and %v, and the row is %s", in.State, err, row.State)
				}
			}
			row, _ := r.cache.Instance(id)
			if row.State != c.state || !slices.Equal(r.events(), c.events) || c.check != nil && !c.check(row) {
				t.Errorf("state %s, told %v, want %s and %v; the row is %+v", row.State, r.events(), c.state, c.events, row)
			}
			rec, _ := r.Record(id)
			next := RowOf(rec)
			if next.State != row.State || next.Removal != row.Removal || !next.DeletedAt.Equal(row.DeletedAt) || !next.UnhealthyAt.Equal(row.UnhealthyAt) {
				t.Errorf("S16: the next leader reads %+v, want %+v", next, row)
			}
		})
	}
	t.Run("is not to go after all", func(t *testing.T) {
		_, r, id := started(t)
		condemned := func(rec *layout.InstanceRecord) error {
			_ = toGo(rec)
			rec.Deletion.DrainStartedAt = layout.Time{}
			return nil
		}
		for _, change := range []change{register, condemned, notToGo} {
			if _, err := r.Change(r.ctx, id, change); err != nil {
				t.Fatal(err)
			}
		}
		want := []Event{Created, Registered, Condemned, RemovalCancelled}
		if row, _ := r.cache.Instance(id); row.State != fleet.Running || row.Removal != (fleet.Removal{}) || !slices.Equal(r.events(), want) {
			t.Errorf("%s, %+v, told %v, want running without a removal and %v", row.State, row.Removal, r.events(), want)
		}
	})
}

// What is not durable shows in no row, and nobody is told of it.
func TestS3_NothingFollowsAWriteThatFails(t *testing.T) {
	a, r, id := started(t)
	before, _ := r.cache.Instance(id)
	refused := errors.New("refused")
	a.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Before: refused} })
	if _, err := r.Change(r.ctx, id, toGo); !errors.Is(err, refused) {
		t.Errorf("error %v, want that of the store", err)
	}
	own := errors.New("no")
	if _, err := r.Change(r.ctx, id, func(*layout.InstanceRecord) error { return own }); !errors.Is(err, own) {
		t.Errorf("error %v, want that of the change", err)
	}
	if row, _ := r.cache.Instance(id); row.State != before.State || row.Revision != before.Revision || len(r.changes) != 1 {
		t.Errorf("the row became %+v, told %v", row, r.events())
	}
}

// A write of before takes effect late, and is found by one that fails: the row follows what is
// durable, also then.
func TestS3_F13_TheRowFollowsWhatAFailedWriteHasFound(t *testing.T) {
	own := errors.New("no")
	for name, change := range map[string]struct {
		edit    func(*layout.InstanceRecord) error
		failing int // the write that fails
	}{
		"the second write fails": {register, 2},
		"the change is refused": {func(rec *layout.InstanceRecord) error {
			if rec.Deletion != nil {
				return own
			}
			return register(rec)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, r, id := started(t)
			rec, etag, _ := r.records.stored(id)
			_ = toGo(&rec)
			data, err := rec.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.store.PutIfMatch(t.Context(), rec.Key(), data, etag); err != nil {
				t.Fatal(err)
			}
			writes := 0
			a.store.SetFaults(func(c memory.Call) memory.Fault {
				if c.Op == memory.OpPut {
					if writes++; writes == change.failing {
						return memory.Fault{Before: own}
					}
				}
				return memory.Fault{}
			})
			if _, err := r.Change(r.ctx, id, change.edit); !errors.Is(err, own) {
				t.Errorf("error %v, want %v", err, own)
			}
			if row, _ := r.cache.Instance(id); row.State != fleet.Draining || !slices.Equal(r.events(), []Event{Created, Condemned}) {
				t.Errorf("%s, told %v, want draining and that it is condemned", row.State, r.events())
			}
		})
	}
}

// The row shows a change when it is told, and storage has it.
func TestS3_WhoIsToldFindsRecordAndRow(t *testing.T) {
	a, r, id := started(t)
	told := 0
	r.opts.Changed = func(c Change) {
		told++
		row, _ := r.cache.Instance(id)
		obj, err := a.store.Get(t.Context(), layout.InstanceKey(testShard, "default", id))
		if err != nil {
			t.Fatal(err)
		}
		rec, err := layout.DecodeInstanceRecord(layout.InstanceKey(testShard, "default", id), obj.Data)
		if err != nil || rec.Deletion == nil || row.State != fleet.Draining || c.Before.State != fleet.Pending || c.After.State != fleet.Draining {
			t.Errorf("record %+v (%v), row %s, told from %s to %s", rec.Deletion, err, row.State, c.Before.State, c.After.State)
		}
	}
	if _, err := r.Change(r.ctx, id, toGo); err != nil || told != 1 {
		t.Errorf("told %d times, %v", told, err)
	}
}

// Changes that are made at once reach the row in the order in which they reach the record: an
// agent that registers before the answer to its create is written down stays registered.
func TestF4_TheRowFollowsInTheOrderOfTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r, id := started(t)
		slow := true
		a.store.SetFaults(func(memory.Call) memory.Fault {
			if slow {
				slow = false
				return memory.Fault{Latency: time.Minute}
			}
			return memory.Fault{}
		})
		go func() {
			if _, err := r.Change(r.ctx, id, func(rec *layout.InstanceRecord) error { rec.ProviderID = "vm-1"; return nil }); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if _, err := r.Change(r.ctx, id, register); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if row, _ := r.cache.Instance(id); row.State != fleet.Running || row.ProviderID != "vm-1" || row.CertSerial != "1" {
			t.Errorf("the row is %+v, want it registered, with its machine", row)
		}
	})
}

// What only the row knows stays when the record changes: an address that the provider has
// shown before the agent registers, and the certificate of an adopted instance before it is
// recorded.
func TestARecordTakesNothingFromARowThatItDoesNotKnow(t *testing.T) {
	_, r, id := started(t)
	if _, err := r.Note(id, func(in *cache.Instance) error {
		in.IPv4, in.ProviderID, in.CertSerial, in.PublicKeyPEM = "10.1.2.3", "vm-1", "7", "learnt"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Change(r.ctx, id, toGo); err != nil {
		t.Fatal(err)
	}
	row, _ := r.cache.Instance(id)
	if row.IPv4 != "10.1.2.3" || row.ProviderID != "vm-1" || row.CertSerial != "7" || row.PublicKeyPEM != "learnt" {
		t.Errorf("the row is %+v", row)
	}
}

// TestS6_ARecordTakesAlongWhatTheProviderCallsItsMachine: the write that notes it may fail, and
// then the next one does. The next leader knows a machine by its record until it is listed.
func TestS6_ARecordTakesAlongWhatTheProviderCallsItsMachine(t *testing.T) {
	_, r, id := started(t)
	if _, err := r.Note(id, func(in *cache.Instance) error { in.ProviderID = "vm-1"; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		change func(*layout.InstanceRecord) error
		want   string
	}{
		{"a record without one", register, "vm-1"},
		{"one that is being written", func(rec *layout.InstanceRecord) error { rec.ProviderID = "vm-2"; return nil }, "vm-2"},
	} {
		if _, err := r.Change(r.ctx, id, step.change); err != nil {
			t.Fatal(err)
		}
		if rec, _ := r.Record(id); rec.ProviderID != step.want {
			t.Errorf("%s has provider id %q, want %q", step.name, rec.ProviderID, step.want)
		}
	}
}

// TestS17_AnEndIsToldOnce, whoever finds it out.
func TestS17_AnEndIsToldOnce(t *testing.T) {
	_, r, id := started(t)
	for range 2 {
		if group := r.End(id, fleet.EventCreateRefused); group != web {
			t.Errorf("group %s, want %s", group, web)
		}
	}
	if want := []Event{Created, Ended}; !slices.Equal(r.events(), want) {
		t.Errorf("told %v, want %v", r.events(), want)
	}
	if _, known := r.Known(id); known {
		t.Error("it is known still")
	}
}

// TestF11_ARecordThatSomebodyDeletes is found by the audit, and so is one that somebody puts
// into storage.
func TestF11_TheAuditFindsWhatOthersDo(t *testing.T) {
	a, r, id := started(t)
	key := layout.InstanceKey(testShard, "default", id)
	obj, err := a.store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.DeleteIfMatch(t.Context(), key, obj.ETag); err != nil {
		t.Fatal(err)
	}
	if err := r.Audit(r.ctx); err != nil {
		t.Fatal(err)
	}
	if _, known := r.cache.Instance(id); known {
		t.Error("it is known without a record")
	}
	if _, err := a.store.PutIfAbsent(t.Context(), key, obj.Data); err != nil {
		t.Fatal(err)
	}
	if err := r.Audit(r.ctx); err != nil {
		t.Fatal(err)
	}
	if row, known := r.cache.Instance(id); !known || row.State != fleet.Pending {
		t.Errorf("it is known: %t, %s", known, row.State)
	}
	if want := []Event{Created, Lost, Found}; !slices.Equal(r.events(), want) {
		t.Errorf("told %v, want %v", r.events(), want)
	}
}

// TestF13_TheAuditFindsLateWrites: what a former leader has sent takes effect under this one,
// on a record that nobody writes again. A write that makes no sense is reported, and one of a
// later leader ends the term.
func TestF13_TheAuditFindsLateWrites(t *testing.T) {
	for name, c := range map[string]struct {
		write  func(rec *layout.InstanceRecord)
		data   string // in place of the record
		events []Event
		state  fleet.State
		err    error
	}{
		"a condemnation": {write: func(rec *layout.InstanceRecord) { _ = toGo(rec) }, events: []Event{Created, Condemned}, state: fleet.Draining},
		"a registration": {write: func(rec *layout.InstanceRecord) { _ = register(rec) }, events: []Event{Created, Registered}, state: fleet.Running},
		"nonsense":       {data: "{", events: []Event{Created}, state: fleet.Pending},
		"a later term":   {write: func(rec *layout.InstanceRecord) { rec.Term = 9 }, events: []Event{Created}, state: fleet.Pending, err: lease.ErrSuperseded},
	} {
		t.Run(name, func(t *testing.T) {
			a, r, id := started(t)
			rec, etag, _ := r.records.stored(id)
			data := []byte(c.data)
			if c.write != nil {
				c.write(&rec)
				var err error
				if data, err = rec.Encode(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := a.store.PutIfMatch(t.Context(), rec.Key(), data, etag); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second finds nothing new
				if err := r.Audit(r.ctx); !errors.Is(err, c.err) {
					t.Errorf("error %v, want %v", err, c.err)
				}
			}
			if row, _ := r.cache.Instance(id); row.State != c.state || !slices.Equal(r.events(), c.events) {
				t.Errorf("%s, told %v, want %s and %v", row.State, r.events(), c.state, c.events)
			}
			if reported := len(r.unreadable) > 0; reported != (c.data != "") {
				t.Errorf("reported: %v", r.unreadable)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		_, r, id := started(t)
		if _, err := r.Change(r.ctx, id, register); err != nil {
			t.Fatal(err)
		}
		if err := r.Audit(r.ctx); err != nil || len(r.events()) != 2 {
			t.Errorf("told %v, %v", r.events(), err)
		}
	})
}

// TestF10_RecordsThatCannotBeTakenIn are reported, or end the term.
func TestF10_RecordsThatCannotBeTakenIn(t *testing.T) {
	later := layout.InstanceRecord{}
	for name, c := range map[string]struct {
		spoil func(data []byte) []byte
		want  error
	}{
		"it makes no sense": {func([]byte) []byte { return []byte("{") }, ErrUnreadable},
		"a later leader wrote it": {func([]byte) []byte {
			data, err := later.Encode()
			if err != nil {
				t.Fatal(err)
			}
			return data
		}, lease.ErrSuperseded},
		"it is gone": {func([]byte) []byte { return nil }, objectstore.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			a, r, id := started(t)
			later, _ = r.Record(id)
			later.Term = 9
			key := later.Key()
			obj, err := a.store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.store.DeleteIfMatch(t.Context(), key, obj.ETag); err != nil {
				t.Fatal(err)
			}
			if data := c.spoil(obj.Data); data != nil {
				if _, err := a.store.PutIfAbsent(t.Context(), key, data); err != nil {
					t.Fatal(err)
				}
			}
			next := a.begin(a.store)
			defer next.end()
			if _, err := next.Fetch(next.ctx, "default", id); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if reported := len(next.unreadable) > 0; reported != errors.Is(c.want, ErrUnreadable) {
				t.Errorf("reported: %v", next.unreadable)
			}
			if _, known := next.Record(id); known {
				t.Error("it is known")
			}
		})
	}
}

// A change of an instance that there is not is an error that says so.
func TestChangeOfAnUnknownInstance(t *testing.T) {
	_, r, id := started(t)
	if err := r.Remove(r.ctx, id); err != nil {
		t.Fatal(err)
	}
	_, err := r.Change(r.ctx, id, func(*layout.InstanceRecord) error { return fmt.Errorf("called") })
	if !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("error %v, want that it is not found", err)
	}
	if err := r.Refresh(id); err != nil {
		t.Errorf("Refresh of one without a record: %v", err)
	}
}

// TestS2_NoChangeWithoutTheLease: a change that waits for its turn is not begun after the end
// of the leadership.
func TestS2_NoChangeWithoutTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r, id := started(t)
		a.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: time.Minute} })
		ctx, lost := context.WithCancel(r.ctx)
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := r.Change(ctx, id, func(rec *layout.InstanceRecord) error { rec.ProviderID += "x"; return nil })
				done <- err
			}()
		}
		synctest.Wait()
		lost()
		for range 2 {
			if err := <-done; err == nil {
				t.Error("changed after the leadership")
			}
		}
		if rec, _ := r.Record(id); rec.ProviderID != "" {
			t.Errorf("the record has %q", rec.ProviderID)
		}
	})
}

// TestS9_ARegistrationThatIsRepeated: its agent is heard of, and that is told; of an instance
// that nobody knows nothing is.
func TestS9_ARegistrationThatIsRepeated(t *testing.T) {
	_, r, id := started(t)
	if _, err := r.Change(r.ctx, id, register); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Note(id, func(in *cache.Instance) error {
		in.State, in.UnhealthyAt = fleet.Unhealthy, at
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.changes = nil
	if err := r.RegisterAgain(id); err != nil {
		t.Fatal(err)
	}
	row, _ := r.cache.Instance(id)
	if row.State != fleet.Running || !row.UnhealthyAt.IsZero() || !slices.Equal(r.events(), []Event{Registered}) {
		t.Errorf("%s since %v, told %v", row.State, row.UnhealthyAt, r.events())
	}
	r.changes = nil
	if err := r.RegisterAgain("vmx0"); !errors.Is(err, cache.ErrUnknown) || len(r.changes) > 0 {
		t.Errorf("one that nobody knows: %v, told %v", err, r.events())
	}
}
