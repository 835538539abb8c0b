package removal

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
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

// world is a remover with a cloud, storage and a group, and everything that it says.
type world struct {
	*Remover
	t         *testing.T
	ctx       context.Context
	cloud     *drivertest.Cloud
	objects   *memory.Store
	instances *instances.Store
	rows      *cache.Cache
	cfg       *effective.Config
	logs      bytes.Buffer // read where nothing runs

	mu         sync.Mutex
	said       []string // by class
	statuses   []string
	held       bool
	recovering bool
	drains     bool
	creating   chan struct{} // closed when no create is under way; nil: none is
	chosen     bool
}

// inWorld runs a test on fake time.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := config.Load("test.jsonc", []byte(`{
			"server": {
				"cluster_id": "c1", "shard": "s1", "drain_timeout": "10m",
				"provider": {"kind": "local", "zone": "z1"}, "secrets": {"provider": "object-storage"}, "subnet_pools": {"p": ["net-1"]},
			},
			"templates": {"plain": {"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "userdata": {"content": "x"}}},
			"groups": {"default": {"web": {"template": "plain", "size": 10}}},
		}`), config.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, cloud: drivertest.New(drivertest.Options{}), objects: memory.New(memory.Options{}), rows: rows, cfg: cfg}
		ctx, end := context.WithCancel(t.Context())
		w.ctx = lease.Always(ctx, 1)
		var under sync.WaitGroup
		log := slog.New(slog.NewTextHandler(&w.logs, nil))
		over := func(error) bool { return ctx.Err() != nil }
		w.instances = instances.New(instances.Options{
			Objects: w.objects, Cache: rows, Shard: "s1", Term: 1, Writes: objectstore.RetryPolicy{Permit: lease.Check},
			Now: time.Now, Log: log, Changed: func(instances.Change) {}, Unreadable: func(context.Context, string, error) {}, Over: over,
		})
		w.Remover = New(w.ctx, Options{
			Instances: w.instances, Cache: rows, Groups: w, Liveness: w,
			Provider: provider.New(w.cloud, provider.Options{Timeout: time.Minute, Now: time.Now}),
			Group: func(id fleet.GroupID) fleet.Group {
				return fleet.Group{ID: id, Size: 10, DrainTimeout: 10 * time.Minute}
			},
			DrainCoordinated: func(string) bool { return w.drains }, StillChosen: func(fleet.GroupID, identity.ID) bool { return w.chosen },
			DeletesBlocked: func(fleet.GroupID) bool { w.mu.Lock(); defer w.mu.Unlock(); return w.held },
			Recovering:     func() bool { return w.recovering }, WaitForCreate: w.waitForCreate,
			Lag: w.cloud.Lag, List: func() {}, Again: func(fleet.GroupID, time.Duration) {}, Deleted: func(time.Duration) {},
			Announce: func(_ identity.ID, status string) { w.note(&w.statuses, status) },
			Failed:   func(_ fleet.GroupID, _ identity.ID, class, _ string) { w.note(&w.said, class) },
			Go:       under.Go, Over: over, Now: time.Now, Log: log,
		})
		test(t, w)
		end()
		under.Wait()
		_ = rows.Close()
	})
}

// note adds a text. Whoever is called may ask for budgets: it is not called under their locks.
func (w *world) note(to *[]string, text string) {
	w.Budget(web, nil, time.Now())
	w.mu.Lock()
	defer w.mu.Unlock()
	*to = append(*to, text)
}

// heard are the texts that were added.
func (w *world) heard(texts *[]string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(*texts)
}

func (w *world) waitForCreate(ctx context.Context, _ identity.ID) error {
	if w.creating == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.creating:
		return nil
	}
}

// Config implements [Groups].
func (w *world) Config() *effective.Config { return w.cfg }

// Find implements [Groups].
func (w *world) Find(id fleet.GroupID) (*effective.Group, bool) {
	return w.cfg.Group(&groupfile.File{}, document.GroupKey{Tenant: id.Tenant, Group: id.Name})
}

// Heard implements [Liveness].
func (w *world) Heard(ins []fleet.Instance) []fleet.Instance { return ins }

// running adds an instance with a machine whose agent has registered.
func (w *world) running(change func(*layout.InstanceRecord)) identity.ID {
	w.t.Helper()
	id, err := identity.NewID("vmx")
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := w.cloud.Create(w.ctx, driver.CreateRequest{InstanceID: id, Owner: owner, Tenant: "default", Group: "web", Kind: "vmx", CreatedAt: time.Now()})
	if err != nil {
		w.t.Fatal(err)
	}
	rec := layout.InstanceRecord{
		ID: id, Tenant: "default", ClusterID: "c1", Shard: "s1", Group: "web", Template: "plain", Kind: "vmx",
		ProviderID: m.ProviderID, Status: layout.StatusRegistered, CreatedAt: layout.At(time.Now()), RegisteredAt: layout.At(time.Now()),
	}
	if change != nil {
		change(&rec)
	}
	if err := w.instances.Create(w.ctx, rec); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.instances.Note(id, func(in *cache.Instance) error { in.Power, in.ProviderSeenAt = fleet.Up, time.Now(); return nil }); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// end condemns an instance for a reason, and deletes it.
func (w *world) end(id identity.ID) {
	w.t.Helper()
	if err := w.Condemn(w.ctx, fleet.Condemn{ID: id, Reason: fleet.ReasonUnhealthy}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Delete(fleet.Delete{ID: id}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) deletes() int { return w.cloud.Count(drivertest.OpDelete) }

// stored is the record of an instance as it stands in storage.
func (w *world) stored(id identity.ID) (layout.InstanceRecord, bool) {
	rec, err := w.instances.Fetch(w.t.Context(), "default", id)
	return rec, err == nil
}

func (w *world) stateOf(id identity.ID) fleet.State {
	row, _ := w.rows.Instance(id)
	return row.State
}

// pass lets time pass, and everything that it causes happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
