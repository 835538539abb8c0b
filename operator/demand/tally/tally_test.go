package tally

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/demand/stuck"
	"nstance.dev/protos/needs"
)

var begin = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// asks is a spec that asks for so many cores, changed.
func asks(cores int64, changes ...func(*demandv1.CapacityRequestSpec)) *demandv1.CapacityRequestSpec {
	s := &demandv1.CapacityRequestSpec{Resources: demandv1.Resources{Requests: map[corev1.ResourceName]resource.Quantity{
		corev1.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI), corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI),
	}}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func inZone(zone string) func(*demandv1.CapacityRequestSpec) {
	return func(s *demandv1.CapacityRequestSpec) {
		s.Requirements = append(s.Requirements, demandv1.Requirement{Key: corev1.LabelTopologyZone, Operator: demandv1.OperatorIn, Values: []string{zone}})
	}
}

func together(s *demandv1.CapacityRequestSpec) {
	s.CoLocation = &demandv1.CoLocation{TopologyKey: corev1.LabelTopologyZone, Namespaces: []string{"x"}, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}
}

func one(o Options) *Tally {
	t := New(o)
	t.SetShards([]split.Shard{{ID: "a"}})
	return t
}

func three() *Tally {
	t := New(Options{})
	t.SetShards([]split.Shard{{ID: "a", Zone: "za"}, {ID: "b", Zone: "zb"}, {ID: "c", Zone: "zc"}})
	return t
}

// cores are what the rows of a shard ask for together, in cores.
func cores(t *Tally, now time.Time, shard string) (sum int64) {
	for _, r := range t.Rows(now, shard) {
		for _, a := range r.Aggregate {
			if a.Name == "cpu" {
				sum += a.Amount / 1000
			}
		}
	}
	return sum
}

// A Pod counts by its request once there is one, and never twice.
func TestSources(t *testing.T) {
	for source, want := range map[Source][4]int64{
		// The Pod alone, its request beside it, the request alone, and the Pod when it has ended.
		Both:     {2, 3, 3, 0},
		Requests: {0, 3, 3, 0},
		Pods:     {2, 2, 0, 0},
	} {
		y := one(Options{Source: source})
		pod, request := Pod{UID: "u", Spec: asks(2)}, Request{ID: "r", Pod: "u", Spec: asks(3)}
		step := func(i int, do func()) {
			t.Helper()
			do()
			if got := cores(y, begin, "a"); got != want[i] {
				t.Errorf("%s, step %d: %d cores, want %d", source, i, got, want[i])
			}
		}
		step(0, func() { y.SetPod(pod) })
		step(1, func() { y.SetRequest(request) })
		step(2, func() { y.DeletePod("u") })
		step(3, func() {
			pod.Nothing = true
			y.SetPod(pod)
		})
		y.SetRequest(Request{ID: "other", Spec: asks(7)})
		if got := cores(y, begin, "a"); got != 7 {
			t.Errorf("%s: a request that stands for itself asks for %d cores", source, got)
		}
		y.DeleteRequest(Request{ID: "other"})
		y.DeleteRequest(request)
		y.DeletePod("u")
		if len(y.units) != 0 || len(y.kinds) != 0 || len(y.places.on) != 0 {
			t.Errorf("%s: %d units and %d kinds are left", source, len(y.units), len(y.kinds))
		}
	}
}

// What runs on a foreign Node is left out, and so is what ends with a draining Node.
func TestPlaces(t *testing.T) {
	y := one(Options{})
	y.SetPod(Pod{UID: "u", Spec: asks(1), Node: "n", Recreated: true})
	expect := func(what string, want int64) {
		t.Helper()
		if got := cores(y, begin, "a"); got != want {
			t.Errorf("%s: %d cores, want %d", what, got, want)
		}
	}
	expect("the Node is not known", 1)
	if !y.SetNode("n", Node{}) {
		t.Error("a foreign Node changes nothing")
	}
	expect("foreign", 0)
	y.SetNode("n", Node{Shard: "a"})
	expect("ours", 1)
	y.SetNode("n", Node{Shard: "a", Draining: true})
	expect("draining, and made again", 1)
	y.SetPod(Pod{UID: "u", Spec: asks(1), Node: "n"})
	expect("draining, and never made again", 0)
	if y.SetNode("n", Node{Shard: "a", Draining: true}) {
		t.Error("the same again is a change")
	}
	y.DeleteNode("n")
	expect("the Node is gone", 1)
	y.SetPod(Pod{UID: "u", Spec: asks(1), Node: "m"})
	if y.SetNode("n", Node{}) {
		t.Error("a Node changes what is asked for on which the Pod no longer runs")
	}
	if !y.SetNode("m", Node{}) {
		t.Error("the Pod's Node changes nothing")
	}
	expect("on a foreign Node", 0)

	all := one(Options{CountForeign: true})
	all.SetNode("n", Node{})
	all.SetPod(Pod{UID: "u", Spec: asks(1), Node: "n"})
	if got := cores(all, begin, "a"); got != 1 {
		t.Errorf("foreign Nodes counted: %d cores", got)
	}
}

// What says nothing new is no change, however often it is said.
func TestNothingNew(t *testing.T) {
	y := one(Options{})
	if !y.SetPod(Pod{UID: "u", Spec: asks(1)}) || y.SetPod(Pod{UID: "u", Spec: asks(1)}) || !y.SetPod(Pod{UID: "u", Spec: asks(2)}) {
		t.Error("Pods: only what is new is a change")
	}
	r := Request{ID: "r", Pod: "u", Spec: asks(1)}
	if !y.SetRequest(r) || y.SetRequest(Request{ID: "r", Pod: "u", Spec: asks(1)}) {
		t.Error("requests: only what is new is a change")
	}
	if y.DeleteRequest(Request{ID: "before", Pod: "u"}) {
		t.Error("the end of a former request is a change")
	}
	if len(y.kinds) != 2 || y.kinds[y.units["u"].requests.raw].users != 1 {
		t.Errorf("kinds %v", y.kinds)
	}
}

// Running Pods count where they run, pending ones go to one shard, groups to one whole.
func TestDivide(t *testing.T) {
	y := three()
	y.SetNode("nb", Node{Shard: "b", Zone: "zb"})
	y.SetPod(Pod{UID: "runs", Spec: asks(1), Node: "nb"})
	y.SetPod(Pod{UID: "bound", Spec: asks(2, inZone("zc"))})
	y.SetPod(Pod{UID: "g1", Spec: asks(4, together), Node: "nb"})
	for i := range 5 {
		y.SetPod(Pod{UID: fmt.Sprint("g", i+2), Spec: asks(4, together)})
	}
	if a, b, c := cores(y, begin, "a"), cores(y, begin, "b"), cores(y, begin, "c"); a != 0 || b != 25 || c != 2 {
		t.Errorf("the shards get %d, %d, %d cores", a, b, c)
	}
	rows := y.Rows(begin, "b")
	i := slices.IndexFunc(rows, func(r *needs.Row) bool { return r.Group != "" })
	if i < 0 || !slices.ContainsFunc(rows[i].Profile.Requirements, func(r needs.Requirement) bool {
		return r.Operator == needs.In && slices.Equal(r.Values, []string{"zb"})
	}) {
		t.Errorf("the group is not kept in the zone where it runs: %+v", rows)
	}
	if y.Share("g3") != "b" || y.Share("bound") != "c" || y.Share("nobody") != "" {
		t.Errorf("shares %s, %s", y.Share("g3"), y.Share("bound"))
	}
	y.SetShards([]split.Shard{{ID: "a", Zone: "za"}, {ID: "b", Zone: "zb"}})
	if a, b, c := cores(y, begin, "a"), cores(y, begin, "b"), cores(y, begin, "c"); a+b != 27 || c != 0 {
		t.Errorf("a shard less: %d, %d, %d cores", a, b, c)
	}
	y.DeletePod("g1")
	for _, r := range y.Rows(begin, "b") {
		for _, q := range r.Profile.Requirements {
			if q.Operator == needs.In && q.Values[0] == "zb" {
				t.Error("the group is still kept where nothing of it runs")
			}
		}
	}
}

// A Pod that stays unschedulable gets a row of its own, unless a machine for it is on its way or
// a shard says that it falls short.
func TestStuckRows(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Tally)
		stuck  bool
	}{
		"stuck":               {func(*Tally) {}, true},
		"a machine joins":     {func(y *Tally) { y.SetJoining("m", map[string]string{corev1.LabelTopologyZone: "za"}) }, false},
		"a machine elsewhere": {func(y *Tally) { y.SetJoining("m", map[string]string{corev1.LabelTopologyZone: "zb"}) }, true},
		"it joined": {func(y *Tally) {
			y.SetJoining("m", map[string]string{corev1.LabelTopologyZone: "za"})
			y.SetJoining("m", nil)
		}, true},
		"a shortfall": {func(y *Tally) { y.SetOffer(begin, "a", y.units["u"].kind.key.Fingerprint, split.Offer{}, true) }, false},
		"a shortfall that is over": {func(y *Tally) {
			f := y.units["u"].kind.key.Fingerprint
			y.SetOffer(begin, "a", f, split.Offer{}, true)
			y.DeleteOffer("a", f)
		}, true},
		"scheduled": {func(y *Tally) { y.SetPod(Pod{UID: "u", Spec: asks(1, inZone("za")), Node: "n"}) }, false},
	} {
		y := one(Options{Surcharge: true})
		y.SetPod(Pod{UID: "u", Spec: asks(1, inZone("za")), Unschedulable: begin})
		y.Rows(begin, "a")
		y.Sent()
		y.Sent()
		c.change(y)
		rows := y.Rows(begin.Add(stuck.After), "a")
		if len(rows) != 1 || (rows[0].Stuck > 0) != c.stuck {
			t.Errorf("%s: rows %+v, want stuck %t", name, rows, c.stuck)
		}
	}
	off := one(Options{})
	off.SetPod(Pod{UID: "u", Spec: asks(1), Unschedulable: begin})
	off.Sent()
	off.Sent()
	if rows := off.Rows(begin.Add(time.Hour), "a"); len(rows) != 1 || rows[0].Stuck != 0 {
		t.Errorf("without the surcharge: %+v", rows)
	}
}

// A shard says once that it falls short, and nothing more while that does not change. What is pending goes elsewhere all
// the same, and not before its time.
func TestAShortfallThatIsSaidOnceMovesWhatIsPending(t *testing.T) {
	y := three()
	y.SetPod(Pod{UID: "u", Spec: asks(1)})
	first := ""
	for _, shard := range []string{"a", "b", "c"} {
		if cores(y, begin, shard) == 1 {
			first = shard
		}
	}
	y.SetOffer(begin, first, y.units["u"].kind.key.Fingerprint, split.Offer{}, true)
	for after := time.Duration(0); after <= split.Patience+again; after += again {
		sum := map[bool]int64{}
		for _, shard := range []string{"a", "b", "c"} {
			sum[shard == first] += cores(y, begin.Add(after), shard)
		}
		if stays := after < split.Patience; sum[stays] != 1 || sum[!stays] != 0 {
			t.Errorf("after %s: %d cores where it was, %d elsewhere", after, sum[true], sum[false])
		}
	}
}

// What cannot be part of a roll-up is counted as skipped, and everything else is sent.
func TestSkipped(t *testing.T) {
	y := one(Options{})
	y.SetRequest(Request{ID: "good", Spec: asks(1)})
	y.SetRequest(Request{ID: "bad", Spec: &demandv1.CapacityRequestSpec{}})
	counted, skipped := func() (int, int) { y.Rows(begin, "a"); return y.Len() }()
	if counted != 1 || skipped != 1 || y.Share("bad") != "" || y.Share("good") != "a" {
		t.Errorf("%d counted, %d skipped", counted, skipped)
	}
	y.DeleteRequest(Request{ID: "bad"})
	if _, skipped := y.Len(); skipped != 0 {
		t.Errorf("%d skipped", skipped)
	}
}

// However things come and go in 2,000 random changes, fewer with several shards, the rows of all three sources are equal once the requests have
// followed the Pods, equal to those that are made from nothing, and equal to those of a tally
// that has heard of the end alone.
func TestSourcesGiveEqualRows(t *testing.T) {
	for _, shards := range [][]split.Shard{{{ID: "a"}}, {{ID: "a", Zone: "za"}, {ID: "b", Zone: "zb"}, {ID: "c", Zone: "zc"}}} {
		r := rand.New(rand.NewPCG(7, uint64(len(shards))))
		all := map[Source]*Tally{}
		for _, source := range []Source{Both, Requests, Pods} {
			all[source] = New(Options{Source: source})
			all[source].SetShards(shards)
		}
		pods, nodes := map[string]Pod{}, map[string]Node{}
		now := begin
		for step := range 2000 / (2*len(shards) - 1) {
			now = now.Add(time.Second)
			uid := fmt.Sprint("u", r.IntN(120))
			switch pod, there := pods[uid]; {
			case step%20 == 0:
				name := fmt.Sprint("n", r.IntN(10))
				n := Node{Draining: r.IntN(4) == 0}
				if i := r.IntN(len(shards) + 1); i < len(shards) {
					n.Shard, n.Zone = shards[i].ID, shards[i].Zone
				}
				nodes[name] = n
				for _, y := range all {
					y.SetNode(name, n)
				}
			case there && r.IntN(3) == 0:
				delete(pods, uid)
				for _, y := range all {
					y.DeletePod(uid)
					y.DeleteRequest(Request{ID: "r" + uid, Pod: uid})
				}
			default:
				if !there {
					pod = Pod{UID: uid, Spec: random(r), Recreated: r.IntN(3) > 0}
				}
				pod.Ending, pod.Nothing = r.IntN(8) == 0, r.IntN(10) == 0
				if pod.Node == "" && r.IntN(2) == 0 {
					pod.Node = fmt.Sprint("n", r.IntN(10))
				}
				if r.IntN(10) == 0 {
					pod.Spec = random(r) // it was resized
				}
				pods[uid] = pod
				for _, y := range all {
					y.SetPod(pod)
					if pod.Nothing {
						y.DeleteRequest(Request{ID: "r" + uid, Pod: uid})
					} else {
						y.SetRequest(Request{ID: "r" + uid, Pod: uid, Spec: pod.Spec})
					}
				}
			}
			for _, s := range shards {
				want := encoded(t, all[Both].Rows(now, s.ID))
				for source, y := range all {
					if got := encoded(t, y.Rows(now, s.ID)); !slices.Equal(got, want) {
						t.Fatalf("step %d, shard %s: the rows of %s are others than those of %s", step, s.ID, source, Both)
					}
				}
			}
			if step%100 == 0 {
				for source, y := range all {
					if !y.Rebuild(now) {
						t.Fatalf("step %d: the rows of %s are not those that are made from nothing", step, source)
					}
				}
			}
		}
		if len(shards) > 1 {
			continue // where pending requests are depends on what was there before
		}
		fresh := New(Options{})
		fresh.SetShards(shards)
		for uid, pod := range pods {
			fresh.SetPod(pod)
			fresh.SetRequest(Request{ID: "r" + uid, Pod: uid, Spec: pod.Spec})
		}
		for name, n := range nodes {
			fresh.SetNode(name, n)
		}
		if want := encoded(t, all[Both].Rows(now, "a")); len(want) == 0 || !slices.Equal(encoded(t, fresh.Rows(now, "a")), want) {
			t.Error("the order in which things are heard of matters")
		}
	}
}

func random(r *rand.Rand) *demandv1.CapacityRequestSpec {
	return asks(int64(1+r.IntN(20)), func(s *demandv1.CapacityRequestSpec) {
		switch r.IntN(5) {
		case 0:
			inZone([]string{"za", "zb"}[r.IntN(2)])(s)
		case 1:
			together(s)
		case 2:
			s.TopologySpread = []demandv1.TopologySpread{{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: demandv1.DoNotSchedule}}
		}
		s.Priority = int32(r.IntN(2))
	})
}
