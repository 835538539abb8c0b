package proxmox

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

const gib = 1 << 30

func TestChoose(t *testing.T) {
	small := need{memory: 2 * gib, cores: 1}
	for name, c := range map[string]struct {
		nodes []node
		taken map[string]need
		need  need
		want  string // empty: none
	}{
		"no node":                            {},
		"the only one":                       {nodes: []node{{name: "a", memory: 4 * gib, cores: 0}}, need: small, want: "a"},
		"the only one is too small":          {nodes: []node{{name: "a", memory: gib, cores: 8}}, need: small},
		"the one with more of both":          {nodes: []node{{name: "a", memory: 4 * gib, cores: 2}, {name: "b", memory: 8 * gib, cores: 4}}, need: small, want: "b"},
		"memory counts more than processors": {nodes: []node{{name: "a", memory: 4 * gib, cores: 8}, {name: "b", memory: 8 * gib, cores: 4}}, need: small, want: "b"},
		"equal ones: the first by name":      {nodes: []node{{name: "b", memory: 4 * gib, cores: 2}, {name: "a", memory: 4 * gib, cores: 2}}, need: small, want: "a"},
		"what others will use is used": {
			nodes: []node{{name: "a", memory: 8 * gib, cores: 8}, {name: "b", memory: 6 * gib, cores: 6}},
			taken: map[string]need{"a": {memory: 4 * gib, cores: 4}}, need: small, want: "b",
		},
		"no room beside what others will use": {
			nodes: []node{{name: "a", memory: 8 * gib, cores: 8}}, taken: map[string]need{"a": {memory: 7 * gib}}, need: small,
		},
		"processors may be promised more than once": {
			nodes: []node{{name: "a", memory: 8 * gib, cores: 1}}, taken: map[string]need{"a": {cores: 16}}, need: small, want: "a",
		},
		"a machine whose memory is not known fits where any is left": {nodes: []node{{name: "a", memory: 0, cores: 8}, {name: "b", memory: gib, cores: 1}}, want: "b"},
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

func drawNodes(t *rapid.T) []node {
	nodes := make([]node, rapid.IntRange(0, 6).Draw(t, "nodes"))
	for i := range nodes {
		nodes[i] = node{
			name:   fmt.Sprintf("pve%d", i),
			memory: rapid.Int64Range(0, 64).Draw(t, "memory") * gib,
			cores:  float64(rapid.IntRange(0, 32).Draw(t, "cores")),
		}
	}
	return nodes
}

func TestChooseProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		taken := map[string]need{}
		for _, c := range nodes {
			taken[c.name] = need{memory: rapid.Int64Range(0, 64).Draw(t, "taken") * gib, cores: rapid.Float64Range(0, 32).Draw(t, "taken cores")}
		}
		n := need{memory: rapid.Int64Range(0, 64).Draw(t, "need") * gib}
		got, ok := choose(nodes, taken, n)

		left := map[string]node{}
		for _, c := range nodes {
			c.memory -= taken[c.name].memory
			c.cores = max(0, c.cores-taken[c.name].cores)
			if c.memory >= n.memory && c.memory > 0 {
				left[c.name] = c
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
			if c.memory > chosen.memory && c.cores > chosen.cores {
				t.Fatalf("%s has less of both than %s", got, c.name)
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
			rows[i] = []float64{float64(c.memory), c.cores}
			scaled[i] = []float64{float64(c.memory) / 1024, c.cores * 3}
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
