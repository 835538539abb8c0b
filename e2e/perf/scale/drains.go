package scale

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// drainTime is what groups give a drain. It is longer than the run.
const drainTime = 30 * time.Minute

// watchNodes notes when Nodes become unschedulable.
func (w *world) watchNodes() *sightings {
	w.t.Helper()
	return w.watch(nodes, "", func(node *unstructured.Unstructured) bool {
		is, _, _ := unstructured.NestedBool(node.Object, "spec", "unschedulable")
		return is
	})
}

// victim is an instance whose shard is to give it up.
type victim struct{ shard, instance string }

// victims returns the running instances, all of which have Nodes: one of each pool on one
// shard, then another one of each on the next.
func (w *world) victims() []victim {
	var all []victim
	for i := range shards {
		for j, pool := range w.pools {
			shard := shards[(i+j)%len(shards)]
			for _, in := range w.shards.Shard(shard).Instances(tenant, pool.Name) {
				if in.GetStatus() == "running" {
					all = append(all, victim{shard, in.GetInstanceId()})
					break
				}
			}
		}
	}
	return all
}

// drain has shards give instances up, all at once, and returns how long it took until
// their Nodes took no more Pods.
func (w *world) drain(c *sightings, victims []victim) []time.Duration {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if len(victims) > 1 {
		what := fmt.Sprintf("%d Nodes are cordoned at once", len(victims))
		defer w.follow(what, func() string { return fmt.Sprintf("%d so far", c.count()) })()
	}
	began := make([]time.Time, len(victims))
	for i, v := range victims {
		began[i] = time.Now()
		w.shards.Shard(v.shard).Condemn(v.instance, "spot-termination", drainTime)
	}
	delays := make([]time.Duration, len(victims))
	for i, v := range victims {
		at, err := c.await(ctx, v.instance)
		if err != nil {
			w.t.Fatalf("Node %s was not cordoned: %v", v.instance, err)
		}
		delays[i] = at.Sub(began[i])
	}
	return delays
}

// drainInTurn gives up so many instances, one after another.
func (w *world) drainInTurn(c *sightings, victims []victim) []time.Duration {
	w.t.Helper()
	var n atomic.Int64
	defer w.follow("Nodes are cordoned one after another", func() string { return fmt.Sprintf("%d of %d", n.Load(), len(victims)) })()
	var delays []time.Duration
	for _, v := range victims {
		delays = append(delays, w.drain(c, []victim{v})...)
		n.Add(1)
	}
	return delays
}
