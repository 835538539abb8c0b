package manager

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
)

// What wakes the drain engine is set up after it was made: requests may come as soon as it is.
func TestTheDrainEngineComesFirst(t *testing.T) {
	at := func(name string) int {
		return slices.IndexFunc(features, func(f feature) bool { return f.name == name })
	}
	for _, wakes := range []feature{hostNodeFeature, demandFeature} {
		if engine, it := at(drainFeature.name), at(wakes.name); engine < 0 || it < 0 || it < engine {
			t.Errorf("feature %s starts at place %d, and the drain engine is made at %d", wakes.name, it, engine)
		}
	}
}

// A feature that is off needs no kind, no right and nothing of a Pod.
func TestAFeatureThatIsOffNeedsNothing(t *testing.T) {
	kept := features
	defer func() { features = kept }()
	lone := kind{version: infrav1.GroupVersion, object: &infrav1.NstanceMachineTemplate{}}
	features = []feature{
		{name: "one", kinds: []kind{{version: infrav1.GroupVersion, object: &infrav1.NstanceMachine{}}}, rights: []Right{to("get list", WorkloadCluster, core, "pods")}},
		{
			name: "other", on: func(s config.Settings) bool { return s.OnDemand != config.OnDemandOff },
			kinds: []kind{lone}, rights: []Right{to("watch list", WorkloadCluster, core, "pods"), to("create", InNamespace, core, "secrets")},
			pods: func(config.Settings) func(from, into *corev1.Pod) {
				return func(from, into *corev1.Pod) { into.Spec.NodeName = from.Spec.NodeName }
			},
		},
		{name: "third", pods: func(config.Settings) func(from, into *corev1.Pod) {
			return func(from, into *corev1.Pod) { into.Labels = from.Labels }
		}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
		Spec:       corev1.PodSpec{NodeName: "n", HostNetwork: true},
	}
	named := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}}}
	bound := named.DeepCopy()
	bound.Spec.NodeName = "n"
	for _, tt := range []struct {
		mode   config.OnDemand
		kinds  []string
		rights []Right
		pod    *corev1.Pod
	}{
		{config.OnDemandOff, []string{"NstanceMachine"}, []Right{to("get list", WorkloadCluster, core, "pods")}, named},
		{config.OnDemandAnnotate, []string{"NstanceMachine", "NstanceMachineTemplate"}, []Right{
			to("get list watch", WorkloadCluster, core, "pods"), to("create", InNamespace, core, "secrets"),
		}, bound},
	} {
		s := config.Settings{OnDemand: tt.mode}
		var kinds []string
		for _, k := range kindsOf(featuresOf(s)) {
			kinds = append(kinds, k.String())
		}
		if !slices.Equal(kinds, tt.kinds) {
			t.Errorf("%s: kinds %v, want %v", tt.mode, kinds, tt.kinds)
		}
		if diff := cmp.Diff(tt.rights, Rights(s)); diff != "" {
			t.Errorf("%s: %s", tt.mode, diff)
		}
		got, err := keepPods(s)(pod.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(tt.pod), got); diff != "" {
			t.Errorf("%s: %s", tt.mode, diff)
		}
	}
}

// Each feature has a name of its own, and starts in some way or serves another purpose.
func TestFeaturesAreNamed(t *testing.T) {
	var names []string
	for _, f := range features {
		if f.name == "" || slices.Contains(names, f.name) {
			t.Errorf("the name %q is taken, or none", f.name)
		}
		names = append(names, f.name)
		for _, k := range f.kinds {
			if remedies[k.version] == "" {
				t.Errorf("%s: nobody says how to get %s", f.name, k)
			}
		}
	}
}

// The first list of a hundred thousand Pods may take longer than a controller waits by default, and
// no controller ends the process before that is over.
func TestControllersWaitForTheFirstListOfPods(t *testing.T) {
	w := wiring{settings: config.Settings{KubeAPI: config.KubeAPI{CacheSyncTimeout: 7 * time.Minute}}}
	if have := w.controllerOptions().CacheSyncTimeout; have != 7*time.Minute {
		t.Errorf("controllers wait for %v", have)
	}
}

// F36: whatever has failed during an outage is looked at soon after it, however long it was.
func TestF36_APassThatFailedIsMadeAgainWithinHalfAMinute(t *testing.T) {
	limiter := wiring{}.controllerOptions().RateLimiter
	first := limiter.When(ctrl.Request{})
	longest := first
	for range 100 {
		longest = max(longest, limiter.When(ctrl.Request{}))
	}
	if first > time.Second || longest != 30*time.Second {
		t.Errorf("pauses from %v to %v, want less than a second to half a minute", first, longest)
	}
}
