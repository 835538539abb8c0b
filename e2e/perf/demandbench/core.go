package demandbench

import (
	"fmt"
	"math/bits"
	"time"

	"nstance.dev/e2e/perf/bench"
)

// referenceCore is how long the loop takes on one core of the reference.
const referenceCore = 20 * time.Millisecond

// core is the core that something was measured on.
type core struct {
	model  string
	slower float64 // than one of the reference; 1 or less: it is as fast
}

// calibrate runs the loop a few times and takes the least time. Call it in the same run as what is
// measured, before and after it, and take the faster one: see [core.or].
func calibrate() core {
	least := time.Hour
	for range 5 {
		least = min(least, loop())
	}
	return core{model: bench.Processor(), slower: float64(least) / float64(referenceCore)}
}

// or is the faster of two.
func (c core) or(o core) core {
	if o.slower < c.slower {
		return o
	}
	return c
}

// loop does what deciding consists of, in a fixed amount that no change of the engine alters: records
// of 128 bytes are read in order, compared by products of 128 bits, divided, and written.
func loop() time.Duration {
	const records, passes = 1 << 15, 120
	all := make([][16]uint64, records)
	for i := range all {
		for d := range all[i] {
			all[i][d] = uint64(i*d + 1)
		}
	}
	began := time.Now()
	var sum uint64
	for pass := range uint64(passes) {
		for i := range all {
			r := &all[i]
			h1, l1 := bits.Mul64(r[0]+pass, r[1])
			h2, l2 := bits.Mul64(r[1], r[2]+pass)
			if h1 < h2 || h1 == h2 && l1 < l2 {
				r[3] += sum / (r[0] + 1)
			}
			for d := range 3 {
				r[d] = max(r[d]+pass, 1)
				sum += r[d]
			}
		}
	}
	took := time.Since(began)
	if sum == 0 {
		panic("the loop was not run")
	}
	return took
}

// against is what a number of this core is held to.
func (c core) against() string {
	return fmt.Sprintf("the goal; %s, a core at %.2f", c.model, 1/c.slower)
}

// cost is the row of a cost that grows with the slowness of a core, against its goal.
func (c core) cost(name, unit string, raw, goal float64) bench.Row {
	r := bench.Row{Name: name, Unit: unit, Ours: raw, Floor: goal, Against: c.against(), Goal: bench.AtMost(1)}
	if c.slower > 1 {
		r.Name = fmt.Sprintf("%s (raw %.3g %s)", name, raw, unit)
		r.Ours = raw / c.slower
	}
	return r
}

// rate is the row of a rate, likewise.
func (c core) rate(name, unit string, raw, goal float64) bench.Row {
	r := bench.Row{Name: name, Unit: unit, Ours: raw, Floor: goal, Against: c.against(), Goal: bench.AtLeast(1)}
	if c.slower > 1 {
		r.Name = fmt.Sprintf("%s (raw %.3g %s)", name, raw, unit)
		r.Ours = raw * c.slower
	}
	return r
}

// amount is the row of what no processor changes: bytes, counts, factors.
func amount(name, unit string, ours, goal float64) bench.Row {
	return bench.Row{Name: name, Unit: unit, Ours: ours, Floor: goal, Against: "the goal", Goal: bench.AtMost(1)}
}
