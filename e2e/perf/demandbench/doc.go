// Package demandbench measures how fast and how well the engine of demand mode decides, as rows of the
// bench: G1 to G20 of the goals of demand mode, as far as they need no API server. G10 and G12 are the operator's.
//
// The goals are numbers and no ratios, and count on one core of the reference: a cloud machine of two
// cores on which [core] takes as long as a constant says. A core that is at least as fast is held to
// the numbers as they stand. On a slower one what was measured is divided by how much slower it is, and
// the raw number stands beside it. Two workers compute, whatever the machine has. Where a bound is one
// on the 99th of 100 cycles, the least of some rounds counts, as everywhere in the bench: noise only adds.
//
// What the engine decides about is made by [shard]: a mix of machines and rows as large clusters have
// them. How it decides is tested beside it, in server/demand, and in e2e/sim/demandsim.
package demandbench
