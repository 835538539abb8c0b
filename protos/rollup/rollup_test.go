package rollup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

var now = time.UnixMilli(1_800_000_000_000)

// row is a valid row, another one for each number.
func row(n int) *needs.Row {
	p := needs.Profile{
		Requirements: []needs.Requirement{
			{Key: "topology.kubernetes.io/zone", Values: []string{"a", "b"}},
			{Key: "number", Operator: needs.Gt, Values: []string{fmt.Sprint(n)}},
		},
		Alternatives: [][]needs.Requirement{{{Key: "x", Operator: needs.Exists}}, {{Key: "y", Operator: needs.DoesNotExist}}},
		Spread:       []needs.Spread{{TopologyKey: "rack", MaxSkew: 1}},
		Tolerations:  []needs.Toleration{{Key: "gpu", Value: "x", Effect: needs.NoSchedule}, {Exists: true}},
		Priority:     int32(-n), Interruption: needs.HalfDollar, Reclamation: needs.Pinned,
	}.Normal()
	return &needs.Row{
		Profile: p, Fingerprint: p.Fingerprint(), UnitClass: "1", Stuck: uint32(n % 3),
		Aggregate: []needs.Amount{{Name: "cpu", Amount: 4000}, {Name: "pods", Amount: 4}},
		MinUnit:   []needs.Amount{{Name: "cpu", Amount: 1000}, {Name: "pods", Amount: 1}},
	}
}

func rows(n int) (all []*needs.Row) {
	for i := range n {
		all = append(all, row(i))
	}
	return all
}

var overheads = []needs.Overhead{{
	Requirements: []needs.Requirement{{Key: "gpu", Operator: needs.Exists}},
	Tolerations:  []needs.Toleration{{Exists: true}},
	Resources:    []needs.Amount{{Name: "cpu", Amount: 100}},
}}

// carry takes what a writer made over the wire and through a joiner and a decoder.
func carry(t *testing.T, j *Joiner, parts []*demandpb.ClusterCapacityNeeds) (*Rollup, []*needs.Row, []needs.Overhead) {
	t.Helper()
	for i, part := range parts {
		data, err := proto.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		received := &demandpb.ClusterCapacityNeeds{}
		if err := proto.Unmarshal(data, received); err != nil {
			t.Fatal(err)
		}
		joined, err := j.Add(received)
		if err != nil {
			t.Fatal(err)
		}
		if (joined != nil) != (i == len(parts)-1) {
			t.Fatalf("part %d of %d completes: %t", i+1, len(parts), joined != nil)
		}
		if joined != nil {
			rows, overheads, err := Decode("c", joined)
			if err != nil {
				t.Fatal(err)
			}
			return joined, rows, overheads
		}
	}
	return nil, nil, nil
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, n := range []int{0, 1, 7, 2000} {
		for _, most := range []int{MostBytes, 40_000} {
			w := NewWriter("c")
			w.Limit(most + 1024)
			sent := rows(n)
			parts, err := w.Write(now, sent, overheads)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				if size := proto.Size(part); size > most {
					t.Errorf("a part of %d bytes", size)
				}
			}
			if (len(parts) > 1) != (n == 2000 && most < MostBytes) {
				t.Errorf("%d rows have %d parts of at most %d bytes", n, len(parts), most)
			}
			joined, got, gotOverheads := carry(t, NewJoiner("c"), parts)
			if joined.Sequence != 1 || joined.GeneratedUnixMs != now.UnixMilli() || joined.SameAs != 0 {
				t.Errorf("%+v", joined)
			}
			if !slices.EqualFunc(got, sent, needs.EqualRows) || !slices.EqualFunc(gotOverheads, overheads, needs.EqualOverheads) {
				t.Errorf("%d rows came as %d", n, len(got))
			}
		}
	}
}

func TestWhatIsEqualIsReferredTo(t *testing.T) {
	w, j := NewWriter("c"), NewJoiner("c")
	write := func(rows []*needs.Row) *Rollup {
		t.Helper()
		parts, err := w.Write(now, rows, overheads)
		if err != nil {
			t.Fatal(err)
		}
		joined, _, _ := carry(t, j, parts)
		return joined
	}
	for i, step := range []struct {
		rows   int
		forget uint64
		sameAs uint64
	}{
		{rows: 3}, {rows: 3, sameAs: 1}, {rows: 3, sameAs: 1}, {rows: 4}, {rows: 4, sameAs: 4},
		{rows: 4, forget: 3, sameAs: 4}, // an older one was rejected
		{rows: 4, forget: 5},            // a reference was rejected: the next one is whole
		{rows: 4, sameAs: 7}, {rows: 0}, {rows: 0, sameAs: 9},
	} {
		if step.forget > 0 {
			w.Forget(step.forget)
		}
		if got := write(rows(step.rows)); got.SameAs != step.sameAs || got.Sequence != uint64(i+1) || w.Sequence() != got.Sequence {
			t.Errorf("step %d: sequence %d refers to %d, want %d", i, got.Sequence, got.SameAs, step.sameAs)
		}
	}
}

// A heartbeat that says nothing new has at most 64 bytes.
func TestAReferenceIsSmall(t *testing.T) {
	w := NewWriter("cluster-0123456789")
	w.sequence = 1 << 20
	for range 2 {
		parts, err := w.Write(now, rows(60), nil)
		if err != nil {
			t.Fatal(err)
		}
		if same := parts[0].GetSameAsSequence() > 0; same && proto.Size(parts[0]) > 64 {
			t.Errorf("%d bytes", proto.Size(parts[0]))
		}
	}
}

func TestARejectedRollupIsNotReferredTo(t *testing.T) {
	w, j := NewWriter("c"), NewJoiner("c")
	for range 2 {
		parts, err := w.Write(now, rows(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		joined, err := j.Add(parts[0])
		switch w.Sequence() {
		case 1:
			if err != nil {
				t.Fatal(err)
			}
			j.Forget(joined.Sequence)
		case 2:
			if !errors.Is(err, ErrReference) || joined != nil {
				t.Errorf("%v, %v", joined, err)
			}
			w.Forget(2)
		}
	}
	parts, _ := w.Write(now, rows(1), nil)
	if joined, _, _ := carry(t, j, parts); joined.SameAs != 0 {
		t.Error("what was rejected is referred to")
	}
}

func TestTooLarge(t *testing.T) {
	w := NewWriter("c")
	w.mostBytes = 2000
	if _, err := w.Write(now, rows(2000), nil); !errors.Is(err, ErrTooLarge) || w.Sequence() != 0 {
		t.Errorf("2000 rows: %v", err)
	}
	if _, err := w.Write(now, nil, slices.Repeat(overheads, 257)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("257 overheads: %v", err)
	}
	w.mostBytes = 100
	if _, err := w.Write(now, rows(1), nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a row of more than a part: %v", err)
	}
	if parts, err := w.Write(now, nil, nil); err != nil || parts[0].GetSequence() != 1 {
		t.Errorf("after that: %v, %v", parts, err)
	}
}

// Parts come in order and complete, or the roll-up is dropped.
func TestPartsAreCompleteOrNothing(t *testing.T) {
	part := func(sequence uint64, part, parts uint32) *demandpb.ClusterCapacityNeeds {
		return &demandpb.ClusterCapacityNeeds{ClusterId: "c", Sequence: sequence, Part: part, Parts: parts, Needs: []*demandpb.CapacityNeed{Encode(row(int(part)))}}
	}
	with := func(m *demandpb.ClusterCapacityNeeds, change func(*demandpb.ClusterCapacityNeeds)) *demandpb.ClusterCapacityNeeds {
		change(m)
		return m
	}
	for name, tt := range map[string]struct {
		messages []*demandpb.ClusterCapacityNeeds
		kind     error // of the last message
		field    string
	}{
		"in order":            {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 2), part(1, 2, 2)}, nil, ""},
		"one part of one":     {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 1)}, nil, ""},
		"a gap":               {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 3), part(1, 3, 3)}, ErrParts, "part"},
		"a repeat":            {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 3), part(1, 1, 3)}, ErrParts, "part"},
		"other parts":         {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 3), part(1, 2, 2)}, ErrParts, "parts"},
		"a new sequence":      {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 2), part(2, 1, 2)}, ErrParts, "sequence"},
		"no first part":       {[]*demandpb.ClusterCapacityNeeds{part(1, 2, 2)}, ErrParts, "part"},
		"a part of none":      {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 0)}, ErrParts, "part"},
		"part 0":              {[]*demandpb.ClusterCapacityNeeds{part(1, 0, 2)}, ErrParts, "part"},
		"too many":            {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 17)}, ErrTooLarge, "parts"},
		"an old sequence":     {[]*demandpb.ClusterCapacityNeeds{part(2, 0, 0), part(2, 0, 0)}, ErrParts, "sequence"},
		"no sequence":         {[]*demandpb.ClusterCapacityNeeds{part(0, 0, 0)}, ErrParts, "sequence"},
		"another cluster":     {[]*demandpb.ClusterCapacityNeeds{with(part(1, 0, 0), func(m *demandpb.ClusterCapacityNeeds) { m.ClusterId = "d" })}, ErrInvalid, "cluster_id"},
		"an unknown roll-up":  {[]*demandpb.ClusterCapacityNeeds{{ClusterId: "c", Sequence: 1, SameAsSequence: 1}}, ErrReference, "same_as_sequence"},
		"the one before":      {[]*demandpb.ClusterCapacityNeeds{part(1, 0, 0), {ClusterId: "c", Sequence: 2, SameAsSequence: 1}}, nil, ""},
		"a reference and row": {[]*demandpb.ClusterCapacityNeeds{part(1, 0, 0), with(part(2, 0, 0), func(m *demandpb.ClusterCapacityNeeds) { m.SameAsSequence = 1 })}, ErrInvalid, "same_as_sequence"},
		"a reference within":  {[]*demandpb.ClusterCapacityNeeds{part(1, 1, 2), {ClusterId: "c", Sequence: 1, Part: 2, Parts: 2, SameAsSequence: 1}}, ErrInvalid, "same_as_sequence"},
		"a reference to what was dropped": {
			[]*demandpb.ClusterCapacityNeeds{part(1, 0, 0), part(2, 1, 2), {ClusterId: "c", Sequence: 3}, {ClusterId: "c", Sequence: 4, SameAsSequence: 1}},
			ErrReference, "same_as_sequence",
		},
		"overheads of a later part": {
			[]*demandpb.ClusterCapacityNeeds{part(1, 1, 2), with(part(1, 2, 2), func(m *demandpb.ClusterCapacityNeeds) {
				m.NodeOverheads = []*demandpb.NodeOverhead{EncodeOverhead(overheads[0])}
			})},
			ErrInvalid, "node_overheads",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := NewJoiner("c")
			var joined *Rollup
			var err error
			for _, m := range tt.messages {
				joined, err = j.Add(m)
			}
			var rejected *Error
			switch {
			case tt.kind == nil && (err != nil || joined == nil):
				t.Errorf("%v, %v", joined, err)
			case tt.kind != nil && (!errors.Is(err, tt.kind) || !errors.As(err, &rejected) || rejected.Field != tt.field || joined != nil):
				t.Errorf("%v, %v", joined, err)
			}
			// What was rejected leaves nothing behind.
			if joined, err := j.Add(part(9, 0, 0)); err != nil || len(joined.Needs) != 1 {
				t.Errorf("the next one: %v, %v", joined, err)
			}
		})
	}
}

func TestDecodeRejects(t *testing.T) {
	type pb = demandpb.CapacityNeed
	grouped := func(n *pb) {
		n.Group = "g"
		n.Requirements = append(n.Requirements, &demandpb.NodeSelectorRequirement{Key: "rack", Operator: demandpb.Operator_OPERATOR_SAME})
	}
	require := func(key string, operator demandpb.Operator, values ...string) func(*pb) {
		return func(n *pb) {
			n.Requirements = []*demandpb.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
		}
	}
	spread := func(n *pb, keys int) {
		n.Spread = nil
		for i := range keys {
			n.Spread = append(n.Spread, &demandpb.TopologySpread{TopologyKey: fmt.Sprintf("level-%02d", i), MaxSkew: 1})
		}
	}
	for name, tt := range map[string]struct {
		change func(*pb)
		field  string // empty: it is taken
	}{
		"nothing":                    {func(*pb) {}, ""},
		"a group":                    {grouped, ""},
		"Same without a group":       {func(n *pb) { grouped(n); n.Group = "" }, "needs[0].requirements[2].operator"},
		"two Same":                   {func(n *pb) { grouped(n); grouped(n) }, "needs[0].requirements"},
		"a group without Same":       {func(n *pb) { n.Group = "g" }, "needs[0].group"},
		"Same in an alternative":     {func(n *pb) { n.Alternatives[1].Requirements[0].Operator = demandpb.Operator_OPERATOR_SAME }, "needs[0].alternatives[1].requirements[0].operator"},
		"one alternative":            {func(n *pb) { n.Alternatives = n.Alternatives[:1] }, "needs[0].alternatives"},
		"nine alternatives":          {func(n *pb) { n.Alternatives = slices.Repeat(n.Alternatives[:1], 9) }, "needs[0].alternatives"},
		"sixteen topology keys":      {func(n *pb) { spread(n, 16) }, ""},
		"seventeen of them":          {func(n *pb) { spread(n, 16); grouped(n) }, "needs[0].spread[15].topology_key"},
		"a bucket of 0":              {func(n *pb) { n.InterruptionPenaltyBucket = 0 }, "needs[0].interruption_penalty_bucket"},
		"a bucket of 28":             {func(n *pb) { n.ReclamationPenaltyBucket = 28 }, "needs[0].reclamation_penalty_bucket"},
		"a negative bucket":          {func(n *pb) { n.ReclamationPenaltyBucket = -1 }, "needs[0].reclamation_penalty_bucket"},
		"an unknown operator":        {require("a", 8), "needs[0].requirements[0].operator"},
		"no operator":                {require("a", 0), "needs[0].requirements[0].operator"},
		"In without values":          {require("a", demandpb.Operator_OPERATOR_IN), "needs[0].requirements[0].values"},
		"Exists with values":         {require("a", demandpb.Operator_OPERATOR_EXISTS, "x"), "needs[0].requirements[0].values"},
		"Gt with a word":             {require("a", demandpb.Operator_OPERATOR_GT, "x"), "needs[0].requirements[0].values"},
		"Lt with two":                {require("a", demandpb.Operator_OPERATOR_LT, "1", "2"), "needs[0].requirements[0].values"},
		"no key":                     {require("", demandpb.Operator_OPERATOR_EXISTS), "needs[0].requirements[0].key"},
		"a long value":               {require("a", demandpb.Operator_OPERATOR_IN, strings.Repeat("x", 400)), "needs[0].requirements[0].values[0]"},
		"a skew of 0":                {func(n *pb) { n.Spread[0].MaxSkew = 0 }, "needs[0].spread[0].max_skew"},
		"an unknown effect":          {func(n *pb) { n.Tolerations[1].Effect = 4 }, "needs[0].tolerations[1].effect"},
		"no resources":               {func(n *pb) { n.AggregateResources = nil }, "needs[0].aggregate_resources"},
		"no unit":                    {func(n *pb) { n.MinUnit = nil }, "needs[0].min_unit"},
		"an amount of 0":             {func(n *pb) { n.MinUnit[0].Amount = 0 }, "needs[0].min_unit[0].amount"},
		"a bad name":                 {func(n *pb) { n.AggregateResources[0].Name = "a b" }, "needs[0].aggregate_resources[0].name"},
		"a name twice":               {func(n *pb) { n.AggregateResources[1].Name = "cpu" }, "needs[0].aggregate_resources[1].name"},
		"a unit above the sum":       {func(n *pb) { n.MinUnit[0].Amount = 4001 }, "needs[0].min_unit[0].amount"},
		"a unit of something else":   {func(n *pb) { n.MinUnit[1].Name = "x.com/y" }, "needs[0].min_unit[1].amount"},
		"a stuck row too many":       {func(n *pb) { n.Stuck = 17 }, "needs[0].stuck"},
		"a unit class without bound": {func(n *pb) { n.UnitClass = strings.Repeat("x", 400) }, "needs[0].unit_class"},
	} {
		t.Run(name, func(t *testing.T) {
			need := Encode(row(3))
			tt.change(need)
			_, _, err := Decode("c", &Rollup{ClusterID: "c", Sequence: 5, Needs: []*pb{need}})
			var rejected *Error
			switch {
			case tt.field == "" && err != nil:
				t.Error(err)
			case tt.field != "" && (!errors.As(err, &rejected) || !errors.Is(err, ErrInvalid) || rejected.Field != tt.field || rejected.Sequence != 5):
				t.Errorf("%v, want an error at %s", err, tt.field)
			}
		})
	}
	twice := []*pb{Encode(row(1)), Encode(row(2)), Encode(row(1))}
	if _, _, err := Decode("c", &Rollup{ClusterID: "c", Needs: twice}); err == nil || !strings.Contains(err.Error(), "needs[2] must differ from needs[0]") {
		t.Errorf("a row twice: %v", err)
	}
	if _, _, err := Decode("d", &Rollup{ClusterID: "c"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("another cluster: %v", err)
	}
	wrong := EncodeOverhead(overheads[0])
	wrong.Resources[0].Amount = -1
	if _, _, err := Decode("c", &Rollup{ClusterID: "c", Overheads: []*demandpb.NodeOverhead{wrong}}); err == nil || !strings.Contains(err.Error(), "node_overheads[0].resources[0].amount") {
		t.Errorf("a negative overhead: %v", err)
	}
}

// Whatever bytes come, they are rows that can be sent again, or an error.
func FuzzJoinAndDecode(f *testing.F) {
	for _, m := range []*demandpb.ClusterCapacityNeeds{
		{ClusterId: "c", Sequence: 1, Needs: []*demandpb.CapacityNeed{Encode(row(1)), Encode(row(2))}, NodeOverheads: []*demandpb.NodeOverhead{EncodeOverhead(overheads[0])}},
		{ClusterId: "c", Sequence: 2, SameAsSequence: 1},
		{ClusterId: "c", Sequence: 3, Part: 1, Parts: 2},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		j := NewJoiner("c")
		for _, data := range [][]byte{first, second} {
			m := &demandpb.ClusterCapacityNeeds{}
			if proto.Unmarshal(data, m) != nil {
				continue
			}
			joined, err := j.Add(m)
			if err != nil || joined == nil {
				continue
			}
			rows, overheads, err := Decode("c", joined)
			if err != nil {
				continue
			}
			parts, err := NewWriter("c").Write(now, rows, overheads)
			if err != nil {
				t.Fatal(err)
			}
			_, again, _ := carry(t, NewJoiner("c"), parts)
			if !slices.EqualFunc(rows, again, needs.EqualRows) {
				t.Fatalf("%v came as %v", rows, again)
			}
		}
	})
}

// Any roll-up comes whole through parts of any size, in random order of nothing: a lost part
// loses all of it.
func TestALostPartLosesTheRollup(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		w := NewWriter("c")
		w.mostBytes = 2000 + r.IntN(20_000)
		parts, err := w.Write(now, rows(r.IntN(80)), nil)
		if err != nil {
			t.Fatal(err)
		}
		lost := r.IntN(len(parts))
		j := NewJoiner("c")
		for i, part := range parts {
			if i == lost {
				continue
			}
			if joined, _ := j.Add(part); joined != nil {
				t.Fatalf("without part %d of %d it is complete", lost+1, len(parts))
			}
		}
	}
}

func BenchmarkIngest(b *testing.B) {
	parts, err := NewWriter("c").Write(now, rows(20), nil)
	if err != nil {
		b.Fatal(err)
	}
	data, err := proto.Marshal(parts[0])
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m := &demandpb.ClusterCapacityNeeds{}
		if err := proto.Unmarshal(data, m); err != nil {
			b.Fatal(err)
		}
		joined, err := NewJoiner("c").Add(m)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := Decode("c", joined); err != nil {
			b.Fatal(err)
		}
	}
}
