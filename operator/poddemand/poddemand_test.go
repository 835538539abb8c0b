package poddemand

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/demand/capacityrequest"
	"nstance.dev/operator/demand/penaltyfile"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/testworld"
	"nstance.dev/operator/testworld/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow is an API server that takes its time for lists of Pods, and for each call.
type slow struct{ list, call time.Duration }

func (s slow) Call(c apiserver.Call) apiserver.Fault {
	if c.Verb == "list" && c.Kind == "Pod" {
		return apiserver.Fault{Latency: s.list}
	}
	return apiserver.Fault{Latency: s.call}
}

func (slow) Lag(string, string, int) (time.Duration, bool) { return 10 * time.Millisecond, false }

// nowhere is a network without anything: the API server is reached by other ways.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("there is no network here")
}

// cached reads from caches.
type cached struct {
	client.Client

	reader client.Reader
}

// Get implements [client.Reader].
func (c cached) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o, opts...)
}

// List implements [client.Reader].
func (c cached) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, o, opts...)
}

// world is the controller in a manager of its own, with the caches that it has in production.
type world struct {
	t    *testing.T
	api  *apiserver.Server
	user client.Client
	s    config.DemandPods
	end  func() error

	mu    sync.Mutex
	calls map[string]int // by the controller, by verb and kind
}

func run(t *testing.T, faults apiserver.Faults, change func(*config.DemandPods), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, calls: map[string]int{}, s: config.DemandPods{
			Workers: 16, PageSize: 500, Alternatives: true, VolumeTopology: true, PenaltyPrefixes: []string{"nstance.dev"},
		}}
		if change != nil {
			change(&w.s)
		}
		w.api = apiserver.New(apiserver.Options{
			Test: t, Faults: faults, Changed: w.note,
			Kinds: []func(*runtime.Scheme) error{demandv1.AddToScheme, func(s *runtime.Scheme) error {
				s.AddKnownTypes(storagev1.SchemeGroupVersion, &storagev1.StorageClass{}, &storagev1.StorageClassList{})
				return nil
			}},
		})
		w.user = w.api.Client("user")
		w.end = func() error { return nil }
		defer func() {
			if err := w.end(); err != nil {
				t.Error(err)
			}
		}()
		test(t, w)
	})
}

func (w *world) note(c apiserver.Change) {
	if c.By == Name {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls[c.Verb+" "+c.Kind]++
	}
}

// start starts the controller; end, which ends it, returns why it ended before.
func (w *world) start() {
	w.t.Helper()
	yes, no, soon := true, false, 10*time.Second
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://test", Transport: nowhere{}}, ctrl.Options{
		Scheme: w.api.Scheme(), Cache: cacheOptions(w.s), NewCache: w.api.NewCache(Name), Logger: logr.Discard(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return w.api.Mapper(), nil },
		NewClient: func(_ *rest.Config, o client.Options) (client.Client, error) {
			return cached{w.api.Client(Name), o.Cache.Reader}, nil
		},
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", GracefulShutdownTimeout: &soon,
		Controller: ctrlconfig.Controller{SkipNameValidation: &yes, RecoverPanic: &no},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var log testworld.Log
	penalties, err := penaltyfile.Open(w.s.PenaltyFile, log.Logger())
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	err = Parts{
		Manager: mgr, Pods: mgr, Settings: w.s, CacheSync: 10 * time.Minute, Penalties: penalties, Metrics: metrics.NewPods(prometheus.NewRegistry()),
		Events: &testworld.Events{}, Log: log.Logger(),
	}.add(ctx, w.api.Client(Name))
	if err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _ = penalties.Run(ctx) }()
	go func() { ended <- mgr.Start(ctx) }()
	w.end = func() error {
		stop()
		err := <-ended
		w.end = func() error { return nil }
		return err
	}
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.user.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// after waits, and returns the requests by their names.
func (w *world) after(d time.Duration) map[string]demandv1.CapacityRequest {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	var list demandv1.CapacityRequestList
	if err := w.user.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]demandv1.CapacityRequest{}
	for _, r := range list.Items {
		all[r.Name] = r
	}
	return all
}

func (w *world) called() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.calls)
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// Where the first list of Pods takes a minute nothing is written before it has come, and then each Pod gets one
// request, once: a request and its status are two writes, and nothing else is.
func TestManyPodsAndASlowList(t *testing.T) {
	const pods = 200
	run(t, slow{list: time.Minute, call: time.Millisecond}, nil, func(t *testing.T, w *world) {
		for i := range pods {
			w.create(pod(fmt.Sprintf("web-%d", i)))
		}
		w.start()
		if n := len(w.after(59 * time.Second)); n > 0 {
			t.Errorf("%d requests were made before the Pods were known", n)
		}
		if n := len(w.after(2 * time.Minute)); n != pods {
			t.Errorf("%d requests, want %d", n, pods)
		}
		want := map[string]int{"create CapacityRequest": pods, "patch CapacityRequest": pods}
		if got := w.called(); !maps.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
		w.after(time.Hour)
		if got := w.called(); !maps.Equal(got, want) {
			t.Errorf("calls after an hour of nothing %v, want %v", got, want)
		}
	})
}

// What has happened to Pods while no controller ran is made up for after its start: at once for a new one, within half
// a minute for one that was resized.
func TestWhatHappenedWhileNoControllerRan(t *testing.T) {
	run(t, slow{call: time.Millisecond}, nil, func(t *testing.T, w *world) {
		w.start()
		resized := pod("resized")
		w.create(resized)
		processors := func(all map[string]demandv1.CapacityRequest) string {
			cpu := all[translate.Name(resized)].Spec.Resources.Requests[corev1.ResourceCPU]
			return cpu.String()
		}
		if cpu := processors(w.after(time.Second)); cpu != "1" {
			t.Errorf("the Pod asks for %s processors", cpu)
		}
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		resized.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
		if err := w.user.Update(t.Context(), resized); err != nil {
			t.Fatal(err)
		}
		w.create(pod("another"))
		w.start()
		if all := w.after(time.Second); len(all) != 2 || processors(all) != "1" {
			t.Errorf("soon after the start the resized Pod asks for %s processors; requests %v", processors(all), slices.Sorted(maps.Keys(all)))
		}
		if cpu := processors(w.after(capacityrequest.Settling)); cpu != "2" {
			t.Errorf("the resized Pod asks for %s processors", cpu)
		}
	})
}

// Two processes at once, as while one takes over from another, make one request of each Pod.
func TestAnotherProcessHasMadeTheRequest(t *testing.T) {
	run(t, slow{call: 50 * time.Millisecond}, nil, func(t *testing.T, w *world) {
		w.start()
		first := w.end
		w.start()
		second := w.end
		w.end = func() error { return errors.Join(first(), second()) }
		w.create(pod("web"))
		all := w.after(time.Minute)
		if len(all) != 1 {
			t.Errorf("%d requests", len(all))
		}
		for _, r := range all {
			if r.Status.Phase != demandv1.CapacityRequestPending {
				t.Errorf("status %+v", r.Status)
			}
		}
	})
}

// A request that was acknowledged before its status was written may become Pending once, and is acknowledged with the
// next roll-up; the controller leaves the phase of a request alone that has one.
func TestThePhaseMayFlapOnce(t *testing.T) {
	run(t, slow{}, nil, func(t *testing.T, w *world) {
		w.start()
		w.create(pod("web"))
		var name string
		for made := range w.after(time.Second) {
			name = made
		}
		acknowledge := func() {
			t.Helper()
			r := &demandv1.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Acknowledged"}}`))
			if err := w.user.Status().Patch(t.Context(), r, patch); err != nil {
				t.Fatal(err)
			}
		}
		acknowledge()
		var p corev1.Pod
		if err := w.user.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &p); err != nil {
			t.Fatal(err)
		}
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2") // a resize in place
		if err := w.user.Update(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
		r := w.after(time.Minute)[name]
		if q := r.Spec.Resources.Requests[corev1.ResourceCPU]; q.String() != "2" || r.Status.Phase != demandv1.CapacityRequestAcknowledged {
			t.Errorf("it asks for %v, phase %s", q.String(), r.Status.Phase)
		}
	})
}

// Default penalties that change are in the requests of the Pods of their class within seconds, and in no others.
func TestPenaltiesOfClassesAreFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "classes.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`priorityClasses: {payments: {interruptionPenalty: "50"}}`)
	run(t, slow{}, func(s *config.DemandPods) { s.PenaltyFile = path }, func(t *testing.T, w *world) {
		w.start()
		w.create(pod("pay", func(p *corev1.Pod) { p.Spec.PriorityClassName = "payments" }), pod("other"))
		penalties := func() (all []string) {
			for _, r := range w.after(penaltyfile.Interval + time.Second) {
				all = append(all, r.OwnerReferences[0].Name+" "+r.Spec.InterruptionPenalty.String())
			}
			slices.Sort(all)
			return all
		}
		if got := penalties(); !slices.Equal(got, []string{"other <nil>", "pay 50"}) {
			t.Errorf("penalties %q", got)
		}
		write(`priorityClasses: {payments: {interruptionPenalty: "7"}}`)
		if got := penalties(); !slices.Equal(got, []string{"other <nil>", "pay 7"}) {
			t.Errorf("after a change %q", got)
		}
	})
}

// A Pod whose volume is in the second of three zones asks there alone, when it goes to zero and comes back; a claim that
// waits for its first consumer asks for an allowed zone. Each of claim, volume and class may come last.
func TestZonalVolumes(t *testing.T) {
	fast := "fast"
	class := func() *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: fast}, Provisioner: "example.com/disk",
			AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{"b", "c"}}}}},
		}
	}
	claim := func(volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0"},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &fast, VolumeName: volume},
		}
	}
	volume := func() *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data-db-0"},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
			}}}},
		}}
	}
	db := func() *corev1.Pod {
		return pod("db-0", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}}}
		})
	}
	for name, order := range map[string][]client.Object{
		"the Pod last":    {class(), volume(), claim("pv"), db()},
		"the volume last": {db(), class(), claim("pv"), volume()},
		"the claim last":  {db(), class(), volume(), claim("pv")},
		"not bound":       {class(), claim(""), db()},
		"the class last":  {claim(""), db(), class()},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, slow{}, nil, func(t *testing.T, w *world) {
				w.start()
				w.after(time.Second)
				for _, o := range order {
					w.create(o)
					w.after(time.Second)
				}
				want := []string{"b"}
				if _, bound := order[len(order)-1].(*storagev1.StorageClass); bound || name == "not bound" {
					want = []string{"b", "c"}
				}
				for range 2 { // the second time after it was at zero
					all := w.after(time.Second)
					if len(all) != 1 {
						t.Fatalf("%d requests", len(all))
					}
					for _, r := range all {
						if got := r.Spec.Requirements; len(got) != 1 || got[0].Key != corev1.LabelTopologyZone || !slices.Equal(got[0].Values, want) {
							t.Errorf("requirements %v, want zones %v", got, want)
						}
					}
					if err := w.user.Delete(t.Context(), db()); err != nil {
						t.Fatal(err)
					}
					for _, r := range w.after(time.Second) { // the API server deletes what the Pod owned
						if err := w.user.Delete(t.Context(), &r); err != nil {
							t.Fatal(err)
						}
					}
					w.after(time.Second)
					w.create(db())
				}
			})
		})
	}
}

// TestProfilesAreServedWhereTheFlagSays, and nowhere without it.
func TestProfilesAreServedWhereTheFlagSays(t *testing.T) {
	for flag, want := range map[string]string{"": "0", "--pprof-bind-address=127.0.0.1:6060": "127.0.0.1:6060"} {
		s, err := config.PodDemand.ParseFlags(strings.Fields(flag), func(string) string { return "" }, "nstance")
		if err != nil {
			t.Fatal(err)
		}
		o, err := managerOptions(s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if o.PprofBindAddress != want {
			t.Errorf("with %q profiles are served at %q, want %q", flag, o.PprofBindAddress, want)
		}
	}
}
