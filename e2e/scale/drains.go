package scale

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// drainTime is what groups give a drain. It is longer than the run.
const drainTime = 30 * time.Minute

// cordons notes when Nodes became unschedulable. It is safe for concurrent use.
type cordons struct {
	mu   sync.Mutex
	at   map[string]time.Time
	news chan struct{} // holds one token while there are any
}

// watchNodes notes cordons for as long as the test lasts.
func (w *world) watchNodes() *cordons {
	w.t.Helper()
	nodes, err := w.core.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	from := metav1.ListOptions{ResourceVersion: nodes.ResourceVersion}
	stream, err := w.core.CoreV1().Nodes().Watch(w.t.Context(), from)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &cordons{at: map[string]time.Time{}, news: make(chan struct{}, 1)}
	var reader sync.WaitGroup
	reader.Go(func() {
		for event := range stream.ResultChan() {
			c.take(event)
		}
	})
	w.t.Cleanup(func() {
		stream.Stop()
		reader.Wait()
	})
	return c
}

func (c *cordons) take(event watch.Event) {
	node, ok := event.Object.(*corev1.Node)
	if !ok || !node.Spec.Unschedulable {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.at[node.Name]; known {
		return
	}
	c.at[node.Name] = time.Now()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// count is how many Nodes have been cordoned.
func (c *cordons) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.at)
}

// await returns when a Node became unschedulable.
func (c *cordons) await(ctx context.Context, node string) (time.Time, error) {
	for {
		c.mu.Lock()
		at, known := c.at[node]
		c.mu.Unlock()
		if known {
			return at, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-c.news:
		}
	}
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
func (w *world) drain(c *cordons, victims []victim) []time.Duration {
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
func (w *world) drainInTurn(c *cordons, victims []victim) []time.Duration {
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
