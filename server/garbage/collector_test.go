package garbage

import (
	"bytes"
	"context"

	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/provider"
)

var owner = driver.Owner{Cluster: "c1", Shard: "s1"}

// world is a collector that runs, with a cloud and storage, and what it tells of instances.
type world struct {
	*Collector
	t         *testing.T
	ctx       context.Context
	cloud     *drivertest.Cloud
	objects   objectstore.Store
	instances *instances.Store
	elsewhere *instances.Store // of a leader that the collector's knows nothing of
	rows      *cache.Cache
	logs      bytes.Buffer // read where nothing runs

	mu     sync.Mutex
	paused bool
	absent int
	gone   map[identity.ID]bool
	seen   map[string]int // by provider id
	goOn   int
	asked  []error // whether they mean that the term is over
}

// inWorld runs a test on fake time. Machines are listed every minute.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := config.Load("test.jsonc", []byte(`{
			"server": {
				"cluster_id": "c1", "shard": "s1", "provider": {"kind": "local", "zone": "z1"},
				"secrets": {"provider": "object-storage"}, "garbage_collection": {"interval": "1m"}, "subnet_pools": {"p": ["net-1"]},
			},
		}`), config.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rows, others := openCache(t), openCache(t)
		w := &world{t: t, cloud: drivertest.New(drivertest.Options{}), rows: rows, gone: map[identity.ID]bool{}, seen: map[string]int{}, objects: memory.New(memory.Options{})}
		ctx, end := context.WithCancel(t.Context())
		w.ctx = lease.Always(ctx, 1)
		var under sync.WaitGroup
		log := slog.New(slog.NewTextHandler(&w.logs, nil))
		over := func(err error) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, err)
			return ctx.Err() != nil
		}
		store := func(rows *cache.Cache) *instances.Store {
			return instances.New(instances.Options{
				Objects: w.objects, Cache: rows, Shard: "s1", Term: 1, Writes: objectstore.RetryPolicy{Permit: lease.Check},
				Now: time.Now, Log: log, Changed: func(instances.Change) {}, Unreadable: func(context.Context, string, error) {}, Over: over,
			})
		}
		w.instances, w.elsewhere = store(rows), store(others)
		w.Collector = New(Options{
			Owner: owner, Instances: w.instances, Cache: rows, Config: func() *effective.Config { return cfg }, Liveness: w,
			Provider: provider.New(w.cloud, provider.Options{Timeout: time.Minute, Now: time.Now}), Metrics: NewMetrics(nil),
			Paused: func(fleet.GroupID) bool { w.mu.Lock(); defer w.mu.Unlock(); return w.paused }, Lag: w.cloud.Lag,
			DeletesGoOn: func() { w.Alarm(); w.goOn++ }, Go: func(do func(context.Context)) { under.Go(func() { do(w.ctx) }) },
			Over: over, Now: time.Now, Log: log,
		})
		under.Go(func() { w.Run(w.ctx) })
		test(t, w)
		end()
		under.Wait()
		_, _ = rows.Close(), others.Close()
	})
}

// openCache opens an empty one that is lost with the test.
func openCache(t *testing.T) *cache.Cache {
	t.Helper()
	rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Observe implements [Liveness].
func (w *world) Observe(m driver.Machine, _ time.Time) bool {
	w.Alarm() // nobody is told under the collector's lock
	w.mu.Lock()
	w.seen[m.ProviderID]++
	w.mu.Unlock()
	_, err := w.instances.Note(m.InstanceID, func(in *cache.Instance) error { in.Power = fleet.Up; return nil })
	return err == nil
}

// Missing implements [Liveness].
func (w *world) Missing(identity.ID, fleet.Source, time.Time) {
	w.Alarm()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.absent++
}

// Gone implements [Liveness].
func (w *world) Gone(id identity.ID) {
	w.mu.Lock()
	w.gone[id] = true
	w.mu.Unlock()
	_, _ = w.instances.Note(id, func(in *cache.Instance) error { in.State, in.Power = fleet.Unhealthy, fleet.Gone; return nil })
}

// Ask implements [Liveness].
func (w *world) Ask(_ context.Context, id identity.ID) {
	if _, there := w.cloud.Machine(id); !there {
		w.Gone(id)
	}
}

// LastCreate implements [Liveness].
func (w *world) LastCreate(in cache.Instance) time.Time { return in.Created }

// machine makes one for an id, which need not have a record.
func (w *world) machine() identity.ID { return w.machineOf("default") }

// machineOf makes one of a tenant.
func (w *world) machineOf(tenant string) identity.ID {
	w.t.Helper()
	id, err := identity.NewID("vmx")
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.cloud.Create(w.ctx, driver.CreateRequest{InstanceID: id, Owner: owner, Tenant: tenant, Group: "web", Kind: "vmx", CreatedAt: time.Now()}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// record writes the record of an instance and the row.
func (w *world) record(id identity.ID, deleted bool) {
	w.t.Helper()
	if err := w.instances.Create(w.ctx, w.recordOf(id, "default")); err != nil {
		w.t.Fatal(err)
	}
	if !deleted {
		return
	}
	if _, err := w.instances.Change(w.ctx, id, func(rec *layout.InstanceRecord) error {
		rec.Status, rec.Deletion = layout.StatusDeleting, &layout.Deletion{Reason: string(fleet.ReasonRequested), RequestedAt: layout.At(time.Now())}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	w.instances.End(id, fleet.EventGone)
}

// recordOf is the record of the machine with an id.
func (w *world) recordOf(id identity.ID, tenant string) layout.InstanceRecord {
	vm, _ := w.cloud.Machine(id)
	return layout.InstanceRecord{
		ID: id, Tenant: tenant, ClusterID: "c1", Shard: "s1", Group: "web", Template: "plain", Kind: "vmx",
		ProviderID: vm.ProviderID, Status: layout.StatusRegistered, CreatedAt: layout.At(time.Now()), RegisteredAt: layout.At(time.Now()),
	}
}

// said is how many lines of the log have a text.
func (w *world) said(text string) int { return strings.Count(w.logs.String(), text) }

// pass lets listings be made, and everything that they cause happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestF7_WhatAnEndedInstanceLeftIsDeleted, but not while its group is paused.
func TestF7_WhatAnEndedInstanceLeftIsDeleted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.machine()
		w.record(id, true)
		w.mu.Lock()
		w.paused = true
		w.mu.Unlock()
		pass(10 * time.Minute)
		if n := w.cloud.Count(drivertest.OpDelete); n != 0 {
			t.Errorf("%d deletes while the group is paused", n)
		}
		w.mu.Lock()
		w.paused = false
		w.mu.Unlock()
		pass(10 * time.Minute)
		if n, orphans := w.cloud.Count(drivertest.OpDelete), testutil.ToFloat64(w.opts.Metrics.orphans); n != 1 || orphans != 1 {
			t.Errorf("%d deletes and %v orphans, want one", n, orphans)
		}
		if n := w.said("leftover machine not deleted"); n != 0 {
			t.Errorf("%d lines say that it is not deleted", n)
		}
	})
}

// TestF16_AMachineWithoutARowIsTakenIn: storage has its record, under a tenant that the
// configuration does not name any more, and only a tag says which.
func TestF16_AMachineWithoutARowIsTakenIn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.machineOf("gone")
		if err := w.elsewhere.Create(w.ctx, w.recordOf(id, "gone")); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
		if in, ok := w.rows.Instance(id); !ok || in.Power != fleet.Up {
			t.Errorf("it is known: %t, with power %v", ok, in.Power)
		}
		if held := w.Unmanaged(); len(held) != 0 {
			t.Errorf("unmanaged: %v", held)
		}
	})
}

// TestWhatAListingShowsIsPassedOn, and a machine that shares the id of another instance's is not
// taken for it.
func TestWhatAListingShowsIsPassedOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.machine()
		w.record(id, false)
		vm, _ := w.cloud.Machine(id)
		pass(5 * time.Minute)
		if n := w.seen[vm.ProviderID]; n < 4 {
			t.Errorf("passed on %d times, want once a minute", n)
		}
		double := w.cloud.Plant(owner, id.String())
		pass(5 * time.Minute)
		if n := w.seen[double]; n != 0 {
			t.Errorf("its double was passed on %d times", n)
		}
	})
}

// TestS8_F10_AMachineWithoutARecordIsUnmanaged: it is reported and never deleted.
func TestS8_F10_AMachineWithoutARecordIsUnmanaged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id, bad := w.machine(), w.machine()
		odd := w.cloud.Plant(owner, "web-17")
		w.Unreadable(bad)
		pass(time.Hour)
		began := time.Now()
		causes := map[string]fleet.Cause{}
		for _, h := range w.Unmanaged() {
			causes[h.VM.ProviderID] = h.Cause
			if h.Since.After(began.Add(-50 * time.Minute)) {
				t.Errorf("%s is held since %v", h.VM.ProviderID, h.Since)
			}
		}
		first, _ := w.cloud.Machine(id)
		second, _ := w.cloud.Machine(bad)
		if len(causes) != 3 || causes[odd] != fleet.CauseBadID || causes[second.ProviderID] != fleet.CauseUnreadable || causes[first.ProviderID] != fleet.CauseNoRecord {
			t.Errorf("held for %v", causes)
		}
		if n := w.cloud.Count(drivertest.OpDelete); n != 0 {
			t.Errorf("%d deletes", n)
		}
		if held, ok := w.Find(odd); !ok || held.Machine.ProviderID != odd {
			t.Errorf("found is %t: %+v", ok, held)
		}
		if n := w.said("machine unmanaged: it is never deleted by us"); n != 3 {
			t.Errorf("%d lines about them in an hour, want one each", n)
		}
		w.Release(odd)
		if _, ok := w.Find(odd); ok || len(w.Unmanaged()) != 2 {
			t.Error("it is unmanaged after its adoption")
		}
	})
}

// TestS8_AListingThatLacksTooMuchHoldsDeletes until each of the machines is confirmed, and
// recovers when they are replaced.
func TestS8_AListingThatLacksTooMuchHoldsDeletes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var ids []identity.ID
		for range 25 {
			id := w.machine()
			w.record(id, false)
			ids = append(ids, id)
		}
		pass(2 * time.Minute)
		if w.Alarm() != "" || w.DeletesBlocked(fleet.GroupID{}) || w.Recovering() {
			t.Fatalf("alarm %q before anything is lost", w.Alarm())
		}
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fault{Empty: true}))
		pass(time.Minute)
		if w.Alarm() == "" || !w.DeletesBlocked(fleet.GroupID{}) {
			t.Error("an empty listing is believed")
		}
		w.cloud.SetFaults(nil)
		w.Soon()
		pass(2 * time.Second)
		if w.Alarm() != "" || w.goOn != 1 || len(w.gone) != 0 {
			t.Errorf("alarm %q, told %d times, gone %v after a whole listing", w.Alarm(), w.goOn, w.gone)
		}
		for _, id := range ids[:20] {
			w.cloud.Remove(id)
		}
		pass(time.Minute)
		if !w.Recovering() || w.Alarm() == "" {
			t.Errorf("recovering is %t with alarm %q", w.Recovering(), w.Alarm())
		}
		pass(10 * time.Minute)
		if w.Alarm() != "" || !w.Recovering() || len(w.gone) != 20 {
			t.Errorf("alarm %q, recovering is %t, gone are %d", w.Alarm(), w.Recovering(), len(w.gone))
		}
	})
}

// TestF22_AListingThatFailedProvesNothing.
func TestF22_AListingThatFailedProvesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.machine()
		w.record(id, false)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fail(driver.Transient)))
		w.cloud.Remove(id)
		pass(time.Hour)
		if w.absent != 0 || len(w.gone) != 0 {
			t.Errorf("missing %d times, gone %v", w.absent, w.gone)
		}
		if !slices.ContainsFunc(w.asked, func(err error) bool { return driver.ClassOf(err) == driver.Transient }) {
			t.Errorf("nobody asked whether the term is over, but about %v", w.asked)
		}
		w.cloud.SetFaults(nil)
		pass(10 * time.Minute)
		if w.absent == 0 {
			t.Error("it is not missed")
		}
	})
}

// TestS21_ListingsKeepAPace however often one is asked for.
func TestS21_ListingsKeepAPace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 300 {
			w.Soon()
			pass(100 * time.Millisecond)
		}
		if n := w.cloud.Count(drivertest.OpList); n < 25 || n > 31 {
			t.Error(strconv.Itoa(n) + " listings in half a minute, want one a second")
		}
	})
}
