package shard

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

const (
	testCluster = "test"
	testShard   = "s1"
)

var (
	testOwner = driver.Owner{Cluster: testCluster, Shard: testShard}
	web       = fleet.GroupID{Tenant: "default", Name: "web"}
)

// worldOptions are what a test wants to be different.
type worldOptions struct {
	Cloud        drivertest.Options
	Interval     string                // between reports; 10s
	Timeout      string                // of a registration; 2m
	Limits       string                // of provider.limits, JSON; {}
	Groups       string                // static ones, JSON; {"default": {}}
	Drain        string                // drain_timeout; 0s
	Collect      string                // interval of the collection; 30s
	Server       string                // more members of server, JSON without the braces
	Files        string                // of the template, JSON; {}
	Certificates string                // JSON; {}
	Able         bool                  // the cloud has load balancers and images, and knows the room in its subnets
	Types        *listing              // the cloud lists its machine types; nil: it does not
	Balancers    string                // load_balancers, JSON; {}
	Images       string                // JSON; {}
	Args         string                // of the template "plain", JSON; {}
	Userdata     string                // of the template, JSON; its nonce
	Type         string                // instance_type of the template, JSON; "small"
	DeadAgents   bool                  // VMs run and nobody in them registers
	Joins        bool                  // agents can make their machines join clusters
	CachePath    string                // a real file; without one the cache lives in memory
	Hosts        []string              // of servers
	Repeats      bool                  // passes may repeat the one before
	tracer       trace.Tracer          // nil: none
	registry     prometheus.Registerer // of the metrics; nil: none

	// ArchMismatch is what the provider says against a type of an architecture.
	ArchMismatch func(instanceType, arch string) error

	// Prepare makes the cloud what it is before any server leads.
	Prepare func(*drivertest.Cloud)
	// Fetch gets user data that stands elsewhere.
	Fetch func(ctx context.Context, address string) ([]byte, error)
}

// world is a shard with everything around it, on the clock of a bubble: storage,
// a cloud whose VMs have agents, and one server process after another.
type world struct {
	t       *testing.T
	opts    worldOptions
	ctx     context.Context
	store   *memory.Store
	cloud   *drivertest.Cloud
	keys    *pki.Keys
	static  config.Version
	every   time.Duration // between an agent's reports, whatever is put in force later
	ids     identity.Generator
	agents  sync.WaitGroup
	logs    lockedBuffer
	dead    atomic.Bool // agents do not start
	secrets secrets.Store

	mu       sync.Mutex
	machines map[identity.ID]*machine
	sizes    map[fleet.GroupID]int // the largest that each group was given
	drainers drainers
	current  *Shard
	life     *life
	number   uint64
	stopped  chan error
	drained  func() error // closes the cache of the process
}

// inWorld runs a test in a bubble with a world that has a leader.
func inWorld(t *testing.T, opts worldOptions, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, opts)
		defer w.close()
		w.lead()
		test(t, w)
	})
}

func newWorld(t *testing.T, opts worldOptions) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{t: t, opts: opts, ctx: ctx, machines: map[identity.ID]*machine{}, sizes: map[fleet.GroupID]int{}}
	t.Cleanup(cancel)
	w.dead.Store(opts.DeadAgents)
	w.store = memory.New(memory.Options{})
	onCall, onCreate, onDown := opts.Cloud.OnCall, opts.Cloud.OnCreate, opts.Cloud.OnDown
	opts.Cloud.OnCall = func(c drivertest.Call) {
		w.watchCall(c)
		if onCall != nil {
			onCall(c)
		}
	}
	opts.Cloud.OnCreate = func(req driver.CreateRequest) {
		w.boot(req)
		if onCreate != nil {
			onCreate(req)
		}
	}
	opts.Cloud.OnDown = func(id identity.ID) {
		w.crash(id)
		if onDown != nil {
			onDown(id)
		}
	}
	w.cloud = drivertest.New(opts.Cloud)
	if opts.Prepare != nil {
		opts.Prepare(w.cloud)
	}
	w.secrets, w.keys = testKeys(t, ctx, w.store)
	w.static = config.Version{Config: testConfig(t, opts)}
	w.every = w.static.Config.Server.HealthCheckInterval.Std()
	return w
}

func testKeys(t *testing.T, ctx context.Context, store objectstore.Store) (secrets.Store, *pki.Keys) {
	t.Helper()
	sealed, err := secrets.NewSealed(store, "secret/", nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.EnsureCA(ctx, sealed, store, testCluster, pki.CATemplate{}, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	nonces, err := pki.EnsureNonceKeys(ctx, sealed, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := pki.NewNonceSigner(nonces, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sealed, &pki.Keys{
		Authority: pki.NewAuthority(ca, testCluster, nil, nil),
		Nonces:    signer, Verifier: pki.NewNonceVerifier(testCluster, nonces),
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func testConfig(t testing.TB, opts worldOptions) *effective.Config {
	t.Helper()
	text := fmt.Sprintf(`{
		"server": {
			"cluster_id": %q, "shard": %q,
			"provider": {"kind": "local", "zone": "z1", "limits": %s},
			"secrets": {"provider": "object-storage"},
			"subnet_pools": {"p": ["net-1", "net-2", "net-3"]},
			"health_check_interval": %q, "request_timeout": "5s", "drain_timeout": %q,
			"garbage_collection": {"interval": %q, "registration_timeout": %q},
			"admin_tenants": ["default"],
			%s
		},
		"tenants": {"b": {}},
		"templates": {
			"plain": {
				"kind": "vmx", "arch": "amd64", "instance_type": %s, "subnet_pool": "p",
				"userdata": %s, "files": %s, "args": %s, "tenants": ["default", "b"],
			},
			"bare": {
				"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p",
				"userdata": {"content": "{{ .Nonce }}"}, "tenants": ["default", "b"],
			},
		},
		"groups": %s, "certificates": %s, "load_balancers": %s, "images": %s,
	}`, testCluster, testShard, or(opts.Limits, "{}"), or(opts.Interval, "10s"), or(opts.Drain, "0s"),
		or(opts.Collect, "30s"), or(opts.Timeout, "2m"), opts.Server,
		or(opts.Type, `"small"`), or(opts.Userdata, `{"content": "{{ .Nonce }}"}`),
		or(opts.Files, "{}"), or(opts.Args, "{}"), or(opts.Groups, `{"default": {}}`), or(opts.Certificates, "{}"),
		or(opts.Balancers, "{}"), or(opts.Images, "{}"))
	cfg, err := config.Load("test.jsonc", []byte(text), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// watchCall checks what must hold at every call of the provider.
func (w *world) watchCall(c drivertest.Call) {
	if c.Op != drivertest.OpCreate {
		return
	}
	ctx := context.Background()
	key := layout.InstanceKey(testShard, c.Request.Tenant, c.ID)
	if _, err := w.store.Get(ctx, key); err != nil {
		w.t.Errorf("S3: create of %s sent without its record: %v", c.ID, err)
	}
	w.mu.Lock()
	size, limited := w.sizes[fleet.GroupID{Tenant: c.Request.Tenant, Name: c.Request.Group}]
	w.mu.Unlock()
	if !limited || w.cloud.Created() <= size {
		return // too few were ever made, and none of a large group has to be looked at
	}
	running := 0
	for _, vm := range w.cloud.Machines() {
		if r, err := w.shard().Term(); err == nil {
			if row, ok := r.planner.cache.Instance(vm.InstanceID); ok && !row.State.Live() {
				continue
			}
		}
		if vm.Tenant == c.Request.Tenant && vm.Group == c.Request.Group && !vm.Status.Down() && vm.InstanceID != c.ID {
			running++
		}
	}
	if running > size {
		w.t.Errorf("S5: create of %s sent while %d machines run, and the size is %d", c.ID, running, size)
	}
}

func (w *world) interval() time.Duration {
	return w.every
}

func (w *world) shard() *Shard {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// start begins a new server process, which knows nothing, as the next leader.
// It does not wait until it serves.
func (w *world) start() { w.startDoomed(0, beforeCall) }

// startDoomed starts a process that dies at its nth call.
func (w *world) startDoomed(n int, when moment) {
	w.t.Helper()
	ctx, kill := context.WithCancel(w.ctx)
	c, err := cache.Open(ctx, or(w.opts.CachePath, os.DevNull+"/none"), cache.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	l := &life{kill: kill, at: n, when: when}
	w.mu.Lock()
	w.number++
	term := w.number
	w.mu.Unlock()
	var cloud driver.Driver = mortalDriver{w.cloud, l}
	if w.opts.Able {
		cloud = ableDriver{mortalDriver{w.cloud, l}, w.cloud}
	}
	if w.opts.Types != nil {
		cloud = typedDriver{mortalDriver{w.cloud, l}, w.opts.Types}
	}
	s := New(Options{
		Cluster: testCluster, Shard: testShard, Version: "test",
		Store: mortalStore{w.store, l}, Driver: cloud, Cache: c, FetchUserdata: w.opts.Fetch,
		Keys:      func() *pki.Keys { return w.keys },
		Secrets:   func() secrets.Store { return w.secrets },
		Addresses: func() driver.Addresses { return driver.Addresses{} }, Drainers: &w.drainers,
		Log:   slog.New(slog.NewTextHandler(&w.logs, &slog.HandlerOptions{Level: slog.LevelInfo})),
		NewID: w.ids.NewID, Tracer: w.opts.tracer, Metrics: NewMetrics(w.opts.registry), ArchMismatch: w.opts.ArchMismatch,
		ServerHosts: func() []string { return w.opts.Hosts },
	}, w.static)
	stopped := make(chan error, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.life, w.stopped, w.drained = s, l, stopped, c.Close // machines may boot as soon as it leads
	go func() { stopped <- s.Lead(lease.Always(ctx, term), term) }()
}

// lead starts the next leader and waits until it serves.
func (w *world) lead() *Term {
	w.t.Helper()
	w.start()
	return w.serving()
}

func (w *world) serving() *Term {
	w.t.Helper()
	for range 600 {
		synctest.Wait()
		if r, err := w.shard().Term(); err == nil {
			synctest.Wait()
			return r
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatal("no server leads within a minute")
	return nil
}

// stop ends the process that leads, without any goodbye, and returns what Lead
// returned.
func (w *world) stop() error {
	w.life.end()
	err := <-w.stopped
	w.stopped <- err
	if closing := w.drained(); closing != nil && w.opts.CachePath != "" {
		w.t.Error(closing)
	}
	return err
}

// ended returns what Lead returned; a leader that goes on leading fails the test
// within a minute instead of keeping it waiting.
func (w *world) ended() error {
	w.t.Helper()
	select {
	case err := <-w.stopped:
		w.stopped <- nil
		return err
	case <-time.After(time.Minute):
		w.t.Fatal("the server goes on leading")
		return nil
	}
}

func (w *world) close() {
	if err := w.stop(); err != nil {
		w.t.Errorf("lead: %v", err)
	}
	w.mu.Lock()
	for _, m := range w.machines {
		m.off()
	}
	w.mu.Unlock()
	w.agents.Wait()
	if strings.Contains(w.logs.String(), "reconcile made no progress; backing off") && !w.opts.Repeats {
		w.t.Error("a pass did the same as the one before, though nothing had changed")
	}
	if w.t.Failed() {
		w.t.Logf("log of the servers:\n%s", w.logs.String())
	}
}

func (w *world) term() *Term {
	w.t.Helper()
	r, err := w.shard().Term()
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// scale sets the size of a dynamic group through the API.
func (w *world) scale(group fleet.GroupID, size int) {
	w.t.Helper()
	if err := w.tryScale(group, size); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tryScale(group fleet.GroupID, size int) error {
	r, err := w.shard().Term()
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.sizes[group] = max(w.sizes[group], size)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute) // who is never answered fails, and waits no longer
	defer cancel()
	_, err = r.requests.UpsertGroup(ctx, group.Tenant, group.Name, requests.GroupChange{Size: &size, Template: "plain"}, nil)
	return err
}

// settle lets time pass and everything that it causes happen.
func (w *world) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// vms are the machines of a group that exist, in order of creation.
func (w *world) vms(group fleet.GroupID) []drivertest.VM {
	return slices.DeleteFunc(w.cloud.Machines(), func(vm drivertest.VM) bool {
		return vm.Tenant != group.Tenant || vm.Group != group.Name
	})
}

// records are the instance records that stand in storage.
func (w *world) records() []layout.InstanceRecord {
	w.t.Helper()
	var all []layout.InstanceRecord
	for info, err := range objectstore.ListAll(w.ctx, w.store, layout.InstancePrefix(testShard)) {
		if err != nil {
			w.t.Fatal(err)
		}
		o, err := w.store.Get(w.ctx, info.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		rec, err := layout.DecodeInstanceRecord(info.Key, o.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// converged checks that the shard has exactly n machines, all of them running
// and registered, with one live record each (S4). The tombstone of an instance on
// demand is none.
func (w *world) converged(n int) {
	w.t.Helper()
	var machines, recorded []string
	for _, vm := range w.cloud.Machines() {
		machines = append(machines, fmt.Sprintf("%s %s", vm.InstanceID, vm.Status))
	}
	for _, rec := range w.records() {
		if rec.OnDemand && rec.Deletion != nil && !rec.Deletion.GoneAt.IsZero() {
			continue
		}
		status := "running"
		if rec.Status != layout.StatusRegistered {
			status = string(rec.Status)
		}
		recorded = append(recorded, fmt.Sprintf("%s %s", rec.ID, status))
	}
	slices.Sort(machines)
	slices.Sort(recorded)
	if len(machines) != n || !slices.Equal(machines, recorded) {
		w.t.Errorf("want %d machines with a record each, got\nmachines %s\nrecords  %s", n,
			strings.Join(machines, ", "), strings.Join(recorded, ", "))
	}
	if held := w.term().Unmanaged(); len(held) > 0 {
		w.t.Errorf("held: %v", held)
	}
}

// ids are the instances that the leader knows of a group and has not ended.
func (w *world) members(group fleet.GroupID) []cache.Instance {
	var all []cache.Instance
	for _, in := range w.term().planner.cache.Group(group) {
		if in.State != fleet.Deleted {
			all = append(all, in)
		}
	}
	return all
}

func (w *world) machine(id identity.ID) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[id]
}

// count is how many calls of one kind the cloud has seen.
func (w *world) count(op drivertest.Op) int { return w.cloud.Count(op) }

// drainers knows the tenants that have a coordinator, as the operators' records do.
type drainers struct{ tenants sync.Map }

func (d *drainers) Load(context.Context) error { return nil }

func (d *drainers) Coordinated(tenant string) bool {
	_, ok := d.tenants.Load(tenant)
	return ok
}

func (d *drainers) Coordinate(ctx context.Context, peer identity.Peer) error {
	d.tenants.Store(peer.Tenant, true)
	return lease.Check(ctx)
}

// lockedBuffer is a buffer that many may write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// remove deletes an object as somebody with access to the bucket would.
func (w *world) remove(key string) {
	w.t.Helper()
	o, err := w.store.Get(w.ctx, key)
	if err == nil {
		err = w.store.DeleteIfMatch(w.ctx, key, o.ETag)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// overwrite writes an object as somebody with access to the bucket would.
func (w *world) overwrite(key, text string) {
	w.t.Helper()
	o, err := w.store.Get(w.ctx, key)
	if err == nil {
		_, err = w.store.PutIfMatch(w.ctx, key, []byte(text), o.ETag)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
