package metrics

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// growthFacts are what was heard of pools and Nodes. It is kept here and not read from a cache, which may
// be ahead of what is heard: it would show a pool's larger size and the Nodes that it got at once.
type growthFacts struct {
	mu     sync.Mutex
	pools  map[string]poolExtent
	ready  map[string]shardGroup // Nodes that are ready, by name
	counts map[shardGroup]int    // how many they are
	begun  bool                  // all that was there has been heard of
	memory growths
}

// poolExtent is how large a pool is to be, and where its Nodes are.
type poolExtent struct {
	desired int
	group   string
	shards  []string
}

// begin says that all has been heard of that was there.
func (f *growthFacts) begin() bool {
	f.begun = true
	return true
}

// pool takes in a pool; true: it is another one for growths. One whose size is not known yet is none.
func (f *growthFacts) pool(p *infrav1.NstanceMachinePool, gone bool) bool {
	was, known := f.pools[p.Name]
	if gone || p.Status.DesiredReplicas == nil {
		delete(f.pools, p.Name)
		return known
	}
	is := poolExtent{int(*p.Status.DesiredReplicas), p.Spec.Group, p.Spec.Shards}
	f.pools[p.Name] = is
	return !known || was.desired != is.desired || was.group != is.group || !slices.Equal(was.shards, is.shards)
}

// node takes in a Node; true: it is ready and was not, or the reverse.
func (f *growthFacts) node(n *corev1.Node, gone bool) bool {
	was, known := f.ready[n.Name]
	is, ready := readyIn(n)
	ready = ready && !gone
	if known == ready && (!ready || was == is) {
		return false
	}
	if known {
		delete(f.ready, n.Name)
		if f.counts[was]--; f.counts[was] == 0 {
			delete(f.counts, was)
		}
	}
	if ready {
		f.ready[n.Name] = is
		f.counts[is]++
	}
	return true
}

// extents are how large the pools are.
func (f *growthFacts) extents() map[string]extent {
	all := map[string]extent{}
	for name, p := range f.pools {
		e := extent{desired: p.desired}
		for _, s := range p.shards {
			e.ready += f.counts[shardGroup{p.group, s}]
		}
		all[name] = e
	}
	return all
}
