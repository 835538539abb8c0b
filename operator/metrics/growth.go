package metrics

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/informers"
)

// extent is how large a pool is to be, and how many of its Nodes are ready.
type extent struct{ desired, ready int }

// larger is a size that a pool got, and when.
type larger struct {
	size int
	at   time.Time
}

// growths remember by pool how large it was to be last, and which sizes it has not reached.
type growths map[string]struct {
	desired int
	open    []larger
}

// step takes in how large pools are now, and returns the memory for the next step and how
// long the growths took that have come to their end. A nil memory is that of a process that
// begins: what had begun before is not timed. A size that was taken back is forgotten.
func (g growths) step(pools map[string]extent, now time.Time) (growths, []time.Duration) {
	next := growths{}
	var took []time.Duration
	for name, p := range pools {
		was, known := g[name]
		if !known && g == nil {
			was.desired = p.desired
		}
		open := was.open
		if p.desired > was.desired && p.ready < p.desired {
			open = append(open[:len(open):len(open)], larger{p.desired, now})
		}
		was.open = nil
		for _, l := range open {
			switch {
			case l.size > p.desired:
			case p.ready >= l.size:
				took = append(took, now.Sub(l.at))
			default:
				was.open = append(was.open, l)
			}
		}
		was.desired = p.desired
		next[name] = was
	}
	return next, took
}

// Growth times how long pools take to grow: from the larger size to as many Nodes that are
// ready. It hears of each change, and so times a growth however short it is. Its fields are
// required.
type Growth struct {
	Pools     informers.Source // of the operator's own kinds
	Nodes     informers.Source
	Namespace string
	Now       func() time.Time
	Ready     func(took time.Duration)
}

// Start follows pools and Nodes until ctx ends, and then returns nil. A manager runs it on the
// leader.
func (g Growth) Start(ctx context.Context) error {
	facts := &growthFacts{pools: map[string]poolExtent{}, ready: map[string]shardGroup{}, counts: map[shardGroup]int{}}
	poolsSynced, err := informers.Hear(ctx, g.Pools, &infrav1.NstanceMachinePool{}, func(p *infrav1.NstanceMachinePool, gone bool) {
		if p.Namespace == g.Namespace {
			g.heard(facts, func() bool { return facts.pool(p, gone) })
		}
	})
	if err != nil {
		return fmt.Errorf("growth of pools: %w", err)
	}
	nodesSynced, err := informers.Hear(ctx, g.Nodes, &corev1.Node{}, func(n *corev1.Node, gone bool) {
		g.heard(facts, func() bool { return facts.node(n, gone) })
	})
	if err != nil {
		return fmt.Errorf("growth of pools: %w", err)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), poolsSynced, nodesSynced) {
		g.heard(facts, facts.begin)
	}
	<-ctx.Done()
	return nil
}

// heard takes in a change, and notes the growths that end with it.
func (g Growth) heard(facts *growthFacts, change func() bool) {
	facts.mu.Lock()
	defer facts.mu.Unlock()
	if !change() || !facts.begun {
		return
	}
	var took []time.Duration
	facts.memory, took = facts.memory.step(facts.extents(), g.Now())
	for _, t := range took {
		g.Ready(t)
	}
}
