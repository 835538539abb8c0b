package demandbench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"nstance.dev/e2e/perf/bench"
	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim"
)

// G19: what is decided is the same, byte by byte, with 1, 4 and 16 workers, and on arm64.
//
// Ours: how many of so many seeds of the simulator have one trace with any number of workers. The other
// architecture is emulated, and repeats the golden traces of the engine and its stories: correctness alone.
// Goal: all.
func measureTraces(ctx context.Context, env bench.Env) ([]bench.Row, error) {
	const seeds = 5
	equal := 0
	for seed := range uint64(seeds) {
		plan := demandsim.Generate(seed+1, "safety")
		want := demandsim.Run(plan, sim.Options{}).History
		alike := true
		for _, workers := range []string{"4", "16"} {
			plan.Settings["workers"] = workers
			alike = alike && slices.Equal(demandsim.Run(plan, sim.Options{}).History, want)
		}
		if alike {
			equal++
		}
	}
	rows := []bench.Row{whole("seeds decided alike with 1, 4 and 16 workers", equal, seeds)}
	if _, err := exec.LookPath("qemu-aarch64-static"); err != nil {
		return rows, errors.New("arm64: qemu-aarch64-static is not installed (package qemu-user-static)")
	}
	cmd := exec.CommandContext(ctx, "make", "-s", "demand-arm64")
	cmd.Dir = env.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		rows = append(rows, bench.Row{Err: fmt.Errorf("make demand-arm64: %w: %s", err, lines[len(lines)-1])})
		return rows, nil
	}
	return append(rows, whole("golden traces on emulated arm64", 1, 1)), nil
}

// whole is the row of what is right of so many.
func whole(name string, right, all int) bench.Row {
	return bench.Row{Name: name, Unit: "1", Ours: float64(right), Floor: float64(all), Against: "all", Goal: bench.AtLeast(1)}
}
