package placement

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

const gib = 1 << 30

func TestChoose(t *testing.T) {
	small := Need{Memory: 2 * gib, Cores: 1}
	for name, c := range map[string]struct {
		nodes []Node
		taken map[string]Need
		need  Need
		want  string // empty: none
	}{
		"no node":                            {},
		"the only one":                       {nodes: []Node{{Name: "a", Memory: 4 * gib, Cores: 0}}, need: small, want: "a"},
		"the only one is too small":          {nodes: []Node{{Name: "a", Memory: gib, Cores: 8}}, need: small},
		"the one with more of both":          {nodes: []Node{{Name: "a", Memory: 4 * gib, Cores: 2}, {Name: "b", Memory: 8 * gib, Cores: 4}}, need: small, want: "b"},
		"memory counts more than processors": {nodes: []Node{{Name: "a", Memory: 4 * gib, Cores: 8}, {Name: "b", Memory: 8 * gib, Cores: 4}}, need: small, want: "b"},
		"equal ones: the first by name":      {nodes: []Node{{Name: "b", Memory: 4 * gib, Cores: 2}, {Name: "a", Memory: 4 * gib, Cores: 2}}, need: small, want: "a"},
		"what others will use is used": {
			nodes: []Node{{Name: "a", Memory: 8 * gib, Cores: 8}, {Name: "b", Memory: 6 * gib, Cores: 6}},
			taken: map[string]Need{"a": {Memory: 4 * gib, Cores: 4}}, need: small, want: "b",
		},
		"no room beside what others will use": {
			nodes: []Node{{Name: "a", Memory: 8 * gib, Cores: 8}}, taken: map[string]Need{"a": {Memory: 7 * gib}}, need: small,
		},
		"processors may be promised more than once": {
			nodes: []Node{{Name: "a", Memory: 8 * gib, Cores: 1}}, taken: map[string]Need{"a": {Cores: 16}}, need: small, want: "a",
		},
		"a machine whose memory is not known fits where any is left": {nodes: []Node{{Name: "a", Memory: 0, Cores: 8}, {Name: "b", Memory: gib, Cores: 1}}, want: "b"},
	} {
		got, ok := choose(c.nodes, c.taken, c.need)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %t; want %q", name, got, ok, c.want)
		}
	}
}

func TestTOPSIS(t *testing.T) {
	for name, c := range map[string]struct {
		rows [][]float64
		want []float64
	}{
		"nothing":                  {nil, []float64{}},
		"one":                      {[][]float64{{1, 2}}, []float64{0}},
		"all equal":                {[][]float64{{1, 2}, {1, 2}}, []float64{0, 0}},
		"all zero":                 {[][]float64{{0, 0}, {0, 0}}, []float64{0, 0}},
		"one is better throughout": {[][]float64{{1, 1}, {2, 2}}, []float64{0, 1}},
		"each is best in one":      {[][]float64{{1, 0}, {0, 1}}, []float64{0.6, 0.4}},
		"a column of no account":   {[][]float64{{3, 5}, {1, 5}, {2, 5}}, []float64{1, 0, 0.5}},
	} {
		got := topsis(c.rows, []float64{memoryWeight, coresWeight})
		for i, want := range c.want {
			if len(got) != len(c.want) || math.Abs(got[i]-want) > 1e-9 {
				t.Errorf("%s: %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

func drawNodes(t *rapid.T) []Node {
	nodes := make([]Node, rapid.IntRange(0, 6).Draw(t, "nodes"))
	for i := range nodes {
		nodes[i] = Node{
			Name:   fmt.Sprintf("pve%d", i),
			Memory: rapid.Int64Range(0, 64).Draw(t, "memory") * gib,
			Cores:  float64(rapid.IntRange(0, 32).Draw(t, "cores")),
		}
	}
	return nodes
}

func TestChooseProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		taken := map[string]Need{}
		for _, c := range nodes {
			taken[c.Name] = Need{Memory: rapid.Int64Range(0, 64).Draw(t, "taken") * gib, Cores: rapid.Float64Range(0, 32).Draw(t, "taken cores")}
		}
		n := Need{Memory: rapid.Int64Range(0, 64).Draw(t, "need") * gib}
		got, ok := choose(nodes, taken, n)

		left := map[string]Node{}
		for _, c := range nodes {
			c.Memory -= taken[c.Name].Memory
			c.Cores = max(0, c.Cores-taken[c.Name].Cores)
			if c.Memory >= n.Memory && c.Memory > 0 {
				left[c.Name] = c
			}
		}
		if ok != (len(left) > 0) {
			t.Fatalf("%d nodes have the memory, and the answer is %q, %t", len(left), got, ok)
		}
		if !ok {
			return
		}
		chosen, fits := left[got]
		if !fits {
			t.Fatalf("%s lacks the memory", got)
		}
		for _, c := range left {
			if c.Memory > chosen.Memory && c.Cores > chosen.Cores {
				t.Fatalf("%s has less of both than %s", got, c.Name)
			}
		}
		shuffled := rapid.Permutation(nodes).Draw(t, "order")
		if again, _ := choose(shuffled, taken, n); again != got {
			t.Fatalf("in another order %q is chosen instead of %q", again, got)
		}
	})
}

func TestTOPSISProperties(t *testing.T) {
	weights := []float64{memoryWeight, coresWeight}
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		rows := make([][]float64, len(nodes))
		scaled := make([][]float64, len(nodes))
		for i, c := range nodes {
			rows[i] = []float64{float64(c.Memory), c.Cores}
			scaled[i] = []float64{float64(c.Memory) / 1024, c.Cores * 3}
		}
		scores, again := topsis(rows, weights), topsis(scaled, weights)
		for i, score := range scores {
			if score < 0 || score > 1 || math.IsNaN(score) {
				t.Fatalf("score %v of %v", score, rows[i])
			}
			if math.Abs(score-again[i]) > 1e-9 {
				t.Fatalf("in other units %v scores %v instead of %v", rows[i], again[i], score)
			}
		}
	})
}
