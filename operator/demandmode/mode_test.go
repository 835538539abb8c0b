package demandmode_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/demandmode"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	"nstance.dev/operator/testworld/apiserver"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// calm has no faults.
type calm struct{}

func (calm) Call(apiserver.Call) apiserver.Fault           { return apiserver.Fault{} }
func (calm) Lag(string, string, int) (time.Duration, bool) { return 0, false }

// world is demand mode in a cluster with shards "a" and "b".
type world struct {
	*testworld.ShardWorld
	t    *testing.T
	api  *apiserver.Server
	c    client.Client
	stop func()
	mode *demandmode.Mode

	mu       sync.Mutex
	warnings []string
	resynced []string
}

func run(t *testing.T, change func(*config.Demand), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ShardWorld: testworld.NewShardWorld(t, nil, "a", "b")}
		w.api = apiserver.New(apiserver.Options{
			Test: t, Faults: calm{}, Changed: func(apiserver.Change) {},
			Kinds: []func(*runtime.Scheme) error{demandv1.AddToScheme, func(s *runtime.Scheme) error {
				s.AddKnownTypes(storagev1.SchemeGroupVersion, &storagev1.StorageClass{}, &storagev1.StorageClassList{})
				return nil
			}},
		})
		w.c = w.api.Client("user")
		d := config.Demand{
			Enabled: true, PodSource: config.PodSourceBoth,
			Sessions: config.DemandSessions{InitialBackoff: 500 * time.Millisecond, MaxBackoff: 30 * time.Second, Outbox: 256, Dispatch: 32, DrainGrace: time.Minute},
			Rollups: config.DemandRollups{
				Interval: 10 * time.Second, MinInterval: time.Second, Acknowledgements: 16, UnitClasses: config.UnitClassesPow2, Overhead: config.OverheadAuto, Surcharge: true,
			},
		}
		if change != nil {
			change(&d)
		}
		w.start(d)
		defer func() { w.stop() }()
		test(t, w)
	})
}

// start starts demand mode, as a process that leads does.
func (w *world) start(d config.Demand) {
	w.t.Helper()
	objects, err := w.api.NewCache("operator")(&rest.Config{}, cache.Options{Scheme: w.api.Scheme(), Mapper: w.api.Mapper()})
	if err != nil {
		w.t.Fatal(err)
	}
	present := config.Config{ClusterID: w.Cluster.ID, Tenant: testworld.Tenant, Shards: []config.Shard{{Name: "a", Zone: "za"}, {Name: "b", Zone: "zb"}}}
	w.mode = demandmode.New(demandmode.Parts{
		Settings: d, Config: func() config.Config { return present }, Connections: func() *shards.Set { return w.Set }, Inventory: w.Inventory,
		Objects: objects, Writer: w.api.Client("operator"), Translation: func() translate.Options { return translate.Options{VolumeTopology: true} },
		Metrics: metrics.NewDemand(prometheus.NewRegistry()), Log: w.Log.Logger(),
		Warn: func(_ context.Context, reason, _, format string, args ...any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.warnings = append(w.warnings, reason+": "+fmt.Sprintf(format, args...))
		},
		Resynced: func(shard string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.resynced = append(w.resynced, shard)
		},
	})
	ctx, stop := context.WithCancel(w.t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { _ = objects.Start(ctx) })
	loops.Go(func() {
		if err := w.mode.Run(ctx); err != nil {
			w.t.Errorf("Run returned %v", err)
		}
	})
	w.stop = func() {
		stop()
		loops.Wait()
		w.stop = func() {}
	}
	w.After(2 * time.Second)
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.c.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// pod makes a Pod that asks for so many cores in a zone, and its request.
func (w *world) pod(name, zone string, cores int64) *corev1.Pod {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelTopologyZone: zone}, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI)}},
		}}},
	}
	w.create(p)
	w.create(translate.Object(p, translate.Build(p, translate.Volumes{}, translate.Options{}).Spec))
	return p
}

// cores are what a shard is asked for.
func (w *world) cores(shard string) (sum int64) {
	_, rows, _ := w.Shard(shard).Demand().Rollups(testworld.Tenant)
	for _, r := range rows {
		for _, a := range r.Aggregate {
			if a.Name == "cpu" {
				sum += a.Amount / 1000
			}
		}
	}
	return sum
}

func (w *world) expectCores(when string, a, b int64) {
	w.t.Helper()
	if x, y := w.cores("a"), w.cores("b"); x != a || y != b {
		w.t.Errorf("%s: the shards are asked for %d and %d cores, want %d and %d", when, x, y, a, b)
	}
}

func (w *world) state(shard, id string, state demandpb.MachineState, seq uint64) {
	w.Shard(shard).Demand().Tell(testworld.Tenant, shardtest.StateMessage(machine(id, state, seq), 0))
}

func machine(id string, state demandpb.MachineState, seq uint64) *demandpb.NodeStateUpdate {
	return &demandpb.NodeStateUpdate{MachineId: id, State: state, StateSeq: seq, ProviderId: "fake:///" + id, Zone: "za"}
}

// shown are the UpcomingNodes with their phases.
func (w *world) shown() (all []string) {
	for _, o := range apiserver.All[*demandv1.UpcomingNode](w.api) {
		all = append(all, o.Name+" "+string(o.Status.Phase))
	}
	slices.Sort(all)
	return all
}

func (w *world) expectShown(when string, want ...string) {
	w.t.Helper()
	if got := w.shown(); !slices.Equal(got, want) {
		w.t.Errorf("%s: %q, want %q", when, got, want)
	}
}

// From a pending Pod to a Node, and back: what is asked for, acknowledged and shown on the way.
func TestFromAPodToANodeAndBack(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.expectCores("at first", 0, 0)
		p := w.pod("p", "za", 2)
		w.After(2 * time.Second)
		w.expectCores("a Pod is pending", 2, 0)
		request, ok := apiserver.Get[*demandv1.CapacityRequest](w.api, "shop", translate.Name(p))
		if !ok || request.Status.Phase != demandv1.CapacityRequestAcknowledged || request.Status.AcknowledgedAt == nil {
			t.Errorf("request %+v", request)
		}
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_CREATING, 1)
		w.After(time.Second)
		w.expectShown("a machine is made", "m1 Provisioning")
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_CONFIGURED, 2)
		w.After(time.Second)
		w.expectShown("it has joined", "m1 Ready")
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "fake:///m1"}})
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1.NodeSpec{ProviderID: "other:///1"}})
		w.bind(p, "n1")
		w.bind(w.pod("foreign", "za", 8), "other")
		w.After(2 * time.Second)
		w.expectCores("one Pod runs on the machine, one on a foreign Node", 2, 0)
		if err := w.c.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := w.c.Delete(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		w.After(2 * time.Second)
		w.expectCores("the Pod is gone", 0, 0)
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_DRAINING, 3)
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_IDLE, 4)
		w.After(time.Second)
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_DELETED, 5)
		w.After(time.Second)
		w.expectShown("the machine is gone")
	})
}

func (w *world) bind(p *corev1.Pod, node string) {
	w.t.Helper()
	before := p.DeepCopy()
	p.Spec.NodeName = node
	if err := w.c.Patch(w.t.Context(), p, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// A shard without a session keeps its machines and is asked again when it is back; what it no
// longer has goes then, and nothing of the other shard.
func TestAShardComesBack(t *testing.T) {
	run(t, nil, func(_ *testing.T, w *world) {
		w.pod("p", "za", 2)
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_CONFIGURED, 1)
		w.state("a", "m2", demandpb.MachineState_MACHINE_STATE_CONFIGURED, 1)
		w.state("b", "m3", demandpb.MachineState_MACHINE_STATE_CONFIGURED, 1)
		w.After(2 * time.Second)
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"Session": shardtest.Refusal(codes.Unavailable, "TERM_ENDED", "no leader")}})
		w.Shard("a").Demand().End(testworld.Tenant, shardtest.Refusal(codes.Unavailable, "TERM_ENDED", "no leader"))
		w.After(time.Minute)
		w.expectShown("the shard is away", "m1 Ready", "m2 Ready", "m3 Ready")
		w.Shard("a").Demand().SetMachines(machine("m1", demandpb.MachineState_MACHINE_STATE_CONFIGURED, 7))
		w.Shard("a").Break(shardtest.Faults{})
		w.After(time.Minute)
		w.expectShown("it is back", "m1 Ready", "m3 Ready")
		w.expectCores("it is back", 2, 0)
		if resynced := slices.DeleteFunc(slices.Clone(w.resynced), func(s string) bool { return s != "a" }); len(resynced) != 2 {
			w.t.Errorf("resynced %v", w.resynced)
		}
	})
}

// An API server that is away for two minutes changes nothing of what is asked for, and what
// happened meanwhile is shown when it is back.
func TestTheAPIServerIsAway(t *testing.T) {
	run(t, nil, func(_ *testing.T, w *world) {
		w.pod("p", "za", 2)
		w.After(2 * time.Second)
		w.api.Away(2 * time.Minute)
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_CREATING, 1)
		w.After(time.Minute)
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_CONFIGURED, 2)
		w.After(50 * time.Second)
		w.expectCores("it is away", 2, 0)
		if n := w.Shard("a").Demand().Opened(); n != 1 {
			w.t.Errorf("%d sessions: the session does not outlive it", n)
		}
		w.After(time.Minute)
		w.expectShown("it is back", "m1 Ready")
	})
}

// A process that takes over asks for the same as the one before it, and leaves what is shown.
func TestAnotherProcessTakesOver(t *testing.T) {
	run(t, nil, func(_ *testing.T, w *world) {
		p := w.pod("p", "za", 2)
		w.state("a", "m1", demandpb.MachineState_MACHINE_STATE_CONFIGURED, 1)
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "fake:///m1"}})
		w.bind(p, "n1")
		w.After(2 * time.Second)
		w.stop()
		w.Shard("a").Demand().SetMachines(machine("m1", demandpb.MachineState_MACHINE_STATE_CONFIGURED, 1))
		changes := w.api.Changes()
		w.start(config.Demand{
			Enabled: true, PodSource: config.PodSourceDirect, Sessions: config.DemandSessions{Outbox: 1},
			Rollups: config.DemandRollups{Interval: 10 * time.Second, Acknowledgements: 1},
		})
		w.After(time.Minute)
		w.expectCores("another process", 2, 0)
		w.expectShown("another process", "m1 Ready")
		if n := w.api.Changes(); n != changes {
			w.t.Errorf("%d changes of objects for nothing", n-changes)
		}
	})
}

// What a shard could give is shown, and goes when nothing asks for it; a refusal is an event.
func TestOffersAndRefusals(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.pod("p", "za", 2)
		w.After(2 * time.Second)
		_, rows, _ := w.Shard("a").Demand().Rollups(testworld.Tenant)
		for _, fingerprint := range []string{rows[0].Fingerprint, "another"} {
			w.Shard("a").Demand().Tell(testworld.Tenant, &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_AvailableCapacity{AvailableCapacity: &demandpb.AvailableCapacityUpdate{
				Fingerprint: fingerprint, Confidence: demandpb.Confidence_CONFIDENCE_NONE, ShortfallReason: "NoMatchingOffer",
				Shortfall: []*demandpb.ResourceAmount{{Name: "cpu", Amount: 2000}},
			}}})
		}
		w.After(time.Second)
		if n := len(apiserver.All[*demandv1.AvailableCapacity](w.api)); n != 2 {
			t.Errorf("%d objects", n)
		}
		w.After(time.Minute)
		all := apiserver.All[*demandv1.AvailableCapacity](w.api)
		if len(all) != 1 || all[0].Spec.ProfileFingerprint != rows[0].Fingerprint || all[0].Status.Shortfall.Reason != "NoMatchingOffer" {
			t.Errorf("shown %+v", all)
		}
		w.Shard("b").Break(shardtest.Faults{Refuse: map[string]error{"Session": shardtest.Refusal(codes.PermissionDenied, "WRONG_IDENTITY", "another tenant")}})
		w.Shard("b").Demand().End(testworld.Tenant, shardtest.Refusal(codes.Unavailable, "", "gone"))
		w.After(2 * time.Minute)
		if len(w.warnings) != 1 || !strings.HasPrefix(w.warnings[0], "DemandSessionRefused: shard b refuses") {
			t.Errorf("events %q", w.warnings)
		}
	})
}
