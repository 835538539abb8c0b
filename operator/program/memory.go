package program

import (
	"log/slog"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// garbage is how much of it there may be, in percent of what is in use, before it is
	// collected. The programs hold what there is of thousands of Nodes and Pods and have little
	// to do: memory costs more than the work.
	garbage = 50
	// share is the part of the container's memory from which on garbage is collected as soon as there is some:
	// what is needed for a moment, as the Pods of a whole cluster are where a Node is given back, takes
	// the room of garbage first, and ends no process that had room enough.
	share = 0.9
)

// BoundMemory has garbage collected early, and earlier the less memory is left of what the process's cgroup may
// have. GOGC and GOMEMLIMIT in the environment are stronger, each for its part.
func BoundMemory(getenv func(string) string, log *slog.Logger) {
	boundMemory(getenv, log, memlimit.FromCgroup)
}

func boundMemory(getenv func(string) string, log *slog.Logger, limit memlimit.Provider) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	from, err := memlimit.Set(memlimit.WithProvider(limit), memlimit.WithRatio(share))
	switch {
	case err != nil:
		log.Warn("reading the memory limit of this process's cgroup failed; garbage is collected as if there were none", "error", err)
	case from != math.MaxInt64:
		log.Info("collecting all garbage before more memory is taken than this", "bytes", from, "reason", "memory limit of the cgroup")
	}
}
