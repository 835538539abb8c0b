package shard

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
)

const (
	rivalLease  = 15 * time.Second
	rivalMargin = 3 * time.Second
)

// rivals are servers that campaign for the shard of a world with real electors.
// Whatever they do, the terms of what storage accepts must not fall (S1), and the
// cloud must hear nothing from one whose lease has run out (S2).
type rivals struct {
	*world
	start time.Time
	all   []*rival

	mu      sync.Mutex
	highest uint64 // the highest term in what storage has accepted for the shard
}

// rival is one server process, which may be stopped and continued.
type rival struct {
	id     string
	of     *rivals
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	stopped time.Time     // zero: it runs
	again   chan struct{} // closed when it is continued
	renewed time.Time     // when its last accepted write of the lock was sent
}

// amongRivals runs a test with as many servers as names.
func amongRivals(t *testing.T, opts worldOptions, names []string, test func(*testing.T, *rivals)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rs := &rivals{world: newWorld(t, opts), start: time.Now()}
		rs.store = memory.New(memory.Options{OnWrite: rs.accepted})
		_, rs.keys = testKeys(t, rs.ctx, rs.store)
		rs.life, rs.drained = &life{kill: func() {}}, func() error { return nil }
		rs.world.stopped = make(chan error, 1)
		rs.world.stopped <- nil
		defer rs.close()
		for _, name := range names {
			rs.join(name)
			rs.serving()
		}
		defer func() {
			for _, r := range rs.all {
				r.cancel()
				<-r.done
			}
		}()
		test(t, rs)
	})
}

// accepted checks the term of every document of the shard.
func (rs *rivals) accepted(write memory.Write) {
	mine := write.Key == layout.LeaderKey(testShard) || write.Key == layout.GroupsKey(testShard) ||
		strings.HasPrefix(write.Key, layout.InstancePrefix(testShard))
	if !mine || write.Deleted {
		return
	}
	var doc struct{ Term uint64 }
	if err := json.Unmarshal(write.Data, &doc); err != nil {
		rs.t.Errorf("%s: %v", write.Key, err)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if doc.Term < rs.highest {
		rs.t.Errorf("S1: %s was written in term %d after a write of term %d", write.Key, doc.Term, rs.highest)
	}
	rs.highest = max(rs.highest, doc.Term)
}

// join starts a server.
func (rs *rivals) join(id string) {
	rs.t.Helper()
	ctx, cancel := context.WithCancel(rs.ctx)
	r := &rival{id: id, of: rs, cancel: cancel, done: make(chan struct{})}
	c, err := cache.Open(ctx, os.DevNull+"/none", cache.Options{})
	if err != nil {
		rs.t.Fatal(err)
	}
	s := New(Options{
		Cluster: testCluster, Shard: testShard, Version: "test",
		Store: rivalStore{rs.store, r}, Driver: rivalDriver{rs.cloud, r}, Cache: c, NewID: rs.ids.NewID,
		Keys:      func() *pki.Keys { return rs.keys },
		Addresses: func() driver.Addresses { return driver.Addresses{} },
		Log:       slog.New(slog.NewTextHandler(&rs.logs, nil)).With("server", id),
	}, rs.static)
	elector, err := lease.New(rivalStore{rs.store, r}, layout.LeaderKey(testShard), lease.Options{
		ID: id, LeaderAddr: id + ":8991", Lease: rivalLease, Elapsed: r.elapsed, Log: slog.New(slog.DiscardHandler),
		NothingStored: func(context.Context) (bool, error) { return true, nil },
		OnFollow:      func(lease.Document) { s.EndParked() },
		OnAcquire: func(ctx context.Context, term uint64) {
			rs.lead(s)
			if err := s.Lead(ctx, term); err != nil {
				rs.t.Logf("%s: %v", id, err)
			}
		},
	})
	if err != nil {
		rs.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		if err := elector.Run(ctx); err != nil {
			rs.t.Errorf("%s: %v", id, err)
		}
		_ = c.Close() // it lives in memory
	}()
	rs.all = append(rs.all, r)
}

// lead tells agents and callers where to go.
func (rs *rivals) lead(s *Shard) {
	rs.world.mu.Lock()
	defer rs.world.mu.Unlock()
	rs.current = s
}

// stop stops the process as SIGSTOP does: its clocks stand still for it, and none
// of its calls leaves or comes back until it is continued.
func (r *rival) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped, r.again = time.Now(), make(chan struct{})
}

func (r *rival) continues() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = time.Time{}
	close(r.again)
}

// elapsed is the clock of its lease.
func (r *rival) elapsed() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped.IsZero() {
		return r.stopped.Sub(r.of.start)
	}
	return time.Since(r.of.start)
}

// runs waits while the process is stopped.
func (r *rival) runs() {
	for {
		r.mu.Lock()
		stopped, again := r.stopped, r.again
		r.mu.Unlock()
		if stopped.IsZero() {
			return
		}
		<-again
	}
}

// makes is one call of a process that may be stopped on its way there and back.
func makes[T any](r *rival, call func() (T, error)) (T, error) {
	r.runs()
	v, err := call()
	r.runs()
	return v, err
}

// rivalStore is storage as one server reaches it.
type rivalStore struct {
	objectstore.Store
	by *rival
}

func (s rivalStore) Get(ctx context.Context, key string) (objectstore.Object, error) {
	return makes(s.by, func() (objectstore.Object, error) { return s.Store.Get(ctx, key) })
}

func (s rivalStore) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	return makes(s.by, func() (string, error) {
		return s.renewing(key, func() (string, error) { return s.Store.PutIfAbsent(ctx, key, data) })
	})
}

func (s rivalStore) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	return makes(s.by, func() (string, error) {
		return s.renewing(key, func() (string, error) { return s.Store.PutIfMatch(ctx, key, data, etag) })
	})
}

func (s rivalStore) DeleteIfMatch(ctx context.Context, key, etag string) error {
	_, err := makes(s.by, func() (struct{}, error) { return struct{}{}, s.Store.DeleteIfMatch(ctx, key, etag) })
	return err
}

// renewing notes when an accepted write of the lock was sent.
func (s rivalStore) renewing(key string, put func() (string, error)) (string, error) {
	sent := time.Now()
	etag, err := put()
	if err == nil && key == layout.LeaderKey(testShard) {
		s.by.mu.Lock()
		s.by.renewed = sent
		s.by.mu.Unlock()
	}
	return etag, err
}

// rivalDriver is the cloud as one server reaches it.
type rivalDriver struct {
	driver.Driver
	by *rival
}

func (d rivalDriver) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	return makes(d.by, func() (driver.Machine, error) {
		if ctx.Err() == nil { // else no request leaves
			d.proved(fmt.Sprintf("create of %s", req.InstanceID))
		}
		return d.Driver.Create(ctx, req)
	})
}

func (d rivalDriver) Delete(ctx context.Context, ref driver.Ref) error {
	_, err := makes(d.by, func() (struct{}, error) {
		if ctx.Err() == nil {
			d.proved(fmt.Sprintf("delete of %s", ref.InstanceID))
		}
		return struct{}{}, d.Driver.Delete(ctx, ref)
	})
	return err
}

// proved checks the age of the caller's lease.
func (d rivalDriver) proved(call string) {
	d.by.mu.Lock()
	age := time.Since(d.by.renewed)
	d.by.mu.Unlock()
	if age > rivalLease-rivalMargin {
		d.by.of.t.Errorf("S2: %s by %s, whose last renewal was sent %v ago", call, d.by.id, age)
	}
}

var slowCloud = drivertest.Options{Limits: driver.Limits{Calls: driver.Bucket{Rate: 1, Burst: 1}}}

// TestS1S2F6_LeaderStoppedAmidCreates: it wakes up after three leases with creates
// and writes on the way, and none of them has any effect.
func TestS1S2F6_LeaderStoppedAmidCreates(t *testing.T) {
	for _, after := range []time.Duration{0, 1500 * time.Millisecond, 3 * time.Second, 4900 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			amongRivals(t, worldOptions{Cloud: slowCloud}, []string{"a", "b"}, func(t *testing.T, rs *rivals) {
				rs.scale(web, 20)
				rs.settle(after)
				rs.all[0].stop()
				rs.settle(3 * rivalLease)
				rs.all[0].continues()
				rs.settle(5 * time.Minute)
				rs.converged(20)
				if made := rs.cloud.Created(); made != 20 {
					t.Errorf("%d machines were made, want 20", made)
				}
				if rs.highest < 2 {
					t.Errorf("term %d: nobody took over", rs.highest)
				}
			})
		})
	}
}

// TestF1_StorageIsAwayForTenLeases: no server acts meanwhile, and afterwards one
// leads, with the same machines.
func TestF1_StorageIsAwayForTenLeases(t *testing.T) {
	amongRivals(t, worldOptions{}, []string{"a", "b"}, func(t *testing.T, rs *rivals) {
		rs.scale(web, 5)
		rs.settle(time.Minute)
		rs.store.Down(true)
		rs.settle(rivalLease)
		victim := rs.vms(web)[0].InstanceID
		rs.cloud.Kill(victim) // somebody who acted would replace it
		rs.settle(10 * rivalLease)
		if made, ended := rs.cloud.Created(), rs.count(drivertest.OpDelete); made != 5 || ended > 0 {
			t.Errorf("without storage %d machines were made and %d deleted", made-5, ended)
		}
		rs.store.Down(false)
		rs.settle(10 * time.Minute)
		rs.converged(5)
		if made := rs.cloud.Created(); made != 6 {
			t.Errorf("%d machines were made, want the five and one replacement", made)
		}
	})
}

// TestF2_StorageAnswersLate: by 30 s, which is more than a lease. It is kept or lost,
// never half.
func TestF2_StorageAnswersLate(t *testing.T) {
	for name, fault := range map[string]memory.Fault{
		"before its effect": {Latency: 30 * time.Second},
		"after its effect":  {Linger: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			amongRivals(t, worldOptions{Cloud: slowCloud}, []string{"a", "b"}, func(t *testing.T, rs *rivals) {
				rs.scale(web, 20)
				rs.settle(5 * time.Second)
				rs.store.SetFaults(func(c memory.Call) memory.Fault {
					if c.Op == memory.OpGet && strings.HasPrefix(c.Key, layout.InstancePrefix(testShard)) {
						return memory.Fault{} // the cloud of the world looks at records too
					}
					return fault
				})
				rs.settle(5 * time.Minute)
				rs.store.SetFaults(nil)
				rs.settle(10 * time.Minute)
				rs.converged(20)
			})
		})
	}
}
