package scale

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/perf/bench"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// place is a group on a shard.
type place struct{ shard, group string }

// heard notes when shards have heard of sizes. It is safe for concurrent use.
type heard struct {
	mu   sync.Mutex
	want map[place]int32
	at   map[place]time.Time
	all  chan struct{} // closed when nothing is wanted any more
}

func newHeard() *heard { return &heard{want: map[place]int32{}, at: map[place]time.Time{}} }

// expect forgets all that was heard, and waits for sizes. The channel is closed when all
// have been heard.
func (h *heard) expect(sizes map[place]int32) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.want, h.at, h.all = sizes, map[place]time.Time{}, make(chan struct{})
	return h.all
}

// call takes in a call of a shard.
func (h *heard) call(shard string, call shardtest.Call) {
	request, ok := call.Request.(*nstancev1.UpsertGroupRequest)
	if !ok {
		return
	}
	h.note(place{shard, request.GetKey()}, request.GetConfig().GetSize(), time.Now())
}

// note takes in that a shard has heard of a size. The first time counts.
func (h *heard) note(p place, size int32, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	want, wanted := h.want[p]
	if !wanted || size != want {
		return
	}
	h.at[p] = at
	delete(h.want, p)
	if len(h.want) == 0 {
		close(h.all)
	}
}

// left is how many sizes have not been heard of.
func (h *heard) left() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.want)
}

// last returns when the last shard heard of a group.
func (h *heard) last(group string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	var last time.Time
	for p, at := range h.at {
		if p.group == group && at.After(last) {
			last = at
		}
	}
	return last
}

// scale makes pools larger by so many, all at once, and returns how long it took until the
// last of the shards that get more knew, one delay for each pool.
func (w *world) scale(pools []Pool, by int) []time.Duration {
	w.t.Helper()
	sizes := map[place]int32{}
	for _, pool := range pools {
		for i, size := range share(pool.Total()+by, len(shards)) {
			if size != pool.Sizes[i] {
				sizes[place{shards[i], pool.Name}] = int32(size) //nolint:gosec // a few
				pool.Sizes[i] = size
			}
		}
	}
	heard := w.heard.expect(sizes)
	if len(pools) > 1 {
		what := fmt.Sprintf("%d pools are scaled at once", len(pools))
		defer w.follow(what, func() string { return fmt.Sprintf("%d groups left", w.heard.left()) })()
	}
	began := make([]time.Time, len(pools))
	g, ctx := errgroup.WithContext(w.t.Context())
	for i, pool := range pools {
		g.Go(func() error {
			began[i] = time.Now()
			return w.resize(ctx, pool)
		})
	}
	if err := g.Wait(); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-heard:
	case <-time.After(patience):
		w.t.Fatalf("shards have not heard of %d of %d groups", w.heard.left(), len(sizes))
	}
	delays := make([]time.Duration, len(pools))
	for i, pool := range pools {
		delays[i] = w.heard.last(pool.Name).Sub(began[i])
	}
	return delays
}

// resize sets the size of a MachinePool as kubectl does.
func (w *world) resize(ctx context.Context, pool Pool) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, pool.Total())
	_, err := w.custom.Resource(machinePools).Namespace(namespace).Patch(ctx, pool.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "scale")
	return err
}

// scaleInTurn makes pools larger, one after another.
func (w *world) scaleInTurn(pools []Pool, by int) []time.Duration {
	w.t.Helper()
	var n atomic.Int64
	defer w.follow("pools are scaled one after another", func() string { return fmt.Sprintf("%d of %d", n.Load(), len(pools)) })()
	var delays []time.Duration
	for i := range pools {
		delays = append(delays, w.scale(pools[i:i+1], by)...)
		n.Add(1)
	}
	return delays
}

// scaleInBursts makes pools larger, some at a time. Between two bursts the operator comes
// to rest.
func (w *world) scaleInBursts(o *operator, pools []Pool, by int) []time.Duration {
	w.t.Helper()
	var delays []time.Duration
	for some := range slices.Chunk(pools, burst) {
		delays = append(delays, w.scale(some, by)...)
		w.rest(o)
	}
	return delays
}

// scaleAll makes all pools larger by one at once, several times, each time after as many bare writes as it
// takes, and returns the row of the median.
func (w *world) scaleAll(o *operator) bench.Row {
	w.t.Helper()
	name := fmt.Sprintf("scale to UpsertGroup, by 1, all %d pools at once, median of %d times", len(w.pools), allTimes)
	var rows []bench.Row
	for range allTimes {
		floor := w.bare(shardGroups, namespace, len(w.pools))
		w.rest(o)
		row := againstBare(delayRow(name, w.scale(w.pools, 1), scaleGoal), floor)
		w.rest(o)
		w.t.Logf("all pools at once: %.2f s, %.2f times the floor", row.Ours, row.Ratio())
		rows = append(rows, row)
	}
	return median(rows)
}
