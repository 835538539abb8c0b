package fit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// world is a cluster in few words: Nodes of 4 cpu and 10 pods, with what the YAML says on top.
type world struct {
	t *testing.T
	c Cluster
}

func newWorld(t *testing.T) *world { return &world{t, Cluster{Draining: map[string]bool{}}} }

func (w *world) node(name, more string) *world {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if err := yaml.UnmarshalStrict([]byte(more), n); err != nil {
		w.t.Fatal(err)
	}
	n.Labels[corev1.LabelHostname] = name
	w.c.Nodes = append(w.c.Nodes, n)
	return w
}

// pod is one of a ReplicaSet; more may say otherwise.
func (w *world) pod(node, cpu, more string) *world {
	controller := true
	name := fmt.Sprintf("p%02d", len(w.c.Pods))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "d", UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: &controller}},
		},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}},
		},
	}
	if err := yaml.UnmarshalStrict([]byte(more), p); err != nil {
		w.t.Fatal(err)
	}
	w.c.Pods = append(w.c.Pods, NewPod(p, Options{ForeignAnnotations: true}))
	return w
}

const (
	apartByHost = `{metadata: {labels: {app: db}}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}}}`
	nearByRack  = `{metadata: {labels: {app: db}}, spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: rack, labelSelector: {matchLabels: {app: db}}}]}}}}`
	spreadHosts = `{metadata: {labels: {app: db}}, spec: {topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db}}}]}}`
	spreadRacks = `{metadata: {labels: {app: db}}, spec: {topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db}}}]}}`
	spreadThree = `{metadata: {labels: {app: db}}, spec: {topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, minDomains: 3, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db}}}]}}`
	spreadSoft  = `{metadata: {labels: {app: db}}, spec: {topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: db}}}]}}`
	rack1       = `{metadata: {labels: {rack: r1}}}`
	rack2       = `{metadata: {labels: {rack: r2}}}`
	bare        = `{metadata: {ownerReferences: []}}`
	daemon      = `{metadata: {ownerReferences: [{kind: DaemonSet, name: d, controller: true}]}}`
	ending      = `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}}`
)

func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		world   *world
		targets string // a, or several with blanks between them
		refused string // what is refused of each, in the same form; - for what is not
	}{
		"an empty Node":                  {newWorld(t).node("a", "{}"), "a", "-"},
		"a Node that does not exist":     {newWorld(t), "a", "-"},
		"there is room":                  {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "3", "{}").pod("b", "1", "{}"), "a", "-"},
		"there is not":                   {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "3", "{}").pod("b", "2", "{}"), "a", "DoesNotFit"},
		"the amounts do, the Pods don't": {newWorld(t).node("a", "{}").node("b", "{}").node("c", "{}").pod("a", "3", "{}").pod("b", "2", "{}").pod("c", "2", "{}"), "a", "DoesNotFit"},
		"the largest comes first": {
			newWorld(t).node("a", "{}").node("b", "{}").node("c", "{}").pod("a", "1", "{}").pod("a", "3", "{}").pod("b", "1", "{}").pod("c", "3", "{}"), "a", "-",
		},
		"no Pod more":                                        {tenPods(newWorld(t).node("a", "{}").node("b", "{}").pod("a", "0", "{}")), "a", "DoesNotFit"},
		"the other is not ready":                             {newWorld(t).node("a", "{}").node("b", "{status: {conditions: [{type: Ready, status: Unknown}]}}").pod("a", "1", "{}"), "a", "DoesNotFit"},
		"the other is cordoned":                              {newWorld(t).node("a", "{}").node("b", "{spec: {unschedulable: true}}").pod("a", "1", "{}"), "a", "DoesNotFit"},
		"the other is tainted":                               {newWorld(t).node("a", "{}").node("b", "{spec: {taints: [{key: gpu, effect: NoSchedule}]}}").pod("a", "1", "{}"), "a", "DoesNotFit"},
		"a taint that is tolerated":                          {newWorld(t).node("a", "{}").node("b", "{spec: {taints: [{key: gpu, value: x, effect: NoSchedule}]}}").pod("a", "1", "{spec: {tolerations: [{key: gpu, value: x}]}}"), "a", "-"},
		"a taint that is avoided":                            {newWorld(t).node("a", "{}").node("b", "{spec: {taints: [{key: gpu, effect: PreferNoSchedule}]}}").pod("a", "1", "{}"), "a", "-"},
		"a selector":                                         {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "1", "{spec: {nodeSelector: {disk: ssd}}}"), "a", "DoesNotFit"},
		"a selector that matches":                            {newWorld(t).node("a", "{}").node("b", "{metadata: {labels: {disk: ssd}}}").pod("a", "1", "{spec: {nodeSelector: {disk: ssd}}}"), "a", "-"},
		"required affinity":                                  {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "1", "{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: x, operator: Gt, values: ['3']}]}]}}}}}"), "a", "DoesNotFit"},
		"apart from what is there":                           {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "1", apartByHost).pod("b", "1", apartByHost), "a", "DoesNotFit"},
		"what is there stays apart":                          {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "1", "{metadata: {labels: {app: db}}}").pod("b", "1", apartByHost), "a", "DoesNotFit"},
		"apart, on a free host":                              {newWorld(t).node("a", "{}").node("b", "{}").node("c", "{}").pod("a", "1", apartByHost).pod("b", "1", apartByHost), "a", "-"},
		"two that stay apart, one host":                      {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "1", apartByHost).pod("a", "1", apartByHost), "a", "DoesNotFit"},
		"near what is elsewhere":                             {newWorld(t).node("a", "{metadata: {labels: {rack: r}}}").node("b", "{metadata: {labels: {rack: q}}}").node("c", "{metadata: {labels: {rack: r}}, spec: {unschedulable: true}}").pod("a", "1", nearByRack).pod("c", "1", nearByRack), "a", "DoesNotFit"},
		"a whole group moves":                                {newWorld(t).node("a", "{metadata: {labels: {rack: r}}}").node("b", "{metadata: {labels: {rack: q}}}").pod("a", "1", nearByRack).pod("a", "1", nearByRack), "a", "-"},
		"spread over hosts":                                  {newWorld(t).node("a", "{}").node("b", "{}").node("c", "{}").pod("a", "1", spreadHosts).pod("b", "1", spreadHosts).pod("c", "4", spreadHosts), "a", "-"},
		"spread over racks, to the other Node of the rack":   {newWorld(t).node("a", rack1).node("b", rack1).node("c", rack2).pod("a", "1", spreadRacks).pod("c", "1", spreadRacks), "a", "-"},
		"spread over racks, and only the full rack has room": {newWorld(t).node("a", rack1).node("b", rack1).node("c", rack2).pod("a", "1", spreadRacks).pod("b", "4", "{}").pod("c", "1", spreadRacks), "a", "DoesNotFit"},
		"spread over racks that is only wished":              {newWorld(t).node("a", rack1).node("b", rack1).node("c", rack2).pod("a", "1", spreadSoft).pod("b", "4", "{}").pod("c", "1", spreadSoft), "a", "-"},
		"the rack goes with its last Node":                   {newWorld(t).node("a", rack1).node("c", rack2).pod("a", "1", spreadRacks).pod("c", "1", spreadRacks), "a", "-"},
		"the rack goes, and three are demanded":              {newWorld(t).node("a", rack1).node("c", rack2).pod("a", "1", spreadThree).pod("c", "1", spreadThree), "a", "DoesNotFit"},
		"spread over racks, on a Node without a rack":        {newWorld(t).node("a", rack1).node("b", "{}").pod("a", "1", spreadRacks), "a", "DoesNotFit"},
		"spread over racks, each Pod counts for the next":    {newWorld(t).node("a", rack1).node("b", rack1).node("c", rack2).pod("a", "1", spreadRacks).pod("a", "1", spreadRacks).pod("c", "1", spreadRacks), "a", "-"},
		"spread, and the fewest are full":                    {newWorld(t).node("a", "{}").node("b", "{}").node("c", "{}").pod("a", "1", spreadHosts).pod("b", "1", spreadHosts).pod("c", "4", "{}"), "a", "DoesNotFit"},
		"what nothing makes again ends":                      {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "3", bare).pod("b", "4", "{}"), "a", "-"},
		"of a DaemonSet":                                     {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "3", daemon).pod("b", "4", "{}"), "a", "-"},
		"what is ending has a replacement":                   {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "3", ending).pod("b", "4", "{}"), "a", "-"},
		"what has ended takes nothing":                       {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "3", "{}").pod("b", "4", "{status: {phase: Succeeded}}"), "a", "-"},
		"what is pending comes first":                        {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "3", "{}").pod("", "2", "{}"), "a", "DoesNotFit"},
		"what is pending for ever":                           {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "3", "{}").pod("", "9", "{}"), "a", "-"},
		"what leaves another Node":                           {newWorld(t).node("a", "{}").node("b", "{}").node("z", "{spec: {unschedulable: true}}").pod("a", "3", "{}").pod("z", "2", "{}").draining("z"), "a", "DoesNotFit"},
		"what ends on another Node":                          {newWorld(t).node("a", "{}").node("b", "{}").node("z", "{spec: {unschedulable: true}}").pod("a", "3", "{}").pod("z", "2", bare).draining("z"), "a", "-"},
		"two Nodes, room for one":                            {newWorld(t).node("a", "{}").node("b", "{}").node("c", "{}").pod("a", "3", "{}").pod("b", "3", "{}"), "a b", "- DoesNotFit"},
		"two Nodes, room for both":                           {newWorld(t).node("a", "{}").node("b", "{}").node("c", "{}").pod("a", "2", "{}").pod("b", "2", "{}"), "a b", "- -"},
		"not on what is asked for too":                       {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "1", "{}"), "a b", "DoesNotFit -"},
		"a Node that says no":                                {newWorld(t).node("a", "{metadata: {annotations: {nstance.dev/do-not-reclaim: 'true'}}}"), "a", "DoNotReclaim"},
		"a Pod that says no":                                 {newWorld(t).node("a", "{}").node("b", "{}").pod("a", "1", "{metadata: {annotations: {nstance.dev/do-not-evict: 'true'}}}"), "a", "DoNotEvict"},
		"a Pod of a DaemonSet says no":                       {newWorld(t).node("a", "{}").pod("a", "1", "{metadata: {annotations: {nstance.dev/do-not-evict: 'true'}, ownerReferences: [{kind: DaemonSet, name: d, controller: true}]}}"), "a", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			targets := strings.Fields(tt.targets)
			var got []string
			for i, answer := range Check(tt.world.c, targets, Options{ForeignAnnotations: true}) {
				if answer.Node != targets[i] || (answer.Refused == "") != (answer.Message == "") {
					t.Errorf("%+v", answer)
				}
				if answer.Refused == "" {
					answer.Refused = "-"
				}
				got = append(got, answer.Refused)
			}
			if !slices.Equal(got, strings.Fields(tt.refused)) {
				t.Errorf("%v, want %s", got, tt.refused)
			}
		})
	}
}

func (w *world) draining(name string) *world {
	w.c.Draining[name] = true
	return w
}

func tenPods(w *world) *world {
	for range 10 {
		w.pod("b", "0", "{}")
	}
	return w
}

func TestAnnotationsOfOthers(t *testing.T) {
	for _, tt := range []struct {
		pod, node string
		ours      string // without foreign annotations
		all       string
	}{
		{"karpenter.sh/do-not-disrupt: 'true'", "", "", DoNotEvict},
		{"cluster-autoscaler.kubernetes.io/safe-to-evict: 'false'", "", "", DoNotEvict},
		{"cluster-autoscaler.kubernetes.io/safe-to-evict: 'true'", "", "", ""},
		{"karpenter.sh/do-not-disrupt: 'false'", "", "", ""},
		{"", "karpenter.sh/do-not-disrupt: 'true'", "", DoNotReclaim},
		{"", "cluster-autoscaler.kubernetes.io/scale-down-disabled: 'true'", "", DoNotReclaim},
		{"nstance.dev/do-not-evict: 'true'", "", DoNotEvict, DoNotEvict},
		{"nstance.dev/do-not-evict: 'yes'", "", "", ""},
	} {
		for _, o := range []Options{{}, {ForeignAnnotations: true}} {
			node, pod := &corev1.Node{}, &corev1.Pod{}
			for object, text := range map[any]string{node: tt.node, pod: tt.pod} {
				if err := yaml.UnmarshalStrict([]byte("metadata: {annotations: {"+text+"}}"), object); err != nil {
					t.Fatal(err)
				}
			}
			node.Name, pod.Spec.NodeName = "a", "a"
			want := tt.ours
			if o.ForeignAnnotations {
				want = tt.all
			}
			got := Check(Cluster{Nodes: []*corev1.Node{node}, Pods: []*Pod{NewPod(pod, o)}}, []string{"a"}, o)
			if got[0].Refused != want {
				t.Errorf("%s %s, foreign %t: %q, want %q", tt.pod, tt.node, o.ForeignAnnotations, got[0].Refused, want)
			}
		}
	}
}

func TestTermsSelectNamespaces(t *testing.T) {
	const other = `{metadata: {namespace: other, labels: {app: db}}}`
	selecting := strings.Replace(apartByHost, "{topologyKey:", "{namespaceSelector: {matchLabels: {team: x}}, topologyKey:", 1)
	listing := strings.Replace(apartByHost, "{topologyKey:", "{namespaces: [other], topologyKey:", 1)
	for name, tt := range map[string]struct {
		pod   string
		label string
		want  string
	}{
		"its own alone":               {apartByHost, "x", ""},
		"one that it lists":           {listing, "x", DoesNotFit},
		"one that it selects":         {selecting, "x", DoesNotFit},
		"one that it does not select": {selecting, "y", ""},
	} {
		w := newWorld(t).node("a", "{}").node("b", "{}").pod("a", "1", tt.pod).pod("b", "1", other)
		w.c.Namespaces = map[string]map[string]string{"other": {"team": tt.label}}
		if got := Check(w.c, []string{"a"}, Options{}); got[0].Refused != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What a check lets go fits: replaying it with one more check of an accepted Node gives the same,
// and any order of Nodes and Pods gives the same answer.
func TestTheOrderOfWhatIsThereDoesNotMatter(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t)
		for i := range 2 + r.IntN(4) {
			w.node(fmt.Sprint("n", i), "{}")
		}
		for range r.IntN(20) {
			w.pod(fmt.Sprint("n", r.IntN(len(w.c.Nodes))), fmt.Sprint(r.IntN(3)), []string{"{}", apartByHost, spreadHosts, bare}[r.IntN(4)])
		}
		targets := []string{"n0", "n1"}
		want := Check(w.c, targets, Options{})
		if again := Check(w.c, targets, Options{}); !slices.Equal(want, again) {
			t.Fatalf("seed %d: %v, then %v", seed, want, again)
		}
		r.Shuffle(len(w.c.Pods), func(i, j int) { w.c.Pods[i], w.c.Pods[j] = w.c.Pods[j], w.c.Pods[i] })
		r.Shuffle(len(w.c.Nodes), func(i, j int) { w.c.Nodes[i], w.c.Nodes[j] = w.c.Nodes[j], w.c.Nodes[i] })
		if got := Check(w.c, targets, Options{}); !slices.Equal(want, got) {
			t.Fatalf("seed %d: %v, in another order %v", seed, want, got)
		}
	}
}
