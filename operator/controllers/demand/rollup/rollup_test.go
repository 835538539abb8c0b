package rollup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/demand/rollup"
	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/informers"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/testworld"
	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sent is one roll-up that was queued.
type sent struct {
	at        time.Duration // since the test began
	shard     string
	cores     int64
	overheads int
	stuck     int
}

// world is a controller that runs.
type world struct {
	t     *testing.T
	c     *rollup.Controller
	api   client.WithWatch
	cache cached
	began time.Time
	log   testworld.Log

	mu       sync.Mutex
	shards   []split.Shard
	machines []rollup.Machine
	unknown  map[string]bool // shards that have not said which machines they have
	away     map[string]bool // shards without a session
	sent     []sent
	patches  []string
	busy     int // patches under way
	most     int
	block    chan struct{}
	fail     error
	asked    int
	skipped  int
}

func run(t *testing.T, change func(*rollup.Options), test func(t *testing.T, w *world)) {
	t.Helper()
	runFrom(t, nil, change, test)
}

// runFrom does that with a controller that watches the objects of a cache first; nil: it is told of them.
func runFrom(t *testing.T, objects func() informers.Source, change func(*rollup.Options), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, began: time.Now(), shards: []split.Shard{{ID: "a"}}, unknown: map[string]bool{}, away: map[string]bool{}}
		w.api = testworld.NewClientBuilder(t).WithStatusSubresource(&demandv1.CapacityRequest{}).Build()
		w.cache = cached{Reader: w.api, objects: map[client.ObjectKey]client.Object{}}
		writer := interceptor.NewClient(w.api, interceptor.Funcs{SubResourcePatch: w.patch})
		o := rollup.Options{
			Tally: tally.Options{Surcharge: true}, Overheads: true, Interval: 10 * time.Second, Least: time.Second, Acknowledgements: 16,
			Translation: func() translate.Options { return translate.Options{VolumeTopology: true} },
			Cache:       &w.cache, Writer: writer, Log: w.log.Logger(),
			Shards: func() []split.Shard {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.shards
			},
			Machines: func() []rollup.Machine {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.machines
			},
			Known: func(shard string) bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return !w.unknown[shard]
			},
			Send: w.send,
			Asked: func(map[string]bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.asked++
			},
			Observer: rollup.Observer{
				Built:    func(_, _, _ time.Duration, _, skipped int) { w.skipped = skipped },
				Mismatch: func() { t.Error("sums do not match") },
			},
		}
		if change != nil {
			change(&o)
		}
		w.c = rollup.New(o)
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() {
			if objects != nil {
				if err := w.c.Watch(ctx, objects()); err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("Watch returned %v", err)
					}
					return
				}
			}
			if err := w.c.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
		})
		defer loop.Wait()
		defer stop()
		test(t, w)
	})
}

// cached is a cache that has the Pods and requests which were heard of, and all else from elsewhere.
type cached struct {
	client.Reader

	mu      sync.Mutex
	broken  error
	objects map[client.ObjectKey]client.Object // a Pod and a request have different names here
}

// Get implements [client.Reader].
func (c *cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	o, there := c.objects[key]
	switch into := into.(type) {
	case *corev1.Pod:
		if p, ok := o.(*corev1.Pod); ok {
			p.DeepCopyInto(into)
			return nil
		}
	case *demandv1.CapacityRequest:
		if r, ok := o.(*demandv1.CapacityRequest); ok {
			r.DeepCopyInto(into)
			return nil
		}
	}
	if there {
		return fmt.Errorf("%s is a %T", key, o)
	}
	return c.Reader.Get(ctx, key, into, opts...)
}

// fail has all reads fail, until it gets nil.
func (c *cached) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
}

func (c *cached) put(o client.Object, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.objects, client.ObjectKeyFromObject(o)); !gone {
		c.objects[client.ObjectKeyFromObject(o)] = o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it panics
	}
}

// pod puts a Pod into the cache, and has the controller hear of it.
func (w *world) pod(p *corev1.Pod, gone bool) {
	w.cache.put(p, gone)
	w.c.Pod(p, gone)
}

// request does that with a request.
func (w *world) request(r *demandv1.CapacityRequest, gone bool) {
	w.cache.put(r, gone)
	w.c.Request(r, gone)
}

func (w *world) send(shard string, rows []*needs.Row, overheads []needs.Overhead) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away[shard] {
		return false
	}
	s := sent{at: time.Since(w.began), shard: shard, overheads: len(overheads)}
	for _, r := range rows {
		if r.Stuck > 0 {
			s.stuck++
		}
		for _, a := range r.Aggregate {
			if a.Name == "cpu" {
				s.cores += a.Amount / 1000
			}
		}
	}
	w.sent = append(w.sent, s)
	return true
}

func (w *world) patch(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	data, _ := p.Data(o)
	w.mu.Lock()
	w.patches = append(w.patches, o.GetName()+" "+string(data))
	w.busy++
	w.most = max(w.most, w.busy)
	block, err := w.block, w.fail
	w.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	w.mu.Lock()
	w.busy--
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return c.SubResource(sub).Patch(ctx, o, p, opts...)
}

// take returns the roll-ups since the last call.
func (w *world) take() []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.sent
	w.sent = nil
	return all
}

func (w *world) patched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.patches
	w.patches = nil
	return all
}

// last checks what the last roll-up of shard a asks for.
func (w *world) last(what string, cores int64) {
	w.t.Helper()
	all := slices.DeleteFunc(w.take(), func(s sent) bool { return s.shard != "a" })
	if len(all) == 0 || all[len(all)-1].cores != cores {
		w.t.Errorf("%s: sent %+v, want %d cores at last", what, all, cores)
	}
}

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func set(w *world, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func pod(name string, cores int64, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI)},
		}}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// requestOf is the CapacityRequest of a Pod, as the API server has it.
func (w *world) requestOf(p *corev1.Pod) *demandv1.CapacityRequest {
	w.t.Helper()
	r := translate.Object(p, translate.Build(p, translate.Volumes{}, translate.Options{}).Spec)
	r.UID, r.Generation = "req-"+p.UID, 3
	if err := w.api.Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func node(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "za"}}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// A roll-up goes out when a session begins, at the interval, and soon after the last of many
// changes, at the latest a second after the first.
func TestWhenRollupsAreSent(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.pod(pod("p", 2), false)
		w.after(time.Minute)
		if all := w.take(); len(all) > 0 {
			t.Errorf("sent without a session: %+v", all)
		}
		w.c.Opened("a")
		w.after(21 * time.Second)
		want := []sent{{at: time.Minute, shard: "a", cores: 2}, {at: 70 * time.Second, shard: "a", cores: 2}, {at: 80 * time.Second, shard: "a", cores: 2}}
		if all := w.take(); !slices.Equal(all, want) {
			t.Errorf("sent %+v, want %+v", all, want)
		}
		for i := range 8 {
			w.pod(pod(fmt.Sprint("q", i), 1), false)
			w.after(100 * time.Millisecond)
		}
		w.after(200 * time.Millisecond)
		if all := w.take(); len(all) != 1 || all[0].cores != 10 || all[0].at != 81900*time.Millisecond {
			t.Errorf("after changes: %+v", all)
		}
		w.pod(pod("p", 2), false) // nothing new
		w.after(5 * time.Second)
		if all := w.take(); len(all) > 0 {
			t.Errorf("sent for nothing: %+v", all)
		}
		w.c.Answered("a", true)
		w.c.Closed("a")
		w.after(time.Minute)
		if all := w.take(); len(all) > 0 {
			t.Errorf("sent after the session: %+v", all)
		}
	})
}

// What a shard holds back is repeated after ten seconds, whatever the interval.
func TestHeld(t *testing.T) {
	run(t, func(o *rollup.Options) { o.Interval = time.Hour }, func(t *testing.T, w *world) {
		w.c.Opened("a")
		w.after(5 * time.Second)
		w.c.Answered("a", true)
		w.after(9 * time.Second)
		if all := w.take(); len(all) != 1 {
			t.Errorf("sent %+v", all)
		}
		w.after(2 * time.Second)
		if all := w.take(); len(all) != 1 || all[0].at != 15*time.Second {
			t.Errorf("what was held is not repeated: %+v", all)
		}
	})
}

// A shard takes what it held for twenty seconds, which it counts from when the first roll-up came. That one may
// have taken longer on its way than those that repeat it, and must not be repeated for once more because of that.
func TestHeldNoLongerThanItHasTo(t *testing.T) {
	for _, interval := range []time.Duration{time.Hour, 10 * time.Second, 5 * time.Second, 3 * time.Second} {
		run(t, func(o *rollup.Options) { o.Interval = interval }, func(t *testing.T, w *world) {
			const slow, quick = 300 * time.Millisecond, time.Millisecond
			w.c.Opened("a")
			w.after(slow)
			first, begin := w.take()[0].at, time.Duration(0)
			first += slow // when it came to the shard
			w.c.Answered("a", true)
			took := time.Duration(0)
			for took == 0 && begin < time.Minute {
				w.after(quick)
				begin += quick
				for _, s := range w.take() {
					if s.at+quick-first >= 20*time.Second {
						took = s.at + quick - first
					} else {
						w.c.Answered("a", true)
					}
				}
			}
			if took == 0 || took > 21*time.Second {
				t.Errorf("an interval of %v: the shard takes it %v after the first", interval, took)
			}
		})
	}
}

// Nothing goes to a shard before it is known which machines it has, unless that takes too long.
func TestMachinesFirst(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		set(w, func() { w.unknown["a"] = true })
		w.c.Opened("a")
		w.after(20 * time.Second)
		if all := w.take(); len(all) > 0 {
			t.Errorf("sent before the machines are known: %+v", all)
		}
		set(w, func() { w.unknown["a"] = false })
		w.after(time.Second)
		if len(w.take()) != 1 {
			t.Error("not sent though the machines are known")
		}
		w.c.Closed("a")
		set(w, func() { w.unknown["a"] = true })
		w.c.Opened("a")
		w.after(29 * time.Second)
		if len(w.take()) > 0 {
			t.Error("sent before the machines are known")
		}
		if w.after(2 * time.Second); len(w.take()) != 1 {
			t.Error("never sent")
		}
	})
}

// Pods on Nodes of nobody's are left out; a Node is a machine's by the inventory or by an
// UpcomingNode.
func TestForeignNodes(t *testing.T) {
	run(t, nil, func(_ *testing.T, w *world) {
		w.c.Opened("a")
		w.c.Node(node("foreign", "other:///1"), false)
		w.c.Node(node("listed", "fake:///2"), false)
		w.c.Node(node("upcoming", "fake:///3"), false)
		set(w, func() {
			w.machines = []rollup.Machine{{Shard: "a", Instance: nodes.Instance{ID: "m2", ProviderURI: "fake:///2"}}}
		})
		w.c.UpcomingNode(&demandv1.UpcomingNode{
			ObjectMeta: metav1.ObjectMeta{Name: "m3"}, Spec: demandv1.UpcomingNodeSpec{MachineID: "m3", Shard: "a"}, Status: demandv1.UpcomingNodeStatus{ProviderID: "fake:///3"},
		}, false)
		w.pod(pod("p1", 1, on("foreign")), false)
		w.pod(pod("p2", 2, on("listed")), false)
		w.pod(pod("p3", 4, on("upcoming")), false)
		w.pod(pod("p4", 8), false)
		w.after(2 * time.Second)
		w.last("at first", 14)
		set(w, func() {
			w.machines = append(w.machines, rollup.Machine{Shard: "a", Instance: nodes.Instance{ID: "m1", ProviderURI: "other:///1"}})
		})
		w.after(11 * time.Second)
		w.last("the inventory learns of a machine", 15)
		drained := node("listed", "fake:///2")
		drained.Spec.Unschedulable, drained.Annotations = true, map[string]string{infrav1.AnnotationCordonedBy: "nstance-operator"}
		w.c.Node(drained, false)
		w.after(2 * time.Second)
		w.last("a bare Pod ends with its draining Node", 13)
		w.c.Node(drained, true)
		w.after(2 * time.Second)
		w.last("the Node is gone", 15)
	})
}

// Pods that have ended or are of a DaemonSet ask for nothing; what machines carry for DaemonSets
// is said beside.
func TestDaemonSets(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.c.Opened("a")
		synctest.Wait()
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent"}, Spec: appsv1.DaemonSetSpec{
			Template: corev1.PodTemplateSpec{Spec: pod("x", 1).Spec},
		}}
		if err := w.api.Create(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		w.after(time.Second)
		w.take()
		w.c.DaemonSets()
		controller := true
		w.pod(pod("agent-1", 1, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: &controller}}
		}), false)
		w.pod(pod("done", 1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), false)
		w.after(2 * time.Second)
		if all := w.take(); len(all) != 1 || all[0].cores != 0 || all[0].overheads != 1 {
			t.Errorf("sent %+v, want one roll-up with one overhead", all)
		}
		w.c.DaemonSets()
		w.after(2 * time.Second)
		if all := w.take(); len(all) > 0 {
			t.Errorf("sent for nothing: %+v", all)
		}
	})
}

// A request that was part of a roll-up is acknowledged by one patch, and never twice; what fails
// is left to the next roll-up.
func TestAcknowledge(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		p := pod("p", 1)
		r := w.requestOf(p)
		w.pod(p, false)
		w.request(r, false)
		w.after(time.Second)
		if got := w.patched(); len(got) > 0 {
			t.Errorf("acknowledged without a roll-up: %q", got)
		}
		set(w, func() { w.fail = errors.New("the API server is away") })
		w.c.Opened("a")
		w.after(time.Second)
		set(w, func() { w.fail = nil })
		if got := w.patched(); len(got) != 1 {
			t.Errorf("patches %q", got)
		}
		w.after(10 * time.Second)
		got := w.patched()
		if len(got) != 1 {
			t.Fatalf("patches %q", got)
		}
		var patch struct {
			Status map[string]any `json:"status"`
		}
		_, text, _ := cut(got[0])
		if err := json.Unmarshal([]byte(text), &patch); err != nil || len(patch.Status) != 3 || patch.Status["phase"] != "Acknowledged" ||
			patch.Status["observedGeneration"] != 3.0 || patch.Status["acknowledgedAt"] == nil {
			t.Errorf("patch %s: %v", text, err)
		}
		var now demandv1.CapacityRequest
		if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(r), &now); err != nil {
			t.Fatal(err)
		}
		w.request(&now, false)
		w.after(30 * time.Second)
		if got := w.patched(); len(got) > 0 {
			t.Errorf("acknowledged twice: %q", got)
		}
		w.log.Take()
		set(w, func() { w.fail = apierrors.NewNotFound(schema.GroupResource{}, "p") })
		w.request(w.requestOf(pod("gone", 1)), false)
		w.after(2 * time.Second)
		if log := w.log.Take(); len(w.patched()) != 1 || log != "" {
			t.Errorf("a request that is gone: %s", log)
		}
	})
}

func cut(line string) (name, rest string, ok bool) {
	for i := range line {
		if line[i] == ' ' {
			return line[:i], line[i+1:], true
		}
	}
	return line, "", false
}

// At most 16 patches are under way, no request is patched while it is being patched, and roll-ups
// do not wait for them.
func TestAcknowledgementsAreBounded(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		block := make(chan struct{})
		set(w, func() { w.block = block })
		for i := range 100 {
			p := pod(fmt.Sprint("p", i), 1)
			w.pod(p, false)
			w.request(w.requestOf(p), false)
		}
		w.c.Opened("a")
		w.after(25 * time.Second)
		if all := w.take(); len(all) != 3 || w.most != 16 || len(w.patched()) != 16 {
			t.Errorf("%d roll-ups, %d patches at once", len(all), w.most)
		}
		set(w, func() { w.block = nil })
		close(block)
		synctest.Wait()
		if n := len(w.patched()); n != 84 {
			t.Errorf("%d further patches, want 84", n)
		}
	})
}

// Requests of a shard without a session are not acknowledged, and those of others are.
func TestShardsWithoutSession(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		set(w, func() { w.shards = []split.Shard{{ID: "a", Zone: "za"}, {ID: "b", Zone: "zb"}} })
		for _, zone := range []string{"za", "zb"} {
			p := pod("p-"+zone, 1, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone} })
			w.pod(p, false)
			w.request(w.requestOf(p), false)
		}
		w.c.Opened("a")
		w.after(time.Second)
		got := w.patched()
		if len(got) != 1 || got[0][:5] != "p-za-" {
			t.Errorf("acknowledged %q", got)
		}
		w.c.Opened("b")
		w.after(time.Second)
		if got := w.patched(); len(got) != 1 || got[0][:5] != "p-zb-" {
			t.Errorf("acknowledged %q with the session of b", got)
		}
	})
}

// A claim that is bound later keeps its Pod in the volume's zone.
func TestClaims(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		set(w, func() { w.shards = []split.Shard{{ID: "a", Zone: "za"}, {ID: "b", Zone: "zb"}} })
		w.c.Opened("a")
		w.c.Opened("b")
		w.pod(pod("p", 1, func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}), false)
		w.after(2 * time.Second)
		for _, zone := range []string{"zb", "za"} {
			for _, o := range []client.Object{
				&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}},
				&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
					ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "c"},
					NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
					}}}},
				}},
			} {
				_ = w.api.Delete(t.Context(), o)
				o.SetResourceVersion("")
				if err := w.api.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				if v, ok := o.(*corev1.PersistentVolume); ok {
					w.c.Volume(v)
				}
			}
			w.after(2 * time.Second)
			cores := map[string]int64{}
			for _, s := range w.take() {
				cores[s.shard] = s.cores
			}
			if want := map[string]int64{"a": 1, "b": 0}; zone == "za" && (cores["a"] != want["a"] || cores["b"] != want["b"]) || zone == "zb" && cores["b"] != 1 {
				t.Errorf("zone %s: %v", zone, cores)
			}
		}
		w.c.StorageClasses()
		w.after(2 * time.Second)
		if all := w.take(); len(all) > 0 {
			t.Errorf("sent for nothing: %+v", all)
		}
	})
}

// A Pod that stays unschedulable is sent in a row of its own.
func TestStuck(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.c.Opened("a")
		w.pod(pod("p", 1, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now(),
			}}
		}), false)
		w.after(50 * time.Second)
		for _, s := range w.take() {
			if s.cores != 1 || s.stuck != 0 {
				t.Errorf("not for long: %+v", s)
			}
		}
		w.c.Capacity("a", &demandpb.AvailableCapacityUpdate{Fingerprint: "another"})
		w.after(20 * time.Second)
		if all := w.take(); all[len(all)-1].cores != 1 || all[len(all)-1].stuck != 1 {
			t.Errorf("for long: %+v", all)
		}
	})
}

// Full checks find nothing wrong, and each round says what is asked for.
func TestFullCheck(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		for i := range 2000 {
			w.pod(pod(fmt.Sprint("p", i), int64(1+i%7)), false)
		}
		w.c.Opened("a")
		w.after(11 * time.Minute)
		if w.asked < 60 || w.skipped != 0 {
			t.Errorf("%d rounds, %d skipped", w.asked, w.skipped)
		}
	})
}

// A Pod that has to be in the zone of another one counts in the shard of that zone, and goes there as soon as the other
// one runs, whether it names the namespace of the other one or selects it.
func TestAPodGoesToTheZoneOfThoseItHasToBeNear(t *testing.T) {
	shards := []split.Shard{{ID: "a", Zone: "za"}, {ID: "b", Zone: "zb"}, {ID: "c", Zone: "zc"}}
	db := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	selected := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y"}}}}
	for _, term := range []struct {
		name string
		corev1.PodAffinityTerm
		finds bool
	}{
		{"its own namespace", corev1.PodAffinityTerm{LabelSelector: db}, true},
		{"a namespace by name", corev1.PodAffinityTerm{LabelSelector: db, Namespaces: []string{"other", "shop"}}, true},
		{"a selected namespace", corev1.PodAffinityTerm{LabelSelector: db, NamespaceSelector: selected}, true},
		{"selected or named", corev1.PodAffinityTerm{LabelSelector: db, NamespaceSelector: selected, Namespaces: []string{"shop"}}, true},
		{"every namespace", corev1.PodAffinityTerm{LabelSelector: db, NamespaceSelector: &metav1.LabelSelector{}}, true},
		{"another one by name", corev1.PodAffinityTerm{LabelSelector: db, Namespaces: []string{"other"}}, false},
		{"selected ones without it", corev1.PodAffinityTerm{LabelSelector: db, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "z"}}}, false},
	} {
		for _, zone := range shards {
			t.Run(term.name+" in "+zone.ID, func(t *testing.T) { goesNear(t, shards, zone, term.PodAffinityTerm, term.finds) })
		}
	}
}

// goesNear has a Pod wait for one that starts to run in a zone, and expects it to go there, or to stay where it was.
func goesNear(t *testing.T, shards []split.Shard, zone split.Shard, term corev1.PodAffinityTerm, finds bool) {
	run(t, func(o *rollup.Options) { o.Shards = func() []split.Shard { return shards } }, func(t *testing.T, w *world) {
		where := func() (shard string) {
			for _, s := range w.take() {
				if s.cores >= 7 {
					shard = s.shard
				}
			}
			return shard
		}
		for _, s := range shards {
			n := node("n-"+s.ID, "p://"+s.ID)
			n.Labels[corev1.LabelTopologyZone] = s.Zone
			w.c.Node(n, false)
			set(w, func() {
				w.machines = append(w.machines, rollup.Machine{Shard: s.ID, Instance: nodes.Instance{ID: "i-" + s.ID, ProviderURI: "p://" + s.ID}})
			})
			w.c.Opened(s.ID)
		}
		database := pod("db", 1, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} })
		for _, o := range []client.Object{
			database.DeepCopy(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: database.Namespace, Labels: map[string]string{"team": "x"}}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "z"}}},
		} {
			if err := w.api.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		w.pod(database, false)
		term.TopologyKey = corev1.LabelTopologyZone
		w.pod(pod("web", 7, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
		}), false)
		w.after(time.Minute)
		before := where()
		if before == "" {
			t.Fatal("the Pod counts nowhere while nothing runs")
		}
		placed := database.DeepCopy()
		on("n-" + zone.ID)(placed)
		if err := w.api.Delete(t.Context(), database.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Create(t.Context(), placed.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		w.pod(placed, false)
		w.after(11 * time.Second)
		want := zone.ID
		if !finds {
			want = before
		}
		if got := where(); got != want {
			t.Errorf("the other Pod runs in shard %s, this one counted in %s, and now in %s", zone.ID, before, got)
		}
	})
}

// What was heard of is read when it is looked at: another Pod may have its name by then, and what cannot be read counts
// as it did.
func TestWhatIsReadIsNotWhatWasHeard(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.c.Opened("a")
		w.pod(pod("p", 2), false)
		w.after(time.Minute)
		w.last("a Pod", 2)

		w.cache.fail(errors.New("no such informer"))
		w.c.Pod(pod("p", 2), false)
		w.c.TranslationChanged()
		w.after(time.Minute)
		w.last("the cache fails", 2)
		w.cache.fail(nil)

		// It was made again, and the news of that come one by one.
		again := pod("p", 5, func(p *corev1.Pod) { p.UID = "another" })
		w.cache.put(again, false)
		w.c.Pod(pod("p", 2), false)
		w.after(time.Minute)
		w.last("the first one has gone", 0)
		w.c.Pod(again, false)
		w.c.Pod(pod("p", 2), true)
		w.after(time.Minute)
		w.last("the second one is there", 5)
	})
}
