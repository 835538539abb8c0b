package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// P6: the time from an UpsertGroup that the shard has received to the create call
// that the provider receives.
//
// Ours: a group of one machine is made, over a store whose calls take 60 ms. The
// group is durable before it counts, and the record of the instance before its
// machine is asked for: two writes that must follow each other. The provider takes
// its call at once.
//
// Floor: two writes to the same store, one after the other.
//
// Goal: the median 1.1 times the floor's, and the 99th of a hundred 1.5 times. All
// samples of all rounds count for both: a minimum would hide the slow ones.
const (
	storeLatency     = 60 * time.Millisecond
	upsertsEachRound = 20
)

func measureUpsert(ctx context.Context, env Env) (rows []Row, err error) {
	created := make(chan time.Time, 1)
	w, err := newWorld(ctx, drivertest.Options{OnCall: func(c drivertest.Call) {
		if c.Op == drivertest.OpCreate {
			created <- c.At
		}
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: storeLatency} })
	var ours, floor []float64
	for i := range env.Rounds * upsertsEachRound {
		took, err := w.twoWrites(ctx)
		if err != nil {
			return nil, err
		}
		floor = append(floor, took)
		if took, err = w.upsertToCreate(ctx, fmt.Sprintf("group-%d", i), created); err != nil {
			return nil, err
		}
		ours = append(ours, took)
	}
	row := Row{Unit: "ms", Against: "two store writes in a row"}
	median, slowest := row, row
	median.Name, median.Ours, median.Floor, median.Goal = "UpsertGroup to create, p50", quantile(ours, 0.50), quantile(floor, 0.50), AtMost(1.1)
	slowest.Name, slowest.Ours, slowest.Floor, slowest.Goal = "UpsertGroup to create, p99", quantile(ours, 0.99), quantile(floor, 0.99), AtMost(1.5)
	return []Row{median, slowest}, nil
}

// twoWrites returns the milliseconds of the floor.
func (w *world) twoWrites(ctx context.Context) (float64, error) {
	const key = "bench/floor"
	started := time.Now()
	etag, err := w.store.PutIfAbsent(ctx, key, []byte("1"))
	if err != nil {
		return 0, err
	}
	etag, err = w.store.PutIfMatch(ctx, key, []byte("2"), etag)
	took := time.Since(started)
	if err != nil {
		return 0, err
	}
	return milliseconds(took), objectstore.Delete(ctx, w.store, key, etag, objectstore.RetryPolicy{})
}

// upsertToCreate returns the milliseconds of ours.
func (w *world) upsertToCreate(ctx context.Context, group string, created <-chan time.Time) (float64, error) {
	received := time.Now()
	if err := w.scale(ctx, group, 1); err != nil {
		return 0, err
	}
	select {
	case at := <-created:
		return milliseconds(at.Sub(received)), nil
	case <-time.After(time.Minute):
		return 0, fmt.Errorf("group %s: no create call", group)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns the value below or at which the share q of all values lies.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
