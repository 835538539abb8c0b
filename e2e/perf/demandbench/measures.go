package demandbench

import "nstance.dev/e2e/perf/bench"

// Measures are all measures, in order.
func Measures() []bench.Measure {
	return []bench.Measure{
		bench.NewMeasure("G1", "a full recompute", recompute("full recompute of 100,000 machines, 2,600 needs, p99", full, full.clusters, 15)),
		bench.NewMeasure("G2", "a quiet cycle", recompute("quiet cycle, same size, p99", full, 0, 1)),
		bench.NewMeasure("G3", "one cluster changed", recompute("one cluster of 20 changed, same size, p99", full, 1, 3)),
		bench.NewMeasure("G4", "many rows that share racks", recompute("42,680 needs, 93 % of one rack each, p99", many, many.clusters, 100)),
		bench.NewMeasure("G5", "everything bought at once", measureReprovision),
		bench.NewMeasure("G6", "half a million machines", recompute("full recompute of 500,000 machines, p99", fivefold, fivefold.clusters, 60)),
		bench.NewMeasure("G7", "memory of the engine", measureMemory),
		bench.NewMeasure("G8", "allocations of a cycle", measureAllocations),
		bench.NewMeasure("G9", "a restart", measureRestart),
		bench.NewMeasure("G10", "what is asked for added up", measureAddingUp),
		bench.NewMeasure("G11", "size of a roll-up", measureSize),
		bench.NewMeasure("G12", "from a request to its roll-up", measureRollupDelay),
		bench.NewMeasure("G15", "machines bound", measureBindings),
		bench.NewMeasure("G16", "a day at a steady load", measureSoak),
		bench.NewMeasure("G17", "over-buy while machines boot", measureOverBuy),
		bench.NewMeasure("G18", "cost against the optimum", measureCost),
		bench.NewMeasure("G19", "equal decisions", measureTraces),
		bench.NewMeasure("G20", "roll-ups taken in", measureIngest),
	}
}
