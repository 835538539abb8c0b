package aggregate

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/protos/needs"
	"nstance.dev/protos/rollup"
)

func spec(t testing.TB, text string) *demandv1.CapacityRequestSpec {
	t.Helper()
	s := &demandv1.CapacityRequestSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// items are requests that are called a, b, c …
func items(t testing.TB, texts ...string) []Item {
	var all []Item
	for i, text := range texts {
		all = append(all, Item{ID: string(rune('a' + i)), Spec: spec(t, text)})
	}
	return all
}

// told writes rows for comparison: what tells them apart, and their amounts.
func told(rows []*needs.Row) (all []string) {
	amounts := func(list []needs.Amount) string {
		var texts []string
		for _, a := range list {
			texts = append(texts, fmt.Sprintf("%s=%d", a.Name, a.Amount))
		}
		return strings.Join(texts, ",")
	}
	for _, r := range rows {
		words := fmt.Sprintf("priority %d class %q %s unit %s", r.Profile.Priority, r.UnitClass, amounts(r.Aggregate), amounts(r.MinUnit))
		if r.Group != "" {
			words += " grouped"
		}
		if r.AllOrNothing {
			words += " all or nothing"
		}
		if r.Stuck > 0 {
			words += fmt.Sprintf(" stuck %d", r.Stuck)
		}
		all = append(all, words)
	}
	return all
}

func TestRows(t *testing.T) {
	near := func(app, more string) string {
		return `{resources: {requests: {cpu: 1}}, coLocation: {topologyKey: rack, labelSelector: {matchLabels: {app: ` + app + `}}, namespaces: [d]` + more + `}}`
	}
	for name, tt := range map[string]struct {
		items   []Item
		options Options
		want    []string
	}{
		"nothing": {nil, Options{}, nil},
		"equal profiles are one row": {
			items(t, `{resources: {requests: {cpu: 800m, memory: 1Gi}}}`, `{resources: {requests: {cpu: 900m, memory: 512Mi, pods: 1}}}`), Options{},
			[]string{`priority 0 class "1" cpu=1700,memory=1610612736,pods=1 unit cpu=900,memory=1073741824,pods=1`},
		},
		"units of different sizes are two": {
			items(t, `{resources: {requests: {cpu: 1}}}`, `{resources: {requests: {cpu: 64}}}`, `{resources: {requests: {cpu: 600m}}}`), Options{},
			[]string{`priority 0 class "1" cpu=1600 unit cpu=1000`, `priority 0 class "7" cpu=64000 unit cpu=64000`},
		},
		"unless size classes are off": {
			items(t, `{resources: {requests: {cpu: 1}}}`, `{resources: {requests: {cpu: 64}}}`), Options{UnitClasses: Off},
			[]string{`priority 0 class "" cpu=65000 unit cpu=64000`},
		},
		"extended resources count exactly": {
			items(t, `{resources: {requests: {cpu: 1, nvidia.com/gpu: 1}}}`, `{resources: {requests: {cpu: 1, nvidia.com/gpu: 2}}}`), Options{},
			[]string{`priority 0 class "1|nvidia.com/gpu=1" cpu=1000,nvidia.com/gpu=1 unit cpu=1000,nvidia.com/gpu=1`, `priority 0 class "1|nvidia.com/gpu=2" cpu=1000,nvidia.com/gpu=2 unit cpu=1000,nvidia.com/gpu=2`},
		},
		"higher priorities come first": {
			items(t, `{resources: {requests: {cpu: 1}}, priority: -1}`, `{resources: {requests: {cpu: 1}}, priority: 7}`, `{resources: {requests: {cpu: 1}}}`), Options{},
			[]string{`priority 7 class "1" cpu=1000 unit cpu=1000`, `priority 0 class "1" cpu=1000 unit cpu=1000`, `priority -1 class "1" cpu=1000 unit cpu=1000`},
		},
		"a group is one row, whatever the size of its units": {
			items(t, near("x", ""), near("x", ", allOrNothing: true"), near("z", "")), Options{},
			[]string{`priority 0 class "" cpu=2000 unit cpu=1000 grouped all or nothing`, `priority 0 class "" cpu=1000 unit cpu=1000 grouped`},
		},
		"soft spread and the order of a list tell nothing apart": {
			items(t, `{resources: {requests: {cpu: 1}}, topologySpread: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}], requirements: [{key: a, operator: Exists}, {key: b, operator: In, values: [x, z]}]}`,
				`{resources: {requests: {cpu: 1}}, requirements: [{key: b, operator: In, values: [z, x]}, {key: a, operator: Exists}]}`), Options{},
			[]string{`priority 0 class "1" cpu=2000 unit cpu=1000`},
		},
		"what rounds up": {
			items(t, `{resources: {requests: {cpu: 100u, memory: 1500m}}}`), Options{},
			[]string{`priority 0 class "0" cpu=1,memory=2 unit cpu=1,memory=2`},
		},
		"sums end at the largest number": {
			items(t, `{resources: {requests: {cpu: 9E, memory: 8E}}}`, `{resources: {requests: {cpu: 9E, memory: 8E}}}`), Options{},
			[]string{fmt.Sprintf(`priority 0 class "55" cpu=%[1]d,memory=%[1]d unit cpu=%[1]d,memory=%[2]d`, math.MaxInt64, int64(8e18))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows, skipped := Build(tt.options, slices.Values(tt.items))
			got := told(rows)
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tt.want))
			if diff := cmp.Diff(want, got); diff != "" || skipped > 0 {
				t.Errorf("%d skipped (-want +got):\n%s", skipped, diff)
			}
			if !slices.IsSortedFunc(rows, needs.CompareRows) {
				t.Error("the rows are not sorted")
			}
			decodable(t, rows)
		})
	}
}

// What preferences say changes no row; what a Pod gets and what another one gets, of the same
// template, are one.
func TestPreferencesSplitNoRow(t *testing.T) {
	plain, picky := &corev1.Pod{}, &corev1.Pod{}
	for p, text := range map[*corev1.Pod]string{
		plain: `spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}`,
		picky: `spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}], affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}, topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]}`,
	} {
		if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
			t.Fatal(err)
		}
	}
	a := New(Options{})
	for id, p := range map[string]*corev1.Pod{"plain": plain, "picky": picky} {
		built := translate.Build(p, translate.Volumes{}, translate.Options{Alternatives: true})
		if len(built.Warnings) > 0 {
			t.Errorf("%v", built.Warnings)
		}
		if err := a.Set(Item{ID: id, Spec: &built.Spec}); err != nil {
			t.Fatal(err)
		}
	}
	if rows := a.Rows(); len(rows) != 1 || rows[0].Aggregate[0].Amount != 2000 {
		t.Errorf("%v", told(rows))
	}
}

func TestAlternativesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		`alternatives: [{requirements: [{key: b, operator: Exists}]}, {requirements: [{key: b, operator: Exists}]}], requirements: [{key: a, operator: Exists}]`: "1;a:2:|b:2:;;;0;1;1",
		`alternatives: [{requirements: [{key: b, operator: Exists}]}, {requirements: []}]`:                                                                       "1;;;;0;1;1",
		`alternatives: [{requirements: [{key: b, operator: Exists}]}, {requirements: [{key: a, operator: Exists}]}]`:                                             "1;;;;0;1;1;a:2:&b:2:",
	} {
		rows, skipped := Build(Options{}, slices.Values(items(t, "{resources: {requests: {cpu: 1}}, "+text+"}")))
		if skipped > 0 || string(rows[0].Profile.Canonical()) != want {
			t.Errorf("%s: %v, want %s", text, rows, want)
		}
		decodable(t, rows)
	}
}

func TestSameIsMadeOfACoLocation(t *testing.T) {
	rows, _ := Build(Options{}, slices.Values(items(t, `{resources: {requests: {cpu: 1}}, coLocation: {topologyKey: rack}}`)))
	if got, want := string(rows[0].Profile.Canonical()), "1;rack:4:;;;0;1;1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBuckets(t *testing.T) {
	for text, want := range map[string]needs.Bucket{
		"0": 1, "0.001": 2, "500m": 2, "0.5": 2, "0.501": 3, "1": 3, "1.01": 4, "2": 4, "8000": 16, "8192": 16, "8193": 17,
		"8388608": 26, "8388609": 27, "1E": 27, "1n": 2, "500000001n": 3, "8388608000000001u": 27, "0.00000000000000000001": 2,
	} {
		q := resource.MustParse(text)
		if got := bucketOf(&q); got != want {
			t.Errorf("$%s: bucket %d, want %d", text, got, want)
		}
	}
	if got := bucketOf(nil); got != needs.Zero {
		t.Errorf("nothing: bucket %d", got)
	}
}

// A request that is not valid is left out, and the others stand.
func TestWhatIsNotValidIsSkipped(t *testing.T) {
	for name, text := range map[string]string{
		"nothing is asked for":  `{resources: {requests: {cpu: 0}}}`,
		"a negative amount":     `{resources: {requests: {cpu: 1, memory: -1}}}`,
		"a bad name":            `{resources: {requests: {"a b": 1}}}`,
		"Same":                  `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Same}]}`,
		"In without values":     `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: In}]}`,
		"Gt with a word":        `{resources: {requests: {cpu: 1}}, alternatives: [{requirements: [{key: a, operator: Gt, values: [x]}]}]}`,
		"no key":                `{resources: {requests: {cpu: 1}}, requirements: [{key: "", operator: Exists}]}`,
		"a skew of 0":           `{resources: {requests: {cpu: 1}}, topologySpread: [{topologyKey: a, maxSkew: 0, whenUnsatisfiable: DoNotSchedule}]}`,
		"an effect of its own":  `{resources: {requests: {cpu: 1}}, tolerations: [{key: a, effect: PreferNoSchedule}]}`,
		"co-located by nothing": `{resources: {requests: {cpu: 1}}, coLocation: {topologyKey: ""}}`,
	} {
		a := New(Options{})
		for _, item := range items(t, `{resources: {requests: {cpu: 1}}}`, `{resources: {requests: {cpu: 1}}}`) {
			if err := a.Set(item); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Set(Item{ID: "b", Spec: spec(t, text)}); !errors.Is(err, ErrSkipped) {
			t.Errorf("%s: %v", name, err)
		}
		if rows := a.Rows(); a.Len() != 1 || len(rows) != 1 || rows[0].Aggregate[0].Amount != 1000 {
			t.Errorf("%s: %v", name, told(rows))
		}
	}
}

// decodable fails unless a shard takes the rows.
func decodable(t testing.TB, rows []*needs.Row) {
	t.Helper()
	parts, err := rollup.NewWriter("c").Write(time.UnixMilli(0), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	j := rollup.NewJoiner("c")
	for _, part := range parts {
		joined, err := j.Add(part)
		if err != nil {
			t.Fatal(err)
		}
		if joined == nil {
			continue
		}
		decoded, _, err := rollup.Decode("c", joined)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(rows, decoded, needs.EqualRows) {
			t.Fatalf("%v are read as %v", told(rows), told(decoded))
		}
	}
}

var (
	keys    = []string{"a", "b", "topology.kubernetes.io/zone"}
	amounts = []string{"0", "1", "250m", "3", "1Gi", "7E", "1500u"}
)

// randomSpec is of few kinds, so that rows have several members; some are not valid.
func randomSpec(r *rand.Rand) *demandv1.CapacityRequestSpec {
	s := &demandv1.CapacityRequestSpec{Priority: r.Int32N(2), Resources: demandv1.Resources{Requests: corev1.ResourceList{}}}
	for range 1 + r.IntN(3) {
		name := []corev1.ResourceName{"cpu", "memory", "nvidia.com/gpu"}[r.IntN(3)]
		s.Resources.Requests[name] = resource.MustParse(amounts[r.IntN(len(amounts))])
	}
	requirements := func() (rs []demandv1.Requirement) {
		for range r.IntN(2) {
			operator := demandv1.Operator([]string{"In", "NotIn", "Exists", "Gt", "Same"}[r.IntN(5)])
			one := demandv1.Requirement{Key: keys[r.IntN(3)], Operator: operator}
			for range r.IntN(3) {
				one.Values = append(one.Values, fmt.Sprint(r.IntN(3)))
			}
			rs = append(rs, one)
		}
		return rs
	}
	s.Requirements = requirements()
	for range r.IntN(3) {
		s.Alternatives = append(s.Alternatives, demandv1.Alternative{Requirements: requirements()})
	}
	if r.IntN(4) == 0 {
		s.CoLocation = &demandv1.CoLocation{TopologyKey: keys[r.IntN(3)], AllOrNothing: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			s.CoLocation.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": fmt.Sprint(r.IntN(2)), "b": "x"}}
		}
	}
	if r.IntN(4) == 0 {
		q := resource.MustParse([]string{"0", "300m", "400m", "5"}[r.IntN(4)])
		s.InterruptionPenalty = &q
	}
	if r.IntN(4) == 0 {
		s.Tolerations = []demandv1.Toleration{{Key: keys[r.IntN(3)], Operator: "Exists", Value: "ignored"}}
	}
	if r.IntN(4) == 0 {
		s.TopologySpread = []demandv1.TopologySpread{{TopologyKey: keys[r.IntN(3)], MaxSkew: r.Int32N(3), WhenUnsatisfiable: []demandv1.SpreadPolicy{"DoNotSchedule", "ScheduleAnyway"}[r.IntN(2)]}}
	}
	return s
}

// Any order of the same requests, in any number of steps with any detours, gives equal rows;
// and a shard takes them.
func FuzzStepsGiveWhatARebuildGives(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		options := Options{UnitClasses: []UnitClasses{Pow2, Off}[r.IntN(2)]}
		a := New(options)
		present := map[string]Item{}
		for range 40 + r.IntN(200) {
			id := fmt.Sprint(r.IntN(40))
			if r.IntN(3) == 0 {
				a.Delete(id)
				delete(present, id)
				continue
			}
			item := Item{ID: id, Spec: randomSpec(r), Stuck: uint32(max(0, r.IntN(12)-9))}
			present[id] = item
			if a.Set(item) != nil {
				delete(present, id)
			}
			if r.IntN(10) == 0 {
				a.Rows()
			}
		}
		ids := slices.Sorted(maps.Keys(present))
		r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		shuffled := func(yield func(Item) bool) {
			for _, id := range ids {
				if !yield(present[id]) {
					return
				}
			}
		}
		fresh, skipped := Build(options, shuffled)
		if skipped > 0 || a.Len() != len(present) {
			t.Fatalf("%d of %d, %d skipped", a.Len(), len(present), skipped)
		}
		steps := a.Rows()
		if diff := cmp.Diff(told(fresh), told(steps)); diff != "" || !slices.EqualFunc(fresh, steps, needs.EqualRows) {
			t.Fatalf("a rebuild differs (-fresh +steps):\n%s", diff)
		}
		decodable(t, steps)
		if !a.Rebuild(iter.Seq[Item](shuffled)) || !slices.EqualFunc(a.Rows(), fresh, needs.EqualRows) {
			t.Fatal("Rebuild finds a difference")
		}
	})
}

func TestRebuildFindsADifference(t *testing.T) {
	a := New(Options{})
	all := items(t, `{resources: {requests: {cpu: 1}}}`, `{resources: {requests: {cpu: 1}}}`)
	for _, item := range all {
		if err := a.Set(item); err != nil {
			t.Fatal(err)
		}
	}
	if a.Rebuild(slices.Values(all[:1])) || a.Len() != 1 || a.Rows()[0].Aggregate[0].Amount != 1000 {
		t.Errorf("%v", told(a.Rows()))
	}
}

func TestRowsThatWereHandedOutStay(t *testing.T) {
	a := New(Options{})
	all := items(t, `{resources: {requests: {cpu: 1}}}`, `{resources: {requests: {cpu: 1}}}`, `{resources: {requests: {cpu: 1}}, priority: 5}`)
	for _, item := range all {
		if err := a.Set(item); err != nil {
			t.Fatal(err)
		}
	}
	before := a.Rows()
	words := told(before)
	a.Delete("a")
	after := a.Rows()
	if diff := cmp.Diff(words, told(before)); diff != "" {
		t.Error(diff)
	}
	if before[0] != after[0] || before[1] == after[1] {
		t.Error("a row that changed has its old pointer, or one that did not has another")
	}
}

func TestCounted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		place   Place
		counted bool
		foreign bool // with --count-foreign-nodes
	}{
		{"pending", Place{}, true, true},
		{"running", Place{Recreated: true}, true, true},
		{"on a foreign Node", Place{Foreign: true, Recreated: true}, false, true},
		{"ending on a Node that stays", Place{Ending: true}, true, true},
		{"on a draining Node, made again", Place{Draining: true, Recreated: true}, true, true},
		{"on a draining Node, evicted", Place{Draining: true, Recreated: true, Ending: true}, false, false},
		{"on a draining Node, made by nobody", Place{Draining: true}, false, false},
	} {
		if tt.place.Counted(false) != tt.counted || tt.place.Counted(true) != tt.foreign {
			t.Errorf("%s: %t, %t", tt.name, tt.place.Counted(false), tt.place.Counted(true))
		}
	}
}

func TestOverheads(t *testing.T) {
	set := func(name, spec string) *appsv1.DaemonSet {
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name}}
		if err := yaml.UnmarshalStrict([]byte("spec: {template: {spec: "+spec+"}}"), ds); err != nil {
			t.Fatal(err)
		}
		return ds
	}
	overheads, skipped := Overheads([]*appsv1.DaemonSet{
		set("logs", `{hostNetwork: true, tolerations: [{operator: Exists}], containers: [{name: a, resources: {requests: {cpu: 100m}}}]}`),
		set("gpu", `{nodeSelector: {gpu: "true"}, containers: [{name: a, resources: {requests: {cpu: 1, memory: 1Gi}}}]}`),
	}, translate.Options{Alternatives: true})
	if skipped != 0 || len(overheads) != 2 {
		t.Fatalf("%d, %d skipped", len(overheads), skipped)
	}
	gpu, logs := overheads[0], overheads[1]
	if diff := cmp.Diff([]needs.Amount{{Name: "cpu", Amount: 1000}, {Name: "memory", Amount: 1 << 30}, {Name: "pods", Amount: 1}}, gpu.Resources); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]needs.Requirement{{Key: "gpu", Operator: needs.In, Values: []string{"true"}}}, gpu.Requirements); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(gpu.Tolerations, needs.Toleration{Key: "node.kubernetes.io/unschedulable", Exists: true, Effect: needs.NoSchedule}) || len(gpu.Tolerations) != 6 {
		t.Errorf("%v", gpu.Tolerations)
	}
	if !slices.Contains(logs.Tolerations, needs.Toleration{Exists: true}) || len(logs.Tolerations) != 8 {
		t.Errorf("%v", logs.Tolerations)
	}
	many, skipped := Overheads(slices.Repeat([]*appsv1.DaemonSet{set("x", "{}")}, 300), translate.Options{})
	if len(many) != MostOverheads || skipped != 44 {
		t.Errorf("%d of 300, %d skipped", len(many), skipped)
	}
	if parts, err := rollup.NewWriter("c").Write(time.UnixMilli(0), nil, overheads); err != nil {
		t.Error(err)
	} else if joined, err := rollup.NewJoiner("c").Add(parts[0]); err != nil {
		t.Error(err)
	} else if _, read, err := rollup.Decode("c", joined); err != nil || !slices.EqualFunc(read, overheads, needs.EqualOverheads) {
		t.Errorf("%v, %v", read, err)
	}
}
