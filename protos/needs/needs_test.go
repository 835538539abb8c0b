package needs

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCanonicalForms(t *testing.T) {
	zone := Requirement{Key: "topology.kubernetes.io/zone", Operator: In, Values: []string{"b", "a", "a"}}
	for _, tt := range []struct {
		name    string
		profile Profile
		want    string
	}{
		{"nothing is asked for", Profile{Interruption: Zero, Reclamation: Zero}, "1;;;;0;1;1"},
		{
			"each list is a set",
			Profile{
				Requirements: []Requirement{zone, {Key: "arch", Operator: Exists}, zone},
				Spread:       []Spread{{"rack", 2}, {"rack", 1}, {"rack", 2}},
				Tolerations:  []Toleration{{Key: "b", Value: "x", Effect: NoSchedule}, {Exists: true}, {Exists: true}},
				Priority:     -7, Interruption: HalfDollar, Reclamation: Pinned,
			},
			"1;arch:2:|topology.kubernetes.io/zone:0:a,b;rack:1|rack:2;:2::0|b:0:x:1;-7;2;27",
		},
		{
			"alternatives are sets of sets",
			Profile{
				Alternatives: [][]Requirement{{{Key: "b", Operator: Gt, Values: []string{"3"}}}, {{Key: "a", Operator: DoesNotExist}}, {{Key: "a", Operator: DoesNotExist}}},
				Interruption: Zero, Reclamation: Zero,
			},
			"1;;;;0;1;1;a:3:&b:5:3",
		},
		{
			"separators and other bytes are escaped",
			Profile{Requirements: []Requirement{{Key: "a|b", Operator: NotIn, Values: []string{"x,y", "é;"}}}, Interruption: Zero, Reclamation: Zero},
			"1;a%7Cb:1:x%2Cy,%C3%A9%3B;;;0;1;1",
		},
	} {
		if got := string(tt.profile.Canonical()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if got, want := (Profile{Interruption: Zero, Reclamation: Zero}).Fingerprint(), "16951cf1cb1c5624debb277dcf5ab38c"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}

func TestNormalChangesNothing(t *testing.T) {
	p := Profile{Requirements: []Requirement{{Key: "b", Values: []string{"2", "1"}}, {Key: "a", Values: []string{"1"}}}}
	before := fmt.Sprint(p)
	p.Normal()
	p.WithSame("rack")
	if after := fmt.Sprint(p); before != after {
		t.Errorf("%s became %s", before, after)
	}
}

func TestWithSameIsIdempotent(t *testing.T) {
	once := Profile{}.WithSame("rack")
	want := []Requirement{{Key: "rack", Operator: Same}}
	if diff := cmp.Diff(want, once.WithSame("rack").Requirements); diff != "" {
		t.Error(diff)
	}
}

func TestGroupKey(t *testing.T) {
	selector := Selector{MatchLabels: map[string]string{"app": "db", "tier": "x"}}
	base := CoLocation{TopologyKey: "rack", Namespaces: []string{"a", "b"}, Selector: selector}
	same := CoLocation{TopologyKey: "rack", Namespaces: []string{"b", "a", "b"}, Selector: selector}
	if base.GroupKey() != same.GroupKey() || len(base.GroupKey()) != 32 {
		t.Errorf("%s and %s", base.GroupKey(), same.GroupKey())
	}
	// The commas of a selector of namespaces are not those between namespaces.
	listed := Selector{MatchExpressions: []Requirement{{Key: "team", Values: []string{"x"}}}}.Canonical()
	two := CoLocation{Namespaces: []string{NamespaceSelectorPrefix + listed, "y"}}
	listed = Selector{MatchExpressions: []Requirement{{Key: "team", Values: []string{"x", "y"}}}}.Canonical()
	one := CoLocation{Namespaces: []string{NamespaceSelectorPrefix + listed}}
	if two.GroupKey() == one.GroupKey() {
		t.Error("a namespace and a value of a selector give one key")
	}
	if got, want := selector.Canonical(), "app=db|tier=x;"; got != want {
		t.Errorf("selector %q, want %q", got, want)
	}
}

func TestKeyOf(t *testing.T) {
	seen := map[Key]string{}
	for _, args := range []struct {
		cluster, fingerprint, group, class string
		stuck                              uint32
	}{
		{"t", "f", "", "", 0}, {"t", "f", "", "0", 0}, {"t", "f", "0", "", 0}, {"tf", "", "", "", 0},
		{"t", "f", "", "", 1}, {"t", "f", "", "", 11}, {"t", "f", "", "stuck1", 0}, {"u", "f", "", "", 0},
	} {
		key := KeyOf(args.cluster, args.fingerprint, args.group, args.class, args.stuck)
		if key != KeyOf(args.cluster, args.fingerprint, args.group, args.class, args.stuck) {
			t.Errorf("%v has two keys", args)
		}
		if other, found := seen[key]; found {
			t.Errorf("%v has the key of %s", args, other)
		}
		seen[key] = fmt.Sprint(args)
	}
}

func TestBucketBoundaries(t *testing.T) {
	for _, tt := range []struct {
		micro int64
		want  Bucket
	}{
		{-1, 1},
		{0, 1},
		{1, 2},
		{1_000, 2},
		{500_000, 2},
		{500_001, 3},
		{501_000, 3},
		{1_000_000, 3},
		{1_010_000, 4},
		{2_000_000, 4},
		{8000_000_000, 16},
		{8192_000_000, 16},
		{8193_000_000, 17},
		{8_388_608_000_000, 26},
		{8_388_608_000_001, 27},
		{math.MaxInt64, 27},
	} {
		if got := BucketOf(tt.micro); got != tt.want {
			t.Errorf("%d millionths: bucket %d, want %d", tt.micro, got, tt.want)
		}
	}
	for b := Zero; b < Pinned; b++ {
		if got := BucketOf(b.MicroUSD()); got != b {
			t.Errorf("the bound of bucket %d is in bucket %d", b, got)
		}
		if got := BucketOf(b.MicroUSD() + 1); got != b+1 {
			t.Errorf("just above the bound of bucket %d is bucket %d", b, got)
		}
	}
	for b, want := range map[Bucket]string{0: "Bucket(0)", 1: "$0", 2: "$0.50", 3: "$1", 26: "$8388608", 27: "pinned", 28: "Bucket(28)"} {
		if b.String() != want || b.Valid() != (b >= 1 && b <= 27) {
			t.Errorf("bucket %d is %s, valid %t", b, b, b.Valid())
		}
	}
}

func TestUnitClass(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		amounts []Amount
		want    string
	}{
		{nil, "0"},
		{[]Amount{{"cpu", 500}, {"memory", gib}}, "0"},
		{[]Amount{{"cpu", 501}}, "1"},
		{[]Amount{{"cpu", 1000}, {"memory", 4 * gib}}, "2"},
		{[]Amount{{"cpu", 1000}, {"memory", 4*gib + 1}}, "3"},
		{[]Amount{{"cpu", 64_000}}, "7"},
		{[]Amount{{"cpu", math.MaxInt64}}, "55"},
		{[]Amount{{"memory", 8 * gib}, {"nvidia.com/gpu", 1}}, "3|nvidia.com/gpu=1"},
		{[]Amount{{"b.io/y", 2}, {"a.io/x", 1}, {"pods", 1}, {"hugepages-2Mi", 4}, {"x.kubernetes.io/z", 1}}, "0|a.io/x=1|b.io/y=2"},
		{[]Amount{{strings.Repeat("x", 250) + "/y", 1}}, "e90870709e2f122b37cbe980dabc938f"},
	} {
		if got := UnitClass(tt.amounts); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.amounts, got, tt.want)
		}
	}
}

func TestOperators(t *testing.T) {
	for o := In; o <= Lt; o++ {
		parsed, ok := ParseOperator(o.String())
		if ok != (o != Same) || ok && parsed != o {
			t.Errorf("%s is read as %s, %t", o, parsed, ok)
		}
	}
	if _, ok := ParseOperator("in"); ok || Operator(9).String() != "Operator(9)" {
		t.Error("an unknown operator has a name")
	}
}

func TestValidKey(t *testing.T) {
	for key, want := range map[string]bool{
		"app": true, "nvidia.com/gpu": true, "a_b.C-9": true, "": false, "/a": false, "a/": false, "A.com/x": false,
		"a/b/c": false, "-a": false, "a b": false, "x/" + string(make([]byte, 3)): false,
	} {
		if ValidKey(key) != want {
			t.Errorf("%q: %t", key, !want)
		}
	}
	for value, want := range map[string]bool{"5": true, "-5": true, "": false, "1.5": false, "99999999999999999999": false} {
		if ValidInteger(value) != want {
			t.Errorf("%q: %t", value, !want)
		}
	}
}

// Profiles that are equal as sets have equal bytes, all others different ones.
func FuzzCanonicalProfile(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	for seed := range uint64(200) {
		f.Add(seed, seed)
		f.Add(seed, seed+1)
	}
	f.Fuzz(func(t *testing.T, one, other uint64) {
		a, b := randomProfile(rand.New(rand.NewPCG(one, 0))), randomProfile(rand.New(rand.NewPCG(other, 0)))
		same := string(a.Canonical()) == string(b.Canonical())
		if same != (asSets(a) == asSets(b)) {
			t.Fatalf("%+v and %+v: %s and %s", a, b, a.Canonical(), b.Canonical())
		}
		shuffled := shuffledProfile(rand.New(rand.NewPCG(other, 1)), a)
		if string(a.Canonical()) != string(shuffled.Canonical()) || a.Fingerprint() != shuffled.Fingerprint() {
			t.Fatalf("%+v: %s, shuffled %s", a, a.Canonical(), shuffled.Canonical())
		}
	})
}

// Few words, so that equal profiles are frequent; with the separators, so that they would
// be confused if they were not escaped.
var words = []string{"a", "b", "a|b", "a,b", ":", ";", "&", "%7C"}

func randomProfile(r *rand.Rand) Profile {
	p := Profile{Requirements: randomRequirements(r, 2), Priority: r.Int32N(2), Interruption: Zero + Bucket(r.IntN(2)), Reclamation: Zero}
	for range r.IntN(3) {
		p.Alternatives = append(p.Alternatives, randomRequirements(r, 2))
	}
	for range r.IntN(2) {
		p.Spread = append(p.Spread, Spread{pick(r), 1 + r.Int32N(2)})
	}
	for range r.IntN(2) {
		p.Tolerations = append(p.Tolerations, Toleration{Key: pick(r), Exists: r.IntN(2) == 0, Value: pick(r), Effect: Effect(r.IntN(2))})
	}
	return p
}

func pick(r *rand.Rand) string { return words[r.IntN(len(words))] }

func randomRequirements(r *rand.Rand, most int) []Requirement {
	var rs []Requirement
	for range r.IntN(most + 1) {
		one := Requirement{Key: pick(r), Operator: Operator(r.IntN(3))}
		if one.Operator != Exists {
			for range 1 + r.IntN(2) {
				one.Values = append(one.Values, pick(r))
			}
		}
		rs = append(rs, one)
	}
	return rs
}

// shuffledProfile says the same in another order, some of it twice.
func shuffledProfile(r *rand.Rand, p Profile) Profile {
	p.Requirements = shuffled(r, p.Requirements)
	p.Alternatives = shuffled(r, p.Alternatives)
	for i := range p.Alternatives {
		p.Alternatives[i] = shuffled(r, p.Alternatives[i])
	}
	p.Spread = shuffled(r, p.Spread)
	p.Tolerations = shuffled(r, p.Tolerations)
	for i := range p.Requirements {
		p.Requirements[i].Values = shuffled(r, p.Requirements[i].Values)
	}
	return p
}

func shuffled[T any](r *rand.Rand, list []T) []T {
	list = slices.Clone(list)
	if len(list) > 0 {
		list = append(list, list[r.IntN(len(list))])
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// asSets writes a profile for comparison in a way that has nothing in common with its
// canonical form: Go literals, each set sorted as text.
func asSets(p Profile) string {
	requirements := func(rs []Requirement) string {
		return set(rs, func(r Requirement) string {
			return fmt.Sprintf("%q %d %s", r.Key, r.Operator, set(r.Values, func(v string) string { return fmt.Sprintf("%q", v) }))
		})
	}
	return fmt.Sprintf("%s %s %s %s %d %d %d", requirements(p.Requirements), set(p.Alternatives, requirements),
		set(p.Spread, func(s Spread) string { return fmt.Sprintf("%#v", s) }),
		set(p.Tolerations, func(t Toleration) string { return fmt.Sprintf("%#v", t) }), p.Priority, p.Interruption, p.Reclamation)
}

func set[T any](list []T, text func(T) string) string {
	var texts []string
	for _, element := range list {
		texts = append(texts, text(element))
	}
	slices.Sort(texts)
	return fmt.Sprintf("%q", slices.Compact(texts))
}

func BenchmarkFingerprint(b *testing.B) {
	p := randomProfile(rand.New(rand.NewPCG(3, 0)))
	for b.Loop() {
		p.Fingerprint()
	}
}

func TestParseSelector(t *testing.T) {
	for _, s := range []Selector{
		{},
		{MatchLabels: map[string]string{"app": "db", "example.com/tier": ""}},
		{MatchExpressions: []Requirement{
			{Key: "team", Operator: In, Values: []string{"x", "y"}}, {Key: "team", Operator: NotIn, Values: []string{"z"}},
			{Key: "a", Operator: Exists}, {Key: "b", Operator: DoesNotExist},
		}},
		{MatchLabels: map[string]string{"a|b": ";,", "%7C": "é"}, MatchExpressions: []Requirement{{Key: ":", Values: []string{",", "|"}}}},
	} {
		got, ok := ParseSelector(s.Canonical())
		if !ok || got.Canonical() != s.Canonical() {
			t.Errorf("%s: %+v, %t", s.Canonical(), got, ok)
		}
	}
	for _, text := range []string{"", "app=db", "app;", "a=b|;", ";a:2:x", ";a:4:x", ";a:x:y", ";a:0", "b=1|a=1;", ";a:0:y,x", "a=%7;", "a=%41;"} {
		if s, ok := ParseSelector(text); ok {
			t.Errorf("%q is none, and was read as %+v", text, s)
		}
	}
}

// What a canonical text says is what was written, and no text is a trap.
func FuzzParseSelector(f *testing.F) {
	f.Add(uint64(1), "a=b;c:0:d")
	for seed := range uint64(100) {
		f.Add(seed, ";")
	}
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := Selector{MatchExpressions: randomRequirements(r, 3)}
		for range r.IntN(3) {
			if s.MatchLabels == nil {
				s.MatchLabels = map[string]string{}
			}
			s.MatchLabels[pick(r)] = pick(r)
		}
		got, ok := ParseSelector(s.Canonical())
		if !ok || !maps.Equal(got.MatchLabels, s.MatchLabels) || !reflect.DeepEqual(NormalRequirements(got.MatchExpressions), NormalRequirements(s.MatchExpressions)) {
			t.Fatalf("%+v became %+v, %t", s, got, ok)
		}
		if got, ok := ParseSelector(text); ok && got.Canonical() != text {
			t.Fatalf("%q was read as %s", text, got.Canonical())
		}
	})
}
