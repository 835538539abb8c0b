package demandbench

import (
	"context"
	"fmt"
	"runtime"

	"nstance.dev/e2e/perf/bench"
)

// G7: what an engine keeps of 100,000 machines and 10,000 rows, at rest.
//
// Ours: the heap in use with the engine and with what it was told, less the heap in use without. The
// roll-ups that the bench keeps to change them are let out: they are made again. Goal: 96 MB.
func measureMemory(context.Context, bench.Env) ([]bench.Row, error) {
	before := heapInUse()
	r, err := heavy.start(2)
	if err != nil {
		return nil, err
	}
	engine := r.engine
	r = nil //nolint:wastedassign // so that the roll-ups are no longer held here
	kept := heapInUse() - before
	runtime.KeepAlive(engine)
	return []bench.Row{amount("memory at 100,000 machines and 10,000 needs", "MB", kept/1e6, 96)}, nil
}

func heapInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse)
}

// G8: allocations of a cycle that computes everything again, and of one in which nothing has changed.
//
// Goal: 1,000, and none.
func measureAllocations(context.Context, bench.Env) ([]bench.Row, error) {
	r, err := full.start(2)
	if err != nil {
		return nil, err
	}
	quiet := r.allocations(20, func() { r.step(nil) })
	again := r.allocations(20, func() { r.cycle(full.clusters) })
	row := amount("allocations of a full recompute", "1", again, 1000)
	if quiet > 0 {
		row.Broken = fmt.Sprintf("%.1f in a quiet cycle", quiet)
	}
	return []bench.Row{row}, nil
}

// allocations is how many a call makes, on average.
func (r *running) allocations(times int, call func()) float64 {
	call()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		call()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(times)
}
