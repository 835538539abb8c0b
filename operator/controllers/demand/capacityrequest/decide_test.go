package capacityrequest

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/demand/volumes"
)

const uid = "0f3c9a51-0000-4000-8000-000000000001"

// pod is one that asks for a CPU.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: uid, Annotations: map[string]string{}},
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

// made is the request of a Pod, as the API server has it once it was acknowledged.
func made(p *corev1.Pod) *demandv1.CapacityRequest {
	d := Decide(Observation{Pod: p}, translate.Options{})
	d.Create.Status.Phase = demandv1.CapacityRequestAcknowledged
	return d.Create
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func TestDecide(t *testing.T) {
	requested := made(pod())
	without := func(change func(*demandv1.CapacityRequest)) *demandv1.CapacityRequest {
		r := requested.DeepCopy()
		change(r)
		return r
	}
	larger := pod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	})
	fields := pod(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}}}},
		}}}
	})
	for name, tt := range map[string]struct {
		o                             Observation
		outcome                       Outcome
		create, spec, status, removes bool
		again                         bool
	}{
		"a pending Pod":                    {o: Observation{Pod: pod()}, outcome: Created, create: true},
		"a running Pod":                    {o: Observation{Pod: pod(phase(corev1.PodRunning))}, outcome: Created, create: true},
		"a Pod that is being deleted":      {o: Observation{Pod: pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}, outcome: Created, create: true},
		"its request is there":             {o: Observation{Pod: pod(), Request: requested}, outcome: Exists},
		"its request was just made":        {o: Observation{Pod: pod(), Made: true}, outcome: Exists, again: true},
		"without a phase":                  {o: Observation{Pod: pod(), Request: without(func(r *demandv1.CapacityRequest) { r.Status.Phase = "" })}, outcome: Exists, status: true},
		"without a condition":              {o: Observation{Pod: pod(), Request: without(func(r *demandv1.CapacityRequest) { r.Status.Conditions = nil })}, outcome: Exists, status: true},
		"a Pod that was resized":           {o: Observation{Pod: larger, Request: requested}, outcome: Patched, spec: true},
		"somebody changed it":              {o: Observation{Pod: pod(), Request: without(func(r *demandv1.CapacityRequest) { r.Spec.Priority = 7 })}, outcome: Patched, spec: true},
		"what cannot be expressed":         {o: Observation{Pod: fields, Request: requested}, outcome: Exists, status: true},
		"a Pod that succeeded":             {o: Observation{Pod: pod(phase(corev1.PodSucceeded)), Request: requested}, outcome: Terminal, removes: true},
		"one that failed":                  {o: Observation{Pod: pod(phase(corev1.PodFailed)), Request: requested}, outcome: Terminal, removes: true},
		"one that failed at once":          {o: Observation{Pod: pod(phase(corev1.PodFailed)), Made: true}, outcome: Terminal, removes: true},
		"one that ended long ago":          {o: Observation{Pod: pod(phase(corev1.PodSucceeded))}, outcome: Terminal},
		"the cache still shows it":         {o: Observation{Pod: pod(phase(corev1.PodSucceeded)), Request: requested, Deleted: true}, outcome: Terminal},
		"a Pod that is to be ignored":      {o: Observation{Pod: pod(annotated(demandv1.AnnotationIgnore, "true")), Request: requested}, outcome: Excluded, removes: true},
		"a Pod with a machine of its own":  {o: Observation{Pod: pod(annotated(infrav1.OnDemandGroup, "gpu"))}, outcome: Excluded},
		"no more ignored, cache is behind": {o: Observation{Pod: pod(), Request: requested, Deleted: true}, outcome: Exists, again: true},
		"no more ignored":                  {o: Observation{Pod: pod(), Deleted: true}, outcome: Created, create: true},
	} {
		d := Decide(tt.o, translate.Options{})
		if d.Outcome != tt.outcome || (d.Create != nil) != tt.create || (d.Spec != nil) != tt.spec || (d.Status != nil) != tt.status ||
			d.Delete != tt.removes || d.LookAgain != tt.again {
			t.Errorf("%s: %+v", name, d)
		}
		if acts := d.Create != nil || d.Spec != nil || d.Delete; acts && d.Reason == "" {
			t.Errorf("%s: nobody says why", name)
		}
	}
}

// What is missing from a request stands in its condition, and goes when it is not missing any more.
func TestTranslatedFollowsThePod(t *testing.T) {
	p := pod(func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })
	d := Decide(Observation{Pod: p}, translate.Options{})
	c := d.Create.Status.Conditions[0]
	if c.Status != metav1.ConditionFalse || c.Reason != string(translate.ResourceClaims) || d.Create.Status.Phase != demandv1.CapacityRequestPending {
		t.Errorf("status %+v", d.Create.Status)
	}
	again := Decide(Observation{Pod: pod(), Request: d.Create}, translate.Options{})
	if again.Status == nil || again.Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("status %+v", again.Status)
	}
	d.Create.Status.Phase = demandv1.CapacityRequestAcknowledged
	if still := Decide(Observation{Pod: p, Request: d.Create}, translate.Options{}); still.Status != nil || len(still.Warnings) > 0 {
		t.Errorf("what was said is said again: %+v", still)
	}
}

// A cache that keeps what Keep keeps tells as much of a Pod as the API server does.
func TestKeepLeavesWhatDecides(t *testing.T) {
	options := translate.Options{Alternatives: true, VolumeTopology: true, PenaltyPrefixes: []string{"nstance.dev", "other.example"}}
	keep := Keep(options)
	for seed := range uint64(3000) {
		whole := randomPod(rand.New(rand.NewPCG(seed, 1)))
		before := whole.DeepCopy()
		into := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID}}
		keep(whole, into)
		want, got := Decide(Observation{Pod: whole}, options), Decide(Observation{Pod: into}, options)
		if !equality.Semantic.DeepEqual(want, got) {
			t.Fatalf("seed %d: %s", seed, cmp.Diff(want, got))
		}
		if want, got := volumes.Claims(whole), volumes.Claims(into); !equality.Semantic.DeepEqual(want, got) {
			t.Fatalf("seed %d: claims %v, want %v", seed, got, want)
		}
		if !equality.Semantic.DeepEqual(before, whole) {
			t.Fatalf("seed %d: the Pod was changed", seed)
		}
		if len(into.Spec.Containers[0].Image) > 0 || len(into.Spec.Containers[0].Env) > 0 {
			t.Fatalf("seed %d: the cache keeps what nobody reads", seed)
		}
	}
}

// randomPod has something in each place that is looked at, and much that is not.
func randomPod(r *rand.Rand) *corev1.Pod {
	maybe := func(change func()) {
		if r.IntN(3) == 0 {
			change()
		}
	}
	list := func() corev1.ResourceList {
		all := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{"cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"} {
			maybe(func() { all[name] = *resource.NewQuantity(int64(r.IntN(9)), resource.DecimalSI) })
		}
		return all
	}
	container := func(name string) corev1.Container {
		c := corev1.Container{Name: name, Image: "example/image", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, Resources: corev1.ResourceRequirements{Requests: list(), Limits: list()}}
		return c
	}
	status := func(name string) corev1.ContainerStatus {
		s := corev1.ContainerStatus{Name: name, Image: "example/image", AllocatedResources: list()}
		maybe(func() { s.Resources = &corev1.ResourceRequirements{Requests: list(), Limits: list()} })
		return s
	}
	terms := func() []corev1.NodeSelectorTerm {
		var all []corev1.NodeSelectorTerm
		for range 1 + r.IntN(3) {
			all = append(all, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{string(rune('a' + r.IntN(4)))},
			}}})
		}
		return all
	}
	near := []corev1.PodAffinityTerm{{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
	p := pod()
	p.Spec.Containers = []corev1.Container{container("main"), container("second")}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{status("main"), status("second")}
	p.Labels = map[string]string{"app": "web"}
	p.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	maybe(func() { p.Labels[demandv1.LabelPodGroup] = "gang" })
	maybe(func() { p.Annotations[demandv1.AnnotationAllOrNothing] = "true" })
	maybe(func() { p.Annotations[demandv1.AnnotationIgnore] = "true" })
	maybe(func() { p.Annotations["other.example/interruption-penalty"] = "20" })
	maybe(func() { p.Annotations["nstance.dev/reclamation-penalty"] = []string{"500m", "much"}[r.IntN(2)] })
	maybe(func() { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" })
	maybe(func() { p.Annotations[infrav1.OnDemandGroup] = "gpu" })
	maybe(func() {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", UID: "o"}, {Kind: []string{"DaemonSet", "ReplicaSet"}[r.IntN(2)], Name: "x", UID: "u", Controller: &yes}}
	})
	maybe(func() { p.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed}[r.IntN(2)] })
	maybe(func() {
		always := corev1.ContainerRestartPolicyAlways
		side := container("side")
		side.RestartPolicy = &always
		p.Spec.InitContainers = []corev1.Container{side, container("first")}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{status("side")}
	})
	maybe(func() { p.Spec.Overhead = list() })
	maybe(func() { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list()} })
	maybe(func() { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	maybe(func() {
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: terms()},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}},
			},
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near},
		}
	})
	maybe(func() { p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}} })
	maybe(func() {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule}}
	})
	maybe(func() {
		priority := int32(r.IntN(100))
		p.Spec.Priority, p.Spec.PriorityClassName = &priority, "high"
	})
	maybe(func() { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} })
	maybe(func() { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })
	maybe(func() {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	})
	maybe(func() {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-0"}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}},
		}
	})
	return p
}
