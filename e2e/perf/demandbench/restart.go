package demandbench

import (
	"context"
	"time"

	"nstance.dev/e2e/perf/bench"
)

// G9: a new leader of 100,000 machines that are all bound, whose operator is there at once: until it has decided
// about the first roll-up.
//
// Ours: from a store in memory. The first row is all of it; the second, the time from when the shard serves: what
// demand mode adds to every take-over, while the file of the cache is being written. Goal: 3 s.
func measureRestart(ctx context.Context, env bench.Env) ([]bench.Row, error) {
	c := calibrate()
	env.Rounds = min(env.Rounds, 3)
	r, err := bench.RestartOfDemandMode(ctx, env, 100_000)
	if err != nil {
		return nil, err
	}
	c = c.or(calibrate())
	return []bench.Row{
		c.cost("restart with 100,000 machines to the first decision", "s", (r.Serving + r.Decided).Seconds(), 3),
		c.cost("the same, from when the shard serves", "s", r.Decided.Seconds(), 3),
	}, nil
}

// G15: bindings that are begun in a second, of 2,000 idle machines, by 64 workers, where each request to storage
// takes 50 ms.
//
// Goal: 500.
func measureBindings(ctx context.Context, env bench.Env) ([]bench.Row, error) {
	env.Rounds = min(env.Rounds, 3)
	rate, err := bench.BindingsOfDemandMode(ctx, env, 2000, 50*time.Millisecond)
	if err != nil {
		return nil, err
	}
	return []bench.Row{{
		Name: "bindings, 50 ms for each request to storage", Unit: "1/s", Ours: rate, Floor: 500, Against: "the goal", Goal: bench.AtLeast(1),
	}}, nil
}
