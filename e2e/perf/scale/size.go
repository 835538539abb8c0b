package scale

import "fmt"

// shards are the names of the shards, in the order of every pool.
var shards = []string{"a", "b", "c"}

// tenant is whose pools they are.
const tenant = "default"

// Size is how large a cluster is.
type Size struct {
	Pools       int // each has its own group, on every shard
	Nodes       int // shared out over the pools
	PodsPerNode int
}

// Pool is a pool as the shards have it before there is an operator.
type Pool struct {
	Name  string // of the group too
	Sizes []int  // by shard
}

// Total is how many instances the pool has.
func (p Pool) Total() int {
	total := 0
	for _, n := range p.Sizes {
		total += n
	}
	return total
}

// Layout returns the pools of a cluster. What cannot be shared out equally goes to the
// first ones, of pools as of shards.
func (s Size) Layout() []Pool {
	var pools []Pool
	for i, n := range share(s.Nodes, s.Pools) {
		pools = append(pools, Pool{Name: fmt.Sprintf("pool-%03d", i), Sizes: share(n, len(shards))})
	}
	return pools
}

// share splits a number into so many parts that differ by one at most, larger ones first.
func share(total, parts int) []int {
	out := make([]int, parts)
	for i := range out {
		out[i] = total / parts
		if i < total%parts {
			out[i]++
		}
	}
	return out
}
