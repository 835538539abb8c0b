package manager

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/program"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

func TestMissingKindsAreNamed(t *testing.T) {
	all := map[schema.GroupVersion][]string{
		infrav1.GroupVersion:        {"NstanceCluster", "NstanceMachinePool", "NstanceShardGroup", "NstanceMachine", "NstanceMachineTemplate", "More"},
		controlplanev1.GroupVersion: {"NstanceControlPlane"},
		clusterv1.GroupVersion:      {"Cluster", "Machine", "MachinePool"},
		demandv1.GroupVersion:       {"CapacityRequest", "UpcomingNode", "AvailableCapacity"},
		hostsv1.GroupVersion:        {"HostMachine", "MachineConfiguration", "MachineConfigurationVersion", "MachineOperation"},
	}
	if got := program.Missing(required(kindsOf(features)), all); got != nil {
		t.Errorf("of all kinds %v are missing", got)
	}
	all[clusterv1.GroupVersion] = []string{"Cluster", "Machine"}
	delete(all, controlplanev1.GroupVersion)
	want := []string{
		"NstanceControlPlane in controlplane.cluster.x-k8s.io/v1beta1 (install the operator's custom resource definitions)",
		"MachinePool in cluster.x-k8s.io/v1beta2 (install Cluster API 1.11 or later)",
	}
	if diff := cmp.Diff(want, program.Missing(required(kindsOf(features)), all)); diff != "" {
		t.Error(diff)
	}
}

func configMapObject(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: data}
}

func TestTheConfigMapReplacesTheShardsOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("cluster_id: example\nshards: {a: {operator_addr: \"a:1\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := config.Settings{Config: path, Namespace: "ns", Environment: config.Environment{ShardsConfigMap: "shards"}}
	tests := []struct {
		name   string
		client client.Client
		want   []string
		fails  bool
	}{
		{"there is none", testworld.NewClientBuilder(t).Build(), []string{"a"}, false},
		{"there is one", testworld.NewClientBuilder(t).WithObjects(configMapObject("shards", map[string]string{"b": "b:1"})).Build(), []string{"b"}, false},
		{"it is empty", testworld.NewClientBuilder(t).WithObjects(configMapObject("shards", nil)).Build(), nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, _, err := load(t.Context(), s, test.client)
			if (err != nil) != test.fails {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.Names()); !test.fails && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithoutAuthoritiesTheRemedyIsNamed(t *testing.T) {
	for name, c := range map[string]client.Client{
		"no ConfigMap": testworld.NewClientBuilder(t).Build(),
		"no entry":     testworld.NewClientBuilder(t).WithObjects(configMapObject("ca", nil)).Build(),
	} {
		if _, err := caBundle(t.Context(), c, "ns", "ca"); err == nil || !strings.Contains(err.Error(), "ConfigMap ca with entry ca.crt is missing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// recorded keeps the data that a watch delivered.
type recorded struct {
	mu   sync.Mutex
	last map[string]map[string]string
}

func (h *recorded) note(name string, data map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[name] = data
}

func TestConfigMapsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme, err := Scheme()
		if err != nil {
			t.Fatal(err)
		}
		informers := &informertest.FakeInformers{Scheme: scheme}
		told := &recorded{last: map[string]map[string]string{}}
		if err := watchConfigMaps(t.Context(), informers, told.note); err != nil {
			t.Fatal(err)
		}
		source, err := informers.FakeInformerFor(t.Context(), &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		first := configMapObject("shards", map[string]string{"a": "a:1"})
		source.Add(first)
		source.Add(configMapObject("other", nil))
		second := configMapObject("shards", map[string]string{"b": "b:1"})
		source.Update(first, second)
		synctest.Wait()
		want := map[string]map[string]string{"shards": {"b": "b:1"}, "other": {}}
		if diff := cmp.Diff(want, told.last); diff != "" {
			t.Error(diff)
		}
		source.Delete(second)
		synctest.Wait()
		if data, ok := told.last["shards"]; !ok || data != nil {
			t.Errorf("of one that is gone it told %v", data)
		}
	})
}

// world is a process that leads, as far as shards go, in a cluster of shards a and b.
type world struct {
	*process
	*shardtest.Cluster
	objects client.WithWatch
	away    atomic.Bool // the API server does not answer
	t       *testing.T
	set     *shards.Set
	events  *events.FakeRecorder
	tell    notices
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		c.Shard("a").Serve("a:1")
		c.Shard("b").Serve("b:1")
		hub := inventory.NewHub()
		log := slog.New(slog.DiscardHandler)
		w := &world{Cluster: c, t: t, events: events.NewFakeRecorder(100), objects: testworld.NewClientBuilder(t).Build()}
		w.process = &process{
			shardState: shardState{hub: hub, feed: inventory.NewFeed("default", hub, time.Now)}, metrics: metrics.New(prometheus.NewRegistry()),
			opts:     Options{Log: log},
			settings: config.Settings{Namespace: "ns"},
			live: interceptor.NewClient(w.objects, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
					if w.away.Load() {
						return errors.New("away")
					}
					return c.List(ctx, list, o...)
				},
			}),
		}
		w.tell = notices{
			recorder: w.events, key: client.ObjectKey{Namespace: "ns", Name: "c"}, log: log,
			reader: testworld.NewClientBuilder(t).WithObjects(&infrav1.NstanceCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}).Build(),
		}
		w.set = shards.NewSet(shards.Options{
			Cluster: c.ID, Tenant: "default", Credentials: c.Operator("default"), Sink: w.listen(t.Context(), w.tell), Streams: w.shardState.feed.Streams(),
			Dial: c.DialContext, Observer: w.metrics.Observer(), Random: func() float64 { return 0.5 },
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = w.set.Run(ctx) // the reason of ctx
		}()
		t.Cleanup(func() {
			stop()
			<-done
		})
		test(t, w)
	})
}

// offer applies shards at addresses as a changed file would, and lets time pass.
func (w *world) offer(addresses ...string) {
	next := config.Config{ClusterID: w.ID, Tenant: "default"}
	for i := 0; i < len(addresses); i += 2 {
		next.Shards = append(next.Shards, config.Shard{Name: addresses[i], Operator: []string{addresses[i+1]}})
	}
	change, err := config.Diff(config.Config{ClusterID: w.ID, Tenant: "default", Shards: w.config().Shards}, next)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.reconfigure(w.t.Context(), config.Outcome{Config: next, Change: change}, w.set, w.tell)
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

// states returns the state of each shard in the set, by name.
func (w *world) states() map[string]shards.State {
	out := map[string]shards.State{}
	for _, s := range w.set.Shards() {
		out[s.Name()] = s.Status().State
	}
	return out
}

// said returns the events since the last call.
func (w *world) said() []string {
	var out []string
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func (w *world) expect(want map[string]shards.State, events ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.states()); diff != "" {
		w.t.Error(diff)
	}
	if diff := cmp.Diff(events, w.said()); diff != "" {
		w.t.Error(diff)
	}
}

func TestO2_ShardsComeAndGoWithoutARestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.offer("a", "a:1")
		w.expect(map[string]shards.State{"a": shards.Ready}, "Normal ConfigReloaded shards added: [a], removed: [], moved: []")
		w.offer("a", "a:1", "b", "b:1")
		w.expect(map[string]shards.State{"a": shards.Ready, "b": shards.Ready}, "Normal ConfigReloaded shards added: [b], removed: [], moved: []")
		w.Cluster.Shard("b").Serve("b:2")
		w.offer("b", "b:2")
		w.expect(map[string]shards.State{"b": shards.Ready}, "Normal ConfigReloaded shards added: [], removed: [a], moved: [b]")
		if diff := cmp.Diff([]string{"b"}, w.shardState.feed.Inventory().Names()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestO2_SwappedAddressesAreNoticedAndNothingIsSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.offer("a", "b:1", "b", "b:1")
		want := map[string]shards.State{"a": shards.Unreachable, "b": shards.Ready}
		if diff := cmp.Diff(want, w.states()); diff != "" {
			t.Error(diff)
		}
		if said := strings.Join(w.said(), "\n"); !strings.Contains(said, "Warning ShardIdentityMismatch shard a: another server answers at its address") {
			t.Errorf("said %s", said)
		}
		if n := len(w.Cluster.Shard("a").Calls()); n != 0 {
			t.Errorf("%d calls reached the shard that nobody asked for", n)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if said := w.said(); said != nil {
			t.Errorf("it was said again: %v", said)
		}
	})
}

func TestO2_ARefusedConfigurationIsSaidAndChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.offer("a", "a:1")
		w.said()
		w.reconfigure(t.Context(), config.Outcome{Config: w.config(), Err: errors.New("line 3")}, w.set, w.tell)
		w.expect(map[string]shards.State{"a": shards.Ready}, "Warning ConfigRejected the configuration of before stays in force: line 3")
	})
}

// stands makes objects that stand for instances of a shard.
func (w *world) stands(shard string, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		m := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: id}}
		m.Spec.Shard, m.Spec.GroupRef.Name, m.Spec.InstanceID, m.Status.InstanceID = shard, "web", id, id
		if err := w.objects.Create(w.t.Context(), m); err != nil {
			w.t.Fatal(err)
		}
	}
}

// known returns how many instances of a shard are there as far as is known.
func (w *world) known(shard string) (n int) {
	w.shardState.feed.Inventory().Read(shard, func(s *inventory.Shard) { n = len(s.Instances("")) })
	return n
}

// TestS8_AShardThatIsAddedMustAccountForItsMachines: that many of them are missing from its
// first listing is not believed at once.
func TestS8_AShardThatIsAddedMustAccountForItsMachines(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.stands("b", "i1", "i2", "i3", "i4")
		w.offer("a", "a:1")
		if n := w.known("b"); n != 0 {
			t.Fatalf("%d instances of a shard that is not configured", n)
		}
		w.offer("a", "a:1", "b", "b:1")
		if n := w.known("b"); w.states()["b"] != shards.Ready || n != 4 {
			t.Errorf("after one listing without them %d of 4 are known, the shard is %s", n, w.states()["b"])
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := w.known("b"); n != 0 {
			t.Errorf("when all listings lack them %d are still known", n)
		}
	})
}

// TestF36_AShardLeavesWhileANewOneWaits: what is taken off the configuration goes at once, also
// where the API server cannot say yet what the new shards of the same edit must have.
func TestF36_AShardLeavesWhileANewOneWaits(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.offer("a", "a:1")
		w.away.Store(true)
		go w.offer("b", "b:1")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if states := w.states(); len(states) != 0 {
			t.Errorf("while the API server is away: %v", states)
		}
		w.away.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if states := w.states(); len(states) != 1 || states["b"] != shards.Ready {
			t.Errorf("afterwards: %v", states)
		}
	})
}

// TestF36_ANewShardWaitsForTheAPIServer: before it is known what it must have, it is not
// connected.
func TestF36_ANewShardWaitsForTheAPIServer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.stands("b", "i1", "i2", "i3", "i4")
		w.offer("a", "a:1")
		w.away.Store(true)
		go func() {
			time.Sleep(time.Minute)
			w.away.Store(false)
		}()
		began := time.Now()
		w.offer("a", "a:1", "b", "b:1")
		if took := time.Since(began); took < time.Minute || w.states()["b"] != shards.Ready || w.known("b") != 4 {
			t.Errorf("after %v it is %s with %d instances", took, w.states()["b"], w.known("b"))
		}
	})
}
