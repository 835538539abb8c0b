package translate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

func pod(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: "0a1b2c3d-0000-4000-8000-000000000000"}}
	if err := yaml.UnmarshalStrict([]byte(spec), p); err != nil {
		t.Fatal(err)
	}
	return p
}

var everything = Options{Alternatives: true, VolumeTopology: true}

// affinity is a Pod with terms of required affinity to Nodes.
func affinity(terms string) string {
	return "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " + terms + "}}}}"
}

func TestRequirements(t *testing.T) {
	const instanceType = corev1.LabelInstanceTypeStable
	in := func(key string, values ...string) demandv1.Requirement {
		return demandv1.Requirement{Key: key, Operator: "In", Values: values}
	}
	exists := func(key string) demandv1.Requirement { return demandv1.Requirement{Key: key, Operator: "Exists"} }
	nothing := []demandv1.Requirement{{Key: instanceType, Operator: "DoesNotExist"}, exists(instanceType)}
	either := func(sets ...[]demandv1.Requirement) (all []demandv1.Alternative) {
		for _, rs := range sets {
			all = append(all, demandv1.Alternative{Requirements: rs})
		}
		return all
	}
	for name, tt := range map[string]struct {
		pod          string
		options      *Options
		requirements []demandv1.Requirement
		alternatives []demandv1.Alternative
		warnings     []Reason
	}{
		"nothing": {pod: "{}", requirements: []demandv1.Requirement{exists(instanceType)}},
		"a selector and a term": {
			pod:          `spec: {nodeSelector: {b: x}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [z, x, z]}, {key: a, operator: NotIn, values: [q]}, {key: b, operator: In, values: [x]}]}]}}}}`,
			requirements: []demandv1.Requirement{in("a", "x", "z"), {Key: "a", Operator: "NotIn", Values: []string{"q"}}, in("b", "x")},
		},
		"preferences are not demand": {
			pod:          `spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}}`,
			requirements: []demandv1.Requirement{exists(instanceType)},
		},
		"several terms are alternatives": {
			pod:          affinity(`[{matchExpressions: [{key: b, operator: Gt, values: ["05"]}]}, {matchExpressions: [{key: a, operator: Exists}]}]`),
			alternatives: either([]demandv1.Requirement{exists("a")}, []demandv1.Requirement{{Key: "b", Operator: "Gt", Values: []string{"5"}}}),
		},
		"several terms, without alternatives": {
			pod:          affinity(`[{matchExpressions: [{key: b, operator: Lt, values: ["5"]}]}, {matchExpressions: [{key: a, operator: Exists}]}]`),
			options:      &Options{},
			requirements: []demandv1.Requirement{exists("b")},
			warnings:     []Reason{MultipleAffinityTerms, UnsupportedOperator},
		},
		"nine terms": {
			pod:          affinity(terms("abcdefghi")),
			requirements: []demandv1.Requirement{exists("a")},
			warnings:     []Reason{MultipleAffinityTerms},
		},
		"eight terms": {
			pod: affinity(terms("abcdefgh")),
			alternatives: either([]demandv1.Requirement{exists("a")}, []demandv1.Requirement{exists("b")}, []demandv1.Requirement{exists("c")}, []demandv1.Requirement{exists("d")},
				[]demandv1.Requirement{exists("e")}, []demandv1.Requirement{exists("f")}, []demandv1.Requirement{exists("g")}, []demandv1.Requirement{exists("h")}),
		},
		"equal terms are one": {
			pod:          affinity(`[{matchExpressions: [{key: a, operator: In, values: [x, w]}]}, {matchExpressions: [{key: a, operator: In, values: [w, x, x]}]}]`),
			requirements: []demandv1.Requirement{in("a", "w", "x")},
		},
		"an empty term matches nothing, so the others count": {
			pod:          affinity(`[{}, {matchExpressions: [{key: a, operator: Exists}]}]`),
			requirements: []demandv1.Requirement{exists("a")},
		},
		"empty terms alone match nothing":   {pod: affinity(`[{}]`), requirements: nothing},
		"Gt with a word matches nothing":    {pod: affinity(`[{matchExpressions: [{key: a, operator: Gt, values: [x]}]}]`), requirements: nothing, warnings: []Reason{InvalidRequirement}},
		"In with no values matches nothing": {pod: affinity(`[{matchExpressions: [{key: a, operator: In}]}]`), requirements: nothing, warnings: []Reason{InvalidRequirement}},
		"fields are ignored": {
			pod:          affinity(`[{matchFields: [{key: metadata.name, operator: In, values: [n]}], matchExpressions: [{key: a, operator: Exists}]}]`),
			requirements: []demandv1.Requirement{exists("a")}, warnings: []Reason{MatchFields},
		},
		"fields alone leave no alternative": {
			pod:          affinity(`[{matchFields: [{key: metadata.name, operator: In, values: [n]}]}, {matchExpressions: [{key: a, operator: Exists}]}]`),
			requirements: []demandv1.Requirement{exists(instanceType)}, warnings: []Reason{MatchFields},
		},
		"a value that no label has": {
			pod:          affinity(`[{matchExpressions: [{key: a, operator: In, values: [x, ` + strings.Repeat("y", 64) + `]}]}]`),
			requirements: nothing, warnings: []Reason{InvalidRequirement},
		},
		"a number below 0": {
			pod:          affinity(`[{matchExpressions: [{key: a, operator: Gt, values: ["-5"]}]}]`),
			requirements: nothing, warnings: []Reason{InvalidRequirement},
		},
		"more values than are taken": {
			pod:          affinity(`[{matchExpressions: [{key: a, operator: In, values: [` + numbers(65) + `]}]}]`),
			requirements: []demandv1.Requirement{exists("a")}, warnings: []Reason{TooManyRequirements},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := everything
			if tt.options != nil {
				o = *tt.options
			}
			got := Build(pod(t, tt.pod), Volumes{}, o)
			if diff := cmp.Diff(tt.requirements, got.Spec.Requirements); diff != "" {
				t.Errorf("requirements (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.alternatives, got.Spec.Alternatives); diff != "" {
				t.Errorf("alternatives (-want +got):\n%s", diff)
			}
			wantReasons(t, got.Warnings, tt.warnings...)
		})
	}
}

// terms are one for each letter: a label that exists.
func terms(letters string) string {
	var all []string
	for _, letter := range letters {
		all = append(all, "{matchExpressions: [{key: "+string(letter)+", operator: Exists}]}")
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func numbers(n int) string {
	var all []string
	for i := range n {
		all = append(all, `"`+string(rune('0'+i/10))+string(rune('0'+i%10))+`"`)
	}
	return strings.Join(all, ",")
}

func wantReasons(t *testing.T, got []Warning, want ...Reason) {
	t.Helper()
	var reasons []Reason
	for _, w := range got {
		reasons = append(reasons, w.Reason)
		if w.Message == "" {
			t.Errorf("%s says nothing", w.Reason)
		}
	}
	if !slices.Equal(reasons, want) {
		t.Errorf("warnings %v, want %v", got, want)
	}
}

func TestTolerations(t *testing.T) {
	got := Build(pod(t, `spec: {tolerations: [
		{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300},
		{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300},
		{key: soft, operator: Exists, effect: PreferNoSchedule},
		{key: b, value: x, effect: NoExecute, tolerationSeconds: 5},
		{key: b, operator: Equal, value: x, effect: NoExecute},
		{operator: Exists},
		{key: n, operator: Gt, value: "5"}]}`), Volumes{}, everything)
	want := []demandv1.Toleration{{Operator: "Exists"}, {Key: "b", Operator: "Equal", Value: "x", Effect: "NoExecute"}}
	if diff := cmp.Diff(want, got.Spec.Tolerations); diff != "" {
		t.Error(diff)
	}
	wantReasons(t, got.Warnings, UnsupportedOperator)
}

func TestSpreadKeepsWhatForbids(t *testing.T) {
	got := Build(pod(t, `spec: {topologySpreadConstraints: [
		{topologyKey: zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule},
		{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway},
		{topologyKey: host, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}`), Volumes{}, everything)
	want := []demandv1.TopologySpread{
		{TopologyKey: "host", MaxSkew: 1, WhenUnsatisfiable: "DoNotSchedule"}, {TopologyKey: "zone", MaxSkew: 2, WhenUnsatisfiable: "DoNotSchedule"},
	}
	if diff := cmp.Diff(want, got.Spec.TopologySpread); diff != "" {
		t.Error(diff)
	}
}

func TestCoLocation(t *testing.T) {
	near := func(term string) string {
		return "spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [" + term + "]}}}"
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	for name, tt := range map[string]struct {
		pod      string
		want     *demandv1.CoLocation
		warnings []Reason
	}{
		"none":                   {"{}", nil, nil},
		"the Pod's own names":    {near("{topologyKey: rack, labelSelector: {matchLabels: {app: db}}}"), &demandv1.CoLocation{TopologyKey: "rack", LabelSelector: selector, Namespaces: []string{"shop"}}, nil},
		"a list of namespaces":   {near("{topologyKey: rack, labelSelector: {matchLabels: {app: db}}, namespaces: [b, a, b]}"), &demandv1.CoLocation{TopologyKey: "rack", LabelSelector: selector, Namespaces: []string{"a", "b"}}, nil},
		"selected namespaces":    {near("{topologyKey: rack, labelSelector: {matchLabels: {app: db}}, namespaces: [b], namespaceSelector: {matchLabels: {team: x}}}"), &demandv1.CoLocation{TopologyKey: "rack", LabelSelector: selector, Namespaces: []string{"b", "sel:team=x;"}}, nil},
		"every namespace":        {near("{topologyKey: rack, labelSelector: {matchLabels: {app: db}}, namespaceSelector: {}}"), &demandv1.CoLocation{TopologyKey: "rack", LabelSelector: selector, Namespaces: []string{"sel:;"}}, nil},
		"all or nothing":         {"metadata: {annotations: {nstance.dev/all-or-nothing: 'true'}}\n" + near("{topologyKey: rack}"), &demandv1.CoLocation{TopologyKey: "rack", Namespaces: []string{"shop"}, AllOrNothing: true}, nil},
		"a group of Pods":        {"metadata: {labels: {scheduling.x-k8s.io/pod-group: g}}\n" + near("{topologyKey: rack}"), &demandv1.CoLocation{TopologyKey: "rack", Namespaces: []string{"shop"}, AllOrNothing: true}, nil},
		"of two terms the first": {near("{topologyKey: rack}, {topologyKey: zone}"), &demandv1.CoLocation{TopologyKey: "rack", Namespaces: []string{"shop"}}, []Reason{MultiplePodAffinityTerms}},
	} {
		got := Build(pod(t, tt.pod), Volumes{}, everything)
		if diff := cmp.Diff(tt.want, got.Spec.CoLocation); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		wantReasons(t, got.Warnings, tt.warnings...)
	}
}

// What is written for a selector of namespaces is read as the same selector.
func TestLabelSelector(t *testing.T) {
	for _, s := range []*metav1.LabelSelector{
		{},
		{MatchLabels: map[string]string{"team": "x", "example.com/empty": ""}},
		{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y"}}, {Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"z"}},
			{Key: "here", Operator: metav1.LabelSelectorOpExists}, {Key: "away", Operator: metav1.LabelSelectorOpDoesNotExist},
		}},
	} {
		want, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := LabelSelector(CanonicalSelector(s)); !ok || got.String() != want.String() {
			t.Errorf("%s was read as %v, %t", want, got, ok)
		}
	}
	for _, text := range []string{"", "team=x", ";team:0:a b", "a b=c;"} {
		if got, ok := LabelSelector(text); ok {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestPenalties(t *testing.T) {
	classes, err := ParseClasses([]byte(`priorityClasses: {payments: {interruptionPenalty: "50", reclamationPenalty: 5}, batch: {interruptionPenalty: "0.01"}}`))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Classes: classes, PenaltyPrefixes: []string{"nstance.dev", "old.example.com"}}
	for name, tt := range map[string]struct {
		pod                       string
		interruption, reclamation string
		warnings                  []Reason
	}{
		"nothing":                {"{}", "", "", nil},
		"the class":              {"spec: {priorityClassName: payments}", "50", "5", nil},
		"one of the class":       {"spec: {priorityClassName: batch}", "10m", "", nil},
		"each by its own chain":  {"metadata: {annotations: {nstance.dev/interruption-penalty: 500m}}\nspec: {priorityClassName: payments}", "500m", "5", nil},
		"an older prefix":        {"metadata: {annotations: {old.example.com/reclamation-penalty: '7'}}", "", "7", nil},
		"the first prefix":       {"metadata: {annotations: {old.example.com/reclamation-penalty: '7', nstance.dev/reclamation-penalty: '8'}}", "", "8", nil},
		"what is no amount":      {"metadata: {annotations: {nstance.dev/interruption-penalty: much}}\nspec: {priorityClassName: payments}", "50", "5", []Reason{InvalidPenalty}},
		"what is negative":       {"metadata: {annotations: {nstance.dev/interruption-penalty: '-1'}}", "", "", []Reason{InvalidPenalty}},
		"nothing, said outright": {"metadata: {annotations: {nstance.dev/interruption-penalty: '0'}}\nspec: {priorityClassName: payments}", "0", "5", nil},
	} {
		got := Build(pod(t, tt.pod), Volumes{}, o)
		for _, q := range []struct {
			got  *resource.Quantity
			want string
		}{{got.Spec.InterruptionPenalty, tt.interruption}, {got.Spec.ReclamationPenalty, tt.reclamation}} {
			text := ""
			if q.got != nil {
				text = q.got.String()
			}
			if text != q.want {
				t.Errorf("%s: %q, want %q", name, text, q.want)
			}
		}
		wantReasons(t, got.Warnings, tt.warnings...)
		if translated, _, _ := Translated(got.Warnings); !translated {
			t.Errorf("%s: a penalty makes a Pod untranslated", name)
		}
	}
	for _, wrong := range []string{"priorityClasses: {a: {interruptionPenalty: -1}}", "classes: {}", "priorityClasses: {a: {interruptionPenalty: x}}"} {
		if _, err := ParseClasses([]byte(wrong)); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
}

func TestVolumes(t *testing.T) {
	bound := func(terms string) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
		if err := yaml.UnmarshalStrict([]byte("spec: {nodeAffinity: {required: {nodeSelectorTerms: "+terms+"}}}"), pv); err != nil {
			t.Fatal(err)
		}
		return pv
	}
	class := func(topologies string) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
		if err := yaml.UnmarshalStrict([]byte("allowedTopologies: "+topologies), c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
	in := func(key string, values ...string) demandv1.Requirement {
		return demandv1.Requirement{Key: key, Operator: "In", Values: values}
	}
	none := []demandv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: "Exists"}}
	for name, tt := range map[string]struct {
		volumes  Volumes
		want     []demandv1.Requirement
		warnings []Reason
	}{
		"a zone and a region": {
			Volumes{Bound: []*corev1.PersistentVolume{bound(`[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}, {key: topology.kubernetes.io/region, operator: In, values: [r]}]}]`)}},
			[]demandv1.Requirement{in(region, "r"), in(zone, "b")}, nil,
		},
		"either of two zones": {
			Volumes{Bound: []*corev1.PersistentVolume{bound(`[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}, {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]`)}},
			[]demandv1.Requirement{in(zone, "a", "b")}, nil,
		},
		"two volumes": {
			Volumes{
				Bound:   []*corev1.PersistentVolume{bound(`[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]`)},
				Unbound: []*storagev1.StorageClass{class(`[{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b, a]}]}]`)},
			},
			[]demandv1.Requirement{in(zone, "a"), in(zone, "a", "b")}, nil,
		},
		"a volume of a host": {
			Volumes{Bound: []*corev1.PersistentVolume{bound(`[{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}]}]`)}},
			none, []Reason{VolumeTopology},
		},
		"a zone of one term alone demands nothing": {
			Volumes{Bound: []*corev1.PersistentVolume{bound(`[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}, {matchExpressions: [{key: x, operator: Exists}]}]`)}},
			none, []Reason{VolumeTopology},
		},
		"a class with a key of its own": {
			Volumes{Unbound: []*storagev1.StorageClass{class(`[{matchLabelExpressions: [{key: rack, values: [b]}]}]`)}},
			none, []Reason{VolumeTopology},
		},
		"a class without topologies": {Volumes{Unbound: []*storagev1.StorageClass{class("[]")}}, none, nil},
	} {
		got := Build(pod(t, "{}"), tt.volumes, everything)
		if diff := cmp.Diff(tt.want, got.Spec.Requirements); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		wantReasons(t, got.Warnings, tt.warnings...)
		if off := Build(pod(t, "{}"), tt.volumes, Options{}); !cmp.Equal(off.Spec.Requirements, none) || len(off.Warnings) > 0 {
			t.Errorf("%s, switched off: %v, %v", name, off.Spec.Requirements, off.Warnings)
		}
	}
}

func TestExcluded(t *testing.T) {
	for name, tt := range map[string]struct {
		pod      string
		want     Exclusion
		terminal bool
	}{
		"a Pod":                       {"{}", Counted, false},
		"one that runs":               {"{spec: {nodeName: n}, status: {phase: Running}}", Counted, false},
		"one that has succeeded":      {"{status: {phase: Succeeded}}", Counted, true},
		"one that has failed":         {"{status: {phase: Failed}}", Counted, true},
		"a mirror":                    {"{metadata: {annotations: {kubernetes.io/config.mirror: x}}}", MirrorPod, false},
		"of a DaemonSet":              {"{metadata: {ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}}", DaemonSetPod, false},
		"of a ReplicaSet":             {"{metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: d, uid: u, controller: true}]}}", Counted, false},
		"gated":                       {"{spec: {schedulingGates: [{name: g}]}}", SchedulingGated, false},
		"ignored":                     {"{metadata: {annotations: {nstance.dev/ignore: 'true'}}}", IgnoredPod, false},
		"not ignored":                 {"{metadata: {annotations: {nstance.dev/ignore: 'yes'}}}", Counted, false},
		"with an instance of its own": {"{metadata: {annotations: {on-demand.nstance.dev/group: g}}}", OnDemandInstance, false},
	} {
		p := pod(t, tt.pod)
		why, excluded := Excluded(p)
		if why != tt.want || excluded != (tt.want != Counted) || Terminal(p) != tt.terminal {
			t.Errorf("%s: %q, excluded %t, terminal %t", name, why, excluded, Terminal(p))
		}
	}
}

func TestObject(t *testing.T) {
	p := pod(t, "{}")
	p.Name = strings.Repeat("a", 198) + ".b-c"
	p.Spec.Priority = new(int32)
	*p.Spec.Priority = -5
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	built := Build(p, Volumes{}, everything)
	wantReasons(t, built.Warnings, ResourceClaims)
	if translated, reason, message := Translated(built.Warnings); translated || reason != "ResourceClaims" || message == "" {
		t.Errorf("translated %t, %s, %s", translated, reason, message)
	}
	cr := Object(p, built.Spec)
	if want := strings.Repeat("a", 198) + ".b-0a1b2c3d"; cr.Name != want {
		t.Errorf("name %s", cr.Name)
	}
	if cr.Spec.Priority != -5 || cr.Namespace != "shop" || cr.Labels[demandv1.LabelOwnedByPod] != string(p.UID) || !metav1.IsControlledBy(cr, p) {
		t.Errorf("%+v", cr)
	}
	p.Name, p.UID = strings.Repeat("a", 199)+".b", "not a uuid"
	if name := Name(p); !strings.HasPrefix(name, strings.Repeat("a", 199)+"-") || len(name) != 208 {
		t.Errorf("name %s", name)
	}
}
