package provisioning

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

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
	"nstance.dev/server/pki"
	"nstance.dev/server/provider"
	"nstance.dev/server/traces"
)

var (
	web   = fleet.GroupID{Tenant: "default", Name: "web"}
	small = fleet.GroupID{Tenant: "default", Name: "small"}
)

// settings are what a test wants of its world; the zero value is a cloud that makes
// everything at once, and groups of ten machines without more.
type settings struct {
	server  string // members of the configuration's server, each with its comma
	tenants string // members of the configuration beside, each with its comma
	data    string // user data of the template; the nonce by default
	limits  document.Limits
	able    bool // the provider can be asked about subnets and images
	longest time.Duration
	prepare func(*drivertest.Cloud) // before anything is asked of it
}

// world is a launcher with a cloud, storage and groups, and everything that it says. It runs
// until the test ends.
type world struct {
	*Launcher
	t         *testing.T
	ctx       context.Context
	end       context.CancelFunc // the term
	cloud     *drivertest.Cloud
	objects   *memory.Store
	instances *instances.Store
	rows      *cache.Cache
	cfg       *effective.Config
	metrics   *Metrics

	mu        sync.Mutex
	sizes     map[fleet.GroupID]int
	paused    bool
	woken     []fleet.GroupID
	failures  []string
	condemned []fleet.Condemn
	fetch     func(ctx context.Context) ([]byte, error)
	unasked   []string // creates that the cloud saw without a record

	superseded bool // a later term was found, and its error looked at
}

// inWorld runs a test on fake time.
func inWorld(t *testing.T, s settings, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, objects: memory.New(memory.Options{}), cfg: configured(t, s), sizes: map[fleet.GroupID]int{}, metrics: NewMetrics(nil)}
		w.cloud = drivertest.New(drivertest.Options{OnCall: w.called})
		if s.prepare != nil {
			s.prepare(w.cloud)
		}
		rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.rows = rows
		ctx, end := context.WithCancel(t.Context())
		w.ctx, w.end = lease.Always(ctx, 1), end
		log := slog.New(slog.DiscardHandler)
		w.instances = instances.New(instances.Options{
			Objects: w.objects, Cache: rows, Shard: "s1", Term: 1, Writes: objectstore.RetryPolicy{Permit: lease.Check},
			Now: time.Now, Log: log, Changed: func(instances.Change) {}, Unreadable: func(context.Context, string, error) {}, Over: w.over,
		})
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		nonces, err := pki.NewNonceSigner([]ed25519.PrivateKey{key}, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		var drv driver.Driver = w.cloud
		if s.able {
			drv = struct {
				*drivertest.Cloud
				drivertest.Subnets
				drivertest.Images
			}{w.cloud, drivertest.Subnets{Of: w.cloud}, drivertest.Images{Of: w.cloud}}
		}
		var under sync.WaitGroup
		w.Launcher = New(Options{
			Owner: driver.Owner{Cluster: "c1", Shard: "s1"}, Instances: w.instances, Cache: rows, Groups: w, Liveness: w,
			Provider:  provider.New(drv, provider.Options{Limits: s.limits, Timeout: time.Minute, Now: time.Now}),
			Keys:      func() Keys { return Keys{Nonces: nonces, CA: []byte("the CA")} },
			Addresses: func() driver.Addresses { return driver.Addresses{} },
			Traces:    traces.New(noop.NewTracerProvider().Tracer("")), Metrics: w.metrics, Now: time.Now, Log: log,
			Jitter: func() float64 { return 0.5 }, FetchUserdata: func(ctx context.Context, _ string) ([]byte, error) { return w.fetch(ctx) },
			LongestCreate: func() time.Duration { return s.longest },
			Go:            func(do func(context.Context)) { under.Go(func() { do(w.ctx) }) },
			Wake:          w.wake, WakeAfter: func(group fleet.GroupID, _ time.Duration) { w.wake(group) },
			Failed: w.failed, Condemn: w.condemn, Over: w.over,
		})
		w.Configure(w.cfg)
		under.Go(func() { w.Run(w.ctx) })
		test(t, w)
		end()
		under.Wait()
		_ = rows.Close()
		for _, text := range w.unasked {
			t.Error(text)
		}
	})
}

// configured is a configuration of two groups that are made in three subnets.
func configured(t *testing.T, s settings) *effective.Config {
	t.Helper()
	data := s.data
	if data == "" {
		data = `{"content": "{{ .Nonce }}"}`
	}
	cfg, err := config.Load("test.jsonc", fmt.Appendf(nil, `{
		"server": {
			"cluster_id": "c1", "shard": "s1", %s
			"provider": {"kind": "local", "zone": "z1"}, "secrets": {"provider": "object-storage"},
			"subnet_pools": {"p": ["net-1", "net-2", "net-3"]},
			"garbage_collection": {"registration_timeout": "2m"},
		}, %s
		"templates": {"plain": {"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "userdata": %s}},
		"groups": {"default": {"web": {"template": "plain", "size": 10}, "small": {"template": "plain", "size": 10}}},
	}`, s.server, s.tenants, data), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// called notes a create that is asked for without a record.
func (w *world) called(c drivertest.Call) {
	if c.Op != drivertest.OpCreate {
		return
	}
	if _, err := w.objects.Get(context.Background(), layout.InstanceKey("s1", c.Request.Tenant, c.ID)); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.unasked = append(w.unasked, fmt.Sprintf("S3: create of %s was sent without its record: %v", c.ID, err))
	}
}

// Config implements [Groups].
func (w *world) Config() *effective.Config { return w.cfg }

// Find implements [Groups].
func (w *world) Find(id fleet.GroupID) (*effective.Group, bool) {
	return w.cfg.Group(&groupfile.File{}, document.GroupKey{Tenant: id.Tenant, Group: id.Name})
}

// Group implements [Groups].
func (w *world) Group(id fleet.GroupID) fleet.Group {
	w.mu.Lock()
	defer w.mu.Unlock()
	size, set := w.sizes[id]
	if !set {
		size = 10
	}
	return fleet.Group{ID: id, Size: size}
}

// Paused implements [Groups].
func (w *world) Paused(fleet.GroupID, time.Time) fleet.Block {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused {
		return fleet.Block{By: fleet.BlockerPaused, Why: "for a test"}
	}
	return fleet.Block{}
}

// EntryToKeep implements [Groups].
func (w *world) EntryToKeep(*effective.Group, bool) json.RawMessage { return nil }

// CreateQueued implements [Liveness].
func (w *world) CreateQueued(identity.ID) {}

// CreateSent implements [Liveness].
func (w *world) CreateSent(identity.ID) {}

// CreateAccepted implements [Liveness].
func (w *world) CreateAccepted(identity.ID) {}

// Heard implements [Liveness].
func (w *world) Heard(ins []fleet.Instance) []fleet.Instance { return ins }

// Observe implements [Liveness].
func (w *world) Observe(m driver.Machine, _ time.Time) bool {
	_, err := w.instances.Note(m.InstanceID, func(in *cache.Instance) (err error) {
		in.State, err = in.State.On(fleet.EventAccepted)
		return err
	})
	return err == nil
}

// wake looks at the launcher as a planner does: nobody is woken under one of its locks.
func (w *world) wake(group fleet.GroupID) {
	w.Blocked(w.Group(group), w.instances.Of(group), time.Now())
	w.Launcher.Room(group, time.Now())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = append(w.woken, group)
}

func (w *world) failed(group fleet.GroupID, _ identity.ID, class, text string) {
	w.FailedLaunch(group)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, class+": "+text)
}

func (w *world) condemn(ctx context.Context, a fleet.Condemn) error {
	w.mu.Lock()
	w.condemned = append(w.condemned, a)
	w.mu.Unlock()
	_, err := w.instances.Change(ctx, a.ID, func(rec *layout.InstanceRecord) error {
		rec.Status, rec.Deletion = layout.StatusDeleting, &layout.Deletion{Reason: string(a.Reason), RequestedAt: layout.At(time.Now())}
		return nil
	})
	return err
}

func (w *world) over(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.superseded = w.superseded || errors.Is(err, lease.ErrSuperseded)
	return errors.Is(err, lease.ErrNotLeader) || w.ctx.Err() != nil
}

// launch asks for one more machine of a group, and has what follows at once happen.
func (w *world) launch(group fleet.GroupID) (identity.ID, bool) {
	w.t.Helper()
	return w.ask(group, Request{})
}

func (w *world) ask(group fleet.GroupID, req Request) (identity.ID, bool) {
	w.t.Helper()
	eff, ok := w.Find(group)
	if !ok {
		w.t.Fatalf("there is no group %s", group)
	}
	id, err := identity.NewID(eff.Kind)
	if err != nil {
		w.t.Fatal(err)
	}
	launched, err := w.Launch(w.ctx, id, eff, req)
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return id, launched
}

func (w *world) resize(group fleet.GroupID, size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sizes[group] = size
}

func (w *world) pause(paused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = paused
}

// said takes what tenants were told since the last time.
func (w *world) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.failures
	w.failures = nil
	return said
}

// wakes takes how often groups were woken since the last time.
func (w *world) wakes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.woken)
	w.woken = nil
	return n
}

// creates is how many create calls the cloud has seen.
func (w *world) creates() int { return w.cloud.Count(drivertest.OpCreate) }

// asked are the instances whose creates the cloud has seen, in their order.
func (w *world) asked() []fleet.GroupID {
	var groups []fleet.GroupID
	for _, c := range w.cloud.Calls() {
		if c.Op == drivertest.OpCreate {
			groups = append(groups, fleet.GroupID{Tenant: c.Request.Tenant, Name: c.Request.Group})
		}
	}
	return groups
}

// recorded reports whether an instance has a record in storage.
func (w *world) recorded(id identity.ID) bool {
	_, err := w.objects.Get(w.t.Context(), layout.InstanceKey("s1", "default", id))
	return err == nil
}

// stateOf is an instance's by its row; empty: there is none.
func (w *world) stateOf(id identity.ID) fleet.State {
	row, _ := w.rows.Instance(id)
	return row.State
}

// wantGivenUp demands that nothing is left of an instance.
func (w *world) wantGivenUp(id identity.ID) {
	w.t.Helper()
	if state := w.stateOf(id); w.recorded(id) || state != fleet.Deleted {
		w.t.Errorf("instance %s: recorded is %t and it is %q, want no record and deleted", id, w.recorded(id), state)
	}
}

// wantMade demands that the cloud has one machine for an instance, and that its record names it.
func (w *world) wantMade(id identity.ID) {
	w.t.Helper()
	rec, _ := w.instances.Record(id)
	vm, ok := w.cloud.Machine(id)
	if !ok || rec.ProviderID != vm.ProviderID || rec.LaunchedAt.Before(rec.CreatedAt.Time) || w.stateOf(id) != fleet.Provisioning {
		w.t.Errorf("instance %s: made is %t, its record says %q and %v, it is %q", id, ok, rec.ProviderID, rec.LaunchedAt, w.stateOf(id))
	}
}

// pass lets time pass, and everything that it causes happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// blocked is what holds creates of a group back.
func (w *world) gate(group fleet.GroupID) fleet.Block {
	creates, _ := w.Blocked(w.Group(group), w.instances.Of(group), time.Now())
	return creates
}

func wantSaid(t *testing.T, said []string, prefixes ...string) {
	t.Helper()
	ok := slices.EqualFunc(said, prefixes, strings.HasPrefix)
	if !ok {
		t.Errorf("said %q, want %q", said, prefixes)
	}
}
