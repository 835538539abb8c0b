package instances

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

const testShard = "s1"

// archive is the storage of a shard without a life of its own: records, their
// snapshots, and leaders that take over and do nothing else.
type archive struct {
	t      testing.TB
	store  *memory.Store
	ids    identity.Generator
	number uint64
	calls  map[memory.Op]int // since the last take-over began
}

func newArchive(t testing.TB) *archive {
	return &archive{t: t, store: memory.New(memory.Options{}), calls: map[memory.Op]int{}}
}

// leader is the store of one leader, and its leadership.
type leader struct {
	*Store
	ctx context.Context
	end context.CancelFunc

	mu         sync.Mutex
	changes    []Change
	unreadable []string
}

// term is a leader that knows nothing yet.
func (a *archive) term() *leader {
	a.t.Helper()
	r := a.begin(a.store)
	a.t.Cleanup(r.end)
	return r
}

func (a *archive) begin(objects objectstore.Store) *leader {
	a.t.Helper()
	c, err := cache.Open(a.t.Context(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	a.number++
	r := &leader{}
	ctx, cancel := context.WithCancel(a.t.Context())
	r.ctx, r.end = lease.Always(ctx, a.number), func() { cancel(); _ = c.Close() }
	r.Store = New(Options{
		Objects: objects, Cache: c, Shard: testShard, Term: a.number, Writes: objectstore.RetryPolicy{Permit: lease.Check},
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Changed: func(c Change) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.changes = append(r.changes, c)
		},
		Unreadable: func(_ context.Context, key string, _ error) { r.unreadable = append(r.unreadable, key) },
		Over:       func(err error) bool { return errors.Is(err, lease.ErrSuperseded) },
	})
	return r
}

// seeded is a leader that has read the records of the shard.
func (a *archive) seeded() *leader {
	a.t.Helper()
	r := a.term()
	a.seed(r)
	return r
}

// seed has a leader read the records of the shard.
func (a *archive) seed(r *leader) {
	a.t.Helper()
	clear(a.calls)
	a.store.SetFaults(func(c memory.Call) memory.Fault {
		a.calls[c.Op]++
		return memory.Fault{}
	})
	defer a.store.SetFaults(nil)
	if err := r.Load(r.ctx); err != nil {
		a.t.Fatal(err)
	}
}

func (a *archive) requests() int {
	n := 0
	for _, calls := range a.calls {
		n += calls
	}
	return n
}

// record makes a record as any leader writes it.
func (a *archive) record(r *leader) identity.ID {
	a.t.Helper()
	id, err := a.ids.NewID("vmx")
	if err != nil {
		a.t.Fatal(err)
	}
	rec := layout.InstanceRecord{
		ID: id, Tenant: "default", ClusterID: "test", Shard: testShard, Group: "web", Template: "plain", Kind: "vmx",
		InstanceType: "small", Arch: "amd64", SubnetPool: "p", SubnetID: "net-1", InfraHash: "sha256:" + strings.Repeat("0", 64),
		Provider: "local", ProviderID: "vm-" + string(id), Hostname: "host", IPv4: "10.0.0.1",
		Status: layout.StatusRegistered, CreatedAt: layout.At(time.Now()), RegisteredAt: layout.At(time.Now()),
		NonceSHA256: strings.Repeat("0", 64), PublicKeyPEM: strings.Repeat("x", 113),
		Certificate: layout.Certificate{Serial: strings.Repeat("0", 32), NotBefore: layout.At(time.Now()), NotAfter: layout.At(time.Now())},
	}
	if err := r.Write(r.ctx, rec); err != nil {
		a.t.Fatal(err)
	}
	return id
}

func (a *archive) fill(r *leader, n int) []identity.ID {
	ids := make([]identity.ID, n)
	for i := range ids {
		ids[i] = a.record(r)
	}
	return ids
}

func (a *archive) snapshot(r *leader) {
	a.t.Helper()
	if _, err := r.snapshots.write(r.ctx); err != nil {
		a.t.Fatal(err)
	}
}

// generations are the numbers of the snapshots in storage.
func (a *archive) generations() []uint64 {
	a.t.Helper()
	parts, err := a.term().snapshots.list(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	found := map[uint64]bool{}
	for _, p := range parts {
		found[p.generation] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// known is what a leader knows of the shard, with the etags.
func known(r *leader) []string {
	var all []string
	for _, id := range r.records.ids() {
		rec, etag, _ := r.records.stored(id)
		data, err := rec.Encode()
		row, ok := r.cache.Instance(id)
		overrides := row.Overrides
		row.Revision, row.Overrides = 0, nil
		all = append(all, fmt.Sprintf("%s %s %v\n%+v %s %t", etag, data, err, row, overrides, ok))
	}
	return all
}

// withoutSnapshots hides the snapshots from a take-over.
type withoutSnapshots struct{ objectstore.Store }

func (s withoutSnapshots) List(ctx context.Context, prefix, token string, limit int) (objectstore.Page, error) {
	if strings.HasPrefix(prefix, "snapshot/") {
		return objectstore.Page{}, nil
	}
	return s.Store.List(ctx, prefix, token, limit)
}

// truth is what a leader knows that reads every record.
func (a *archive) truth() []string {
	a.t.Helper()
	r := a.begin(withoutSnapshots{a.store})
	a.t.Cleanup(r.end)
	if err := r.Load(r.ctx); err != nil {
		a.t.Fatal(err)
	}
	return known(r)
}

func (a *archive) sameAsTruth(r *leader) {
	a.t.Helper()
	if got, want := known(r), a.truth(); !slices.Equal(got, want) {
		a.t.Errorf("S16: with a snapshot %d records are known, without %d, and they differ", len(got), len(want))
	}
}

func TestF17_TakeOverOfManyRecordsIsFewRequests(t *testing.T) {
	const n, changed = objectstore.MaxPage + 100, 40
	a := newArchive(t)
	r := a.term()
	ids := a.fill(r, n)
	a.snapshot(r)
	for _, id := range ids[:changed] {
		if _, err := r.Change(r.ctx, id, func(rec *layout.InstanceRecord) error { rec.Hostname = "new"; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	next := a.seeded()
	// A request for each thousand listed, begun ones too, two for the snapshot, one for each change.
	if want := n/objectstore.MaxPage + 1 + 2 + changed; a.requests() != want {
		t.Errorf("%d requests, want %d: %v", a.requests(), want, a.calls)
	}
	a.sameAsTruth(next)
}

func TestSnapshotHasPartsWhereItIsLarge(t *testing.T) {
	a := newArchive(t)
	r := a.term()
	r.snapshots.room /= 256
	large := []byte(`{"vars":{"x":"` + strings.Repeat("y", r.snapshots.room/8) + `"}}`)
	for _, id := range a.fill(r, 9) {
		if _, err := r.Change(r.ctx, id, func(rec *layout.InstanceRecord) error { rec.Overrides = large; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	a.snapshot(r)
	next := a.seeded()
	if got := a.calls[memory.OpGet]; got != 2 { // of seven records, and of two
		t.Errorf("%d reads, want one for each of 2 parts", got)
	}
	a.sameAsTruth(next)
}

// Whatever happens to records and snapshots, a take-over knows what it would
// know without snapshots.
func TestS16_TakeOverWithASnapshotIsOneWithout(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := newArchive(t)
		r := a.term()
		ids := a.fill(r, 5)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			one := func() identity.ID { return rapid.SampledFrom(ids).Draw(rt, "id") }
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0:
				ids = append(ids, a.record(r))
			case 1:
				_, _ = r.Change(r.ctx, one(), func(rec *layout.InstanceRecord) error { rec.Hostname += "x"; return nil })
			case 2:
				_ = r.Remove(r.ctx, one())
			case 3:
				a.snapshot(r)
			case 4:
				r = a.seeded()
			case 5:
				a.damage(rapid.IntRange(0, 3).Draw(rt, "damage"), rapid.IntRange(0, 1<<16).Draw(rt, "at"))
			case 6:
				_ = a.halfSnapshot(r)
			}
		}
		a.sameAsTruth(a.seeded())
		if n := len(a.generations()); n > 30 {
			rt.Errorf("%d generations", n)
		}
	})
}

// damage does something to a part of a snapshot, if there is one.
func (a *archive) damage(how, at int) {
	a.t.Helper()
	parts, err := a.term().snapshots.list(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	if len(parts) == 0 {
		return
	}
	p := parts[at%len(parts)]
	obj, err := a.store.Get(a.t.Context(), p.key)
	if err != nil {
		a.t.Fatal(err)
	}
	data := obj.Data
	if len(data) == 0 {
		how = 0 // there is nothing more to take from it
	}
	switch how {
	case 0:
		err = a.store.DeleteIfMatch(a.t.Context(), p.key, obj.ETag)
	case 1:
		_, err = a.store.PutIfMatch(a.t.Context(), p.key, data[:at%len(data)], obj.ETag)
	case 2:
		data[at%len(data)] ^= 1
		_, err = a.store.PutIfMatch(a.t.Context(), p.key, data, obj.ETag)
	case 3:
		newer := layout.PackSnapshot(testShard, 1<<40, p.generation+1, p.part).Close(true)
		_, err = a.store.PutIfMatch(a.t.Context(), p.key, newer, obj.ETag)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// halfSnapshot is what a leader leaves that ends while it writes.
func (a *archive) halfSnapshot(r *leader) error {
	stored, err := r.snapshots.list(r.ctx)
	if err != nil {
		return err
	}
	generation := uint64(1)
	if n := len(stored); n > 0 {
		generation = stored[n-1].generation + 1
	}
	packer := layout.PackSnapshot(testShard, r.opts.Term, generation, 1)
	for _, id := range r.records.ids()[:len(r.records.ids())/2] {
		rec, etag, _ := r.records.stored(id)
		data, err := rec.Encode()
		if err != nil {
			return err
		}
		packer.Add(data, etag)
	}
	return r.snapshots.put(r.ctx, generation, 1, packer.Close(false))
}

func TestF10_DamagedSnapshotGivesWayToTheOneBefore(t *testing.T) {
	for how, name := range []string{"deleted", "truncated", "flipped", "of another key"} {
		t.Run(name, func(t *testing.T) {
			a := newArchive(t)
			r := a.term()
			a.fill(r, 50)
			a.snapshot(r)
			a.snapshot(r)
			a.damage(how, 41) // the second: of two parts the odd one
			next := a.seeded()
			if got := a.calls[memory.OpGet]; got > 2 {
				t.Errorf("%d reads, want those of two snapshots at most", got)
			}
			a.sameAsTruth(next)
			a.damage(how, 40)
			a.sameAsTruth(a.seeded())
		})
	}
}

func TestSnapshotsOfOldAreRemoved(t *testing.T) {
	a := newArchive(t)
	r := a.term()
	a.fill(r, 10)
	for range 3 {
		a.snapshot(r)
	}
	if got := a.generations(); !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("generations %v, want the newest and the one before", got)
	}
	if err := a.halfSnapshot(r); err != nil { // generation 4
		t.Fatal(err)
	}
	next := a.seeded()
	a.snapshot(next)
	if got := a.generations(); !slices.Equal(got, []uint64{3, 5}) {
		t.Errorf("generations %v, want the newest and the whole one before", got)
	}
}

func TestS2_SnapshotNeedsTheLease(t *testing.T) {
	a := newArchive(t)
	r := a.term()
	a.fill(r, 10)
	r.end()
	ctx, lost := context.WithCancel(t.Context())
	ctx = lease.Always(ctx, a.number)
	lost()
	if _, err := r.snapshots.write(context.WithoutCancel(ctx)); err == nil {
		t.Error("written after the lease")
	}
	if got := a.generations(); len(got) > 0 {
		t.Errorf("generations %v", got)
	}
}

// A snapshot that storage does not hand out costs time, and not the take-over.
func TestTakeOverDoesWithoutASnapshotThatIsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []error{objectstore.ErrUnavailable, fmt.Errorf("forbidden")} {
			a := newArchive(t)
			r := a.term()
			a.fill(r, 10)
			a.snapshot(r)
			a.store.SetFaults(func(c memory.Call) memory.Fault {
				if c.Op == memory.OpGet && strings.HasPrefix(c.Key, "snapshot/") {
					return memory.Fault{Before: fault}
				}
				return memory.Fault{}
			})
			next := a.term()
			for next.Load(next.ctx) != nil {
				if next.snapshots.fails >= snapshotReads {
					t.Fatal("it goes on trying to read the snapshot")
				}
			}
			a.store.SetFaults(nil)
			a.sameAsTruth(next)
		}
	})
}

// BenchmarkTakeOver reads a shard of 100,000 from storage, and for comparison
// does the least that this can be: decode the same rows and insert them.
func BenchmarkTakeOver(b *testing.B) {
	const n = 100_000
	a := newArchive(b)
	r := a.term()
	a.fill(r, n)
	a.snapshot(r)
	var parts [][]byte
	var keys []string
	for info := range objectstore.ListAll(b.Context(), a.store, layout.SnapshotPrefix(testShard)) {
		obj, err := a.store.Get(b.Context(), info.Key)
		if err != nil {
			b.Fatal(err)
		}
		parts, keys = append(parts, obj.Data), append(keys, info.Key)
	}
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			next := a.begin(a.store)
			for i, data := range parts {
				part, err := layout.DecodeSnapshotPart(keys[i], data)
				if err != nil {
					b.Fatal(err)
				}
				for _, rec := range part.Records {
					if err := next.cache.Insert(RowOf(rec.Record)); err != nil {
						b.Fatal(err)
					}
				}
			}
			next.end()
		}
	})
	b.Run("seed", func(b *testing.B) {
		for b.Loop() {
			next := a.begin(a.store)
			if a.seed(next); next.cache.Len() != n {
				b.Fatalf("%d instances", next.cache.Len())
			}
			next.end()
		}
		b.ReportMetric(float64(a.requests()), "requests")
	})
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			a.snapshot(r)
		}
	})
}
