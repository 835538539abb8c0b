package metrics

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// growthInterval is how often the sizes of pools are looked at, and so how exact the times
// are.
const growthInterval = 2 * time.Second

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
// ready. Its fields are required; Objects needs readers that answer from caches.
type Growth struct {
	Objects Objects
	Ready   func(took time.Duration)
}

// Start looks at the pools until ctx ends, and returns nil. A manager runs it on the leader.
func (g Growth) Start(ctx context.Context) error {
	var memory growths
	timer := time.NewTicker(growthInterval)
	defer timer.Stop()
	for {
		if pools, ok := g.extents(ctx); ok {
			var took []time.Duration
			memory, took = memory.step(pools, g.Objects.Now())
			for _, t := range took {
				g.Ready(t)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// extents returns how large the pools are; false: it cannot be read.
func (g Growth) extents(ctx context.Context) (map[string]extent, bool) {
	var pools infrav1.NstanceMachinePoolList
	if g.Objects.Reader.List(ctx, &pools, client.InNamespace(g.Objects.Namespace), client.UnsafeDisableDeepCopy) != nil {
		return nil, false
	}
	ready, ok := g.Objects.readyNodes(ctx)
	if !ok {
		return nil, false
	}
	all := map[string]extent{}
	for i := range pools.Items {
		p := &pools.Items[i]
		if p.Status.DesiredReplicas == nil {
			continue
		}
		e := extent{desired: int(*p.Status.DesiredReplicas)}
		for _, s := range p.Spec.Shards {
			e.ready += ready[shardGroup{p.Spec.Group, s}]
		}
		all[p.Name] = e
	}
	return all, true
}
