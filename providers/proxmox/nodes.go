package proxmox

import (
	"cmp"
	"math"
	"slices"
)

// node is a hypervisor as the cluster's resources show it.
type node struct {
	name   string
	memory int64   // bytes that are free
	cores  float64 // that are free

	// uncommitted are the bytes that are left if every guest takes all that it may; less
	// than zero where that is more than the node has.
	uncommitted int64
}

// need is what one machine takes of a node.
type need struct {
	memory int64 // bytes
	cores  float64
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
func choose(nodes []node, taken map[string]need, n need) (string, bool) {
	var fit []node
	for _, c := range nodes {
		c.memory -= taken[c.name].memory
		c.cores = max(0, c.cores-taken[c.name].cores)
		if c.memory >= n.memory && c.memory > 0 {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		return "", false
	}
	slices.SortFunc(fit, func(a, b node) int { return cmp.Compare(a.name, b.name) })
	rows := make([][]float64, len(fit))
	for i, c := range fit {
		rows[i] = []float64{float64(c.memory), c.cores}
	}
	best, scores := 0, topsis(rows, []float64{memoryWeight, coresWeight})
	for i, score := range scores {
		if score > scores[best]+tie {
			best = i
		}
	}
	return fit[best].name, true
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
