package placement

import (
	"cmp"
	"math"
	"slices"
)

// Node is a hypervisor as the cluster's resources show it.
type Node struct {
	Name   string
	Memory int64   // bytes that are free
	Cores  float64 // that are free

	// Uncommitted are the bytes that are left if every guest takes all that it may; less
	// than zero where that is more than the node has.
	Uncommitted int64
}

// Need is what one machine takes of a node.
type Need struct {
	Memory int64 // bytes
	Cores  float64
}

// weights of the criteria. Memory cannot be shared, processors can.
const (
	memoryWeight = 0.6
	coresWeight  = 0.4
)

// choose returns the node for one machine out of those that it can be made on, and
// false if none has the memory. taken is what machines will use that do not show in
// the nodes' figures yet. Of equal ones the first by name is taken, so that equal
// arguments give equal answers.
func choose(nodes []Node, taken map[string]Need, n Need) (string, bool) {
	var fit []Node
	for _, c := range nodes {
		c.Memory -= taken[c.Name].Memory
		c.Cores = max(0, c.Cores-taken[c.Name].Cores)
		if c.Memory >= n.Memory && c.Memory > 0 {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		return "", false
	}
	slices.SortFunc(fit, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	rows := make([][]float64, len(fit))
	for i, c := range fit {
		rows[i] = []float64{float64(c.Memory), c.Cores}
	}
	best, scores := 0, topsis(rows, []float64{memoryWeight, coresWeight})
	for i, score := range scores {
		if score > scores[best]+tie {
			best = i
		}
	}
	return fit[best].Name, true
}

// tie is how much better a score must be to count as better; what is below is the
// rounding of the arithmetic.
const tie = 1e-12

// topsis gives each row a score from 0 to 1, more being better in every column: the
// Technique for Order of Preference by Similarity to Ideal Solution (Hwang and Yoon,
// 1981). Columns are scaled by their Euclidean norm and weighted; the score is how
// near a row is to the best value of each column, compared with the worst. Rows that
// are all equal have score 0.
func topsis(rows [][]float64, weights []float64) []float64 {
	scores := make([]float64, len(rows))
	if len(rows) == 0 {
		return scores
	}
	toBest, toWorst := make([]float64, len(rows)), make([]float64, len(rows))
	for col, weight := range weights {
		values := make([]float64, len(rows))
		norm := 0.0
		for i, row := range rows {
			values[i] = row[col]
			norm = math.Hypot(norm, row[col])
		}
		if norm == 0 {
			continue
		}
		best, worst := slices.Max(values), slices.Min(values)
		for i, v := range values {
			toBest[i] = math.Hypot(toBest[i], weight*(best-v)/norm)
			toWorst[i] = math.Hypot(toWorst[i], weight*(v-worst)/norm)
		}
	}
	for i := range scores {
		if sum := toBest[i] + toWorst[i]; sum > 0 {
			scores[i] = toWorst[i] / sum
		}
	}
	return scores
}
