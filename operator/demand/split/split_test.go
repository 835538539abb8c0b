package split

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

var (
	start  = time.Unix(1_800_000_000, 0)
	shards = []Shard{{"a", "z1", "r"}, {"b", "z2", "r"}, {"c", "z3", "r"}}
)

func none(string, string) Offer { return Offer{} }

func request(t *testing.T, id, text string) Request {
	t.Helper()
	spec := &demandv1.CapacityRequestSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return Request{ID: id, Fingerprint: "f", Spec: spec}
}

func many(t *testing.T, n int, text string) (all []Request) {
	for i := range n {
		all = append(all, request(t, fmt.Sprintf("p%03d", i), text))
	}
	return all
}

// counted says how many requests each shard has.
func counted(result map[string]string) map[string]int {
	counts := map[string]int{}
	for _, shard := range result {
		counts[shard]++
	}
	return counts
}

const (
	inZone2 = `{requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z2]}]}`
	spread  = `{topologySpread: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}`
)

func TestEligible(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:    "abc",
		inZone2: "b",
		`{requirements: [{key: topology.kubernetes.io/zone, operator: NotIn, values: [z2]}]}`:                                                                                                                                              "ac",
		`{requirements: [{key: topology.kubernetes.io/region, operator: In, values: [q]}]}`:                                                                                                                                                "",
		`{requirements: [{key: topology.kubernetes.io/zone, operator: Exists}, {key: x, operator: In, values: [y]}]}`:                                                                                                                      "abc",
		`{requirements: [{key: topology.kubernetes.io/zone, operator: DoesNotExist}]}`:                                                                                                                                                     "",
		`{requirements: [{key: topology.kubernetes.io/zone, operator: Gt, values: ["1"]}]}`:                                                                                                                                                "",
		`{alternatives: [{requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}, {requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z3]}]}]}`:                                             "ac",
		`{requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}], alternatives: [{requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z2]}]}, {requirements: [{key: x, operator: Exists}]}]}`: "a",
	} {
		got := ""
		for _, s := range shards {
			if Eligible(s, request(t, "p", text).Spec) {
				got += s.ID
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if !Eligible(Shard{ID: "x"}, request(t, "p", inZone2).Spec) {
		t.Error("a shard of an unknown zone is excluded")
	}
	if got := ByZone(shards, "z3") + ByZone(shards, "z9") + ByZone([]Shard{{ID: "x"}}, ""); got != "c" {
		t.Errorf("by zone: %q", got)
	}
}

func TestOneShardGetsEverything(t *testing.T) {
	var s Splitter
	got := s.Split(start, shards[:1], append(many(t, 5, inZone2), request(t, "q", "{}")), none)
	if counted(got)["a"] != 6 {
		t.Errorf("%v", got)
	}
	if got := s.Split(start, nil, many(t, 5, "{}"), none); len(got) != 0 {
		t.Errorf("without shards: %v", got)
	}
}

func TestEachGoesWhereItMay(t *testing.T) {
	var s Splitter
	running := request(t, "run", inZone2)
	running.Runs = "a" // where it runs counts, whatever it asks for
	foreign := request(t, "foreign", inZone2)
	foreign.Runs = "gone"
	nowhere := request(t, "nowhere", `{requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z9]}]}`)
	got := s.Split(start, shards, []Request{running, foreign, nowhere, request(t, "two", inZone2)}, none)
	if got["run"] != "a" || got["two"] != "b" || got["foreign"] != "b" || got["nowhere"] == "" {
		t.Errorf("%v", got)
	}
}

func TestPendingGoesToTheBestOffer(t *testing.T) {
	offers := func(o map[string]Offer) func(string, string) Offer {
		return func(shard, _ string) Offer { return o[shard] }
	}
	for name, tt := range map[string]struct {
		offers map[string]Offer
		want   string
	}{
		"the most confident": {map[string]Offer{"a": {"Medium", 1}, "b": {"High", 9}, "c": {"Low", 1}}, "b"},
		"then the cheapest":  {map[string]Offer{"a": {"Medium", 3}, "b": {"None", 1}, "c": {"Medium", 2}}, "c"},
	} {
		var s Splitter
		if got := s.Split(start, shards, many(t, 4, "{}"), offers(tt.offers)); counted(got)[tt.want] != 4 {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Equal offers are divided, and what is pending stays when they change.
	var s Splitter
	first := s.Split(start, shards, many(t, 300, "{}"), none)
	for shard, n := range counted(first) {
		if n < 60 {
			t.Errorf("%s has %d of 300", shard, n)
		}
	}
	again := s.Split(start, shards, many(t, 300, "{}"), offers(map[string]Offer{"a": {"High", 1}, "b": {"None", 0}, "c": {"None", 0}}))
	if !maps.Equal(first, again) {
		t.Error("what is pending moves with each offer")
	}
}

func TestSpreadOverZonesIsEven(t *testing.T) {
	var s Splitter
	all := many(t, 7, spread)
	got := s.Split(start, shards, all, none)
	if !maps.Equal(counted(got), map[string]int{"a": 3, "b": 2, "c": 2}) {
		t.Errorf("%v", counted(got))
	}
	// What runs counts, and what is pending stays, as far as that leaves it even.
	for i := range 3 {
		running := request(t, fmt.Sprint("r", i), spread)
		running.Runs = "b"
		all = append(all, running)
	}
	all = append(all, many(t, 9, spread)[7:]...)
	more := s.Split(start, shards, all, none)
	var moved []string
	for id, shard := range got {
		if more[id] != shard {
			moved = append(moved, shard+" to "+more[id])
		}
	}
	if !slices.Equal(moved, []string{"b to c"}) || !maps.Equal(counted(more), map[string]int{"a": 4, "b": 4, "c": 4}) {
		t.Errorf("moved %v, divided as %v", moved, counted(more))
	}
	if again := s.Split(start, shards, all, none); !maps.Equal(again, more) {
		t.Errorf("divided as %v, then as %v", more, again)
	}
}

// Pods that are spread take each other's places: what is pending then counts where the fewest are.
func TestSpreadStaysEvenWhereAnotherPodTookThePlace(t *testing.T) {
	s := &Splitter{}
	all := many(t, 6, spread)
	first := s.Split(start, shards, all, none)
	var ran int
	for i := range all { // those that counted in c run in a and b
		if first[all[i].ID] == "c" {
			all[i].Runs = shards[ran].ID
			ran++
		}
	}
	if got := counted(s.Split(start, shards, all, none)); ran != 2 || got["a"] != 2 || got["b"] != 2 || got["c"] != 2 {
		t.Errorf("%d run elsewhere; divided as %v", ran, got)
	}
}

// A group goes where the Pods run that it has to be near, whatever is offered there, unless it may not; what of it runs
// already decides before that.
func TestAGroupGoesWhereItHasToBe(t *testing.T) {
	group := func(text, near string) []Request {
		all := many(t, 3, text)
		for i := range all {
			all[i].Group, all[i].Near = "g", near
		}
		return all
	}
	for _, near := range []string{"a", "b", "c"} {
		s := &Splitter{}
		s.Split(start, shards, group("{}", ""), none) // it stood elsewhere before
		s.Observe(start, near, "f", true)
		if got := counted(s.Split(start.Add(Patience), shards, group("{}", near), none)); got[near] != 3 {
			t.Errorf("near %s: %v", near, got)
		}
	}
	if got := counted((&Splitter{}).Split(start, shards, group(inZone2, "a"), none)); got["b"] != 3 {
		t.Errorf("a group that may not be in the zone that it has to be in: %v", got)
	}
	all := group("{}", "c")
	all[0].Runs = "a"
	if got := counted((&Splitter{}).Split(start, shards, all, none)); got["a"] != 3 {
		t.Errorf("one of the group runs: %v", got)
	}
}

// A group is never divided.
func TestAGroupStaysWhole(t *testing.T) {
	grouped := func(n int) []Request {
		all := many(t, n, "{}")
		for i := range all {
			all[i].Group = "g"
		}
		return all
	}
	var s Splitter
	first := counted(s.Split(start, shards, grouped(6), none))
	if len(first) != 1 {
		t.Errorf("%v", first)
	}
	var fresh Splitter
	if again := counted(fresh.Split(start, shards, grouped(6), none)); !maps.Equal(first, again) {
		t.Errorf("another process decides %v, not %v", again, first)
	}
	all := grouped(6)
	all[0].Runs, all[1].Runs, all[2].Runs = "a", "c", "c"
	if got := counted(s.Split(start, shards, all, none)); !maps.Equal(got, map[string]int{"a": 1, "c": 5}) {
		t.Errorf("%v", got)
	}
	// What one member may not have none has.
	all = grouped(3)
	all[1].Spec = request(t, "x", inZone2).Spec
	if got := counted((&Splitter{}).Split(start, shards, all, none)); got["b"] != 3 {
		t.Errorf("%v", got)
	}
}

// What is pending moves when the shard has been short for [Patience] without a break, however often the shard
// says so, and does not come back for ten minutes.
func TestAShortfallMovesWhatIsPending(t *testing.T) {
	var s Splitter
	all := many(t, 30, "{}")
	all[0].Runs = "a"
	before := s.Split(start.Add(-Patience), shards, all, none)
	s.Observe(start.Add(-Patience), "a", "f", true)
	s.Observe(start.Add(-time.Second), "a", "f", false)
	s.Observe(start, "a", "f", true)
	s.Observe(start, "c", "f", true)
	s.Forget("c", "f")
	s.Observe(start.Add(Patience-1), "a", "f", true)
	if got := s.Split(start.Add(Patience-1), shards, all, none); !maps.Equal(got, before) {
		t.Error("a shortfall of less than its time moves something")
	}
	s.Observe(start, "b", "other", true)
	since := start.Add(Patience)
	moved := s.Split(since, shards, all, none)
	if counted(moved)["a"] != 1 || moved["p000"] != "a" {
		t.Errorf("%v", counted(moved))
	}
	for id, shard := range before {
		if shard != "a" && moved[id] != shard {
			t.Errorf("%s moved from %s to %s", id, shard, moved[id])
		}
	}
	fresh := append(slices.Clone(all), many(t, 60, "{}")[30:]...)
	if got := s.Split(since.Add(Away-1), shards, fresh, none); counted(got)["a"] != 1 {
		t.Errorf("%v", counted(got))
	}
	fresh = append(fresh, many(t, 90, "{}")[60:]...)
	if got := s.Split(since.Add(Away), shards, fresh, none); counted(got)["a"] < 5 {
		t.Errorf("it never goes back: %v", counted(got))
	}
	// Where nothing else is eligible it stays.
	pinned := many(t, 3, inZone2)
	s.Observe(start.Add(time.Hour), "b", "f", true)
	if got := s.Split(start.Add(time.Hour+Patience), shards, pinned, none); counted(got)["b"] != 3 {
		t.Errorf("%v", counted(got))
	}
}

// What is remembered is bounded by what exists (S22): the shortfalls of a profile that nobody
// asks for any longer, and those of a shard that has left the directory, are forgotten, and
// count no more when they come again.
func TestS22_ShortfallsOfWhatIsGoneAreForgotten(t *testing.T) {
	var s Splitter
	all := many(t, 6, inZone2)
	for i := range 1000 {
		s.Observe(start, "a", fmt.Sprint("rollout", i), true)
	}
	s.Observe(start, "b", "f", true)
	s.Observe(start, "c", "f", true)
	s.Split(start, shards[:2], all, none)
	if want := map[place]time.Time{{"b", "f"}: start}; !maps.Equal(s.short, want) {
		t.Errorf("%d shortfalls are remembered, want %v", len(s.short), want)
	}
	s.Observe(start.Add(Patience), "c", "f", true)
	s.Split(start.Add(Patience), shards, all, none)
	if _, away := s.away[place{"c", "f"}]; away {
		t.Error("shortfalls of a shard that left and came back still count")
	}
	if _, away := s.away[place{"b", "f"}]; !away {
		t.Error("shortfalls of what is asked for are forgotten too")
	}
}
