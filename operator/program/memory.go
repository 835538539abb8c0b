package program

import (
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// garbage is how much of it there may be, in percent of what is in use, before it is
	// collected. The programs hold what there is of thousands of Nodes and Pods and have little
	// to do: memory costs more than the work.
	garbage = 50
	// share is the part of the cgroup's memory that is taken before all garbage is collected first. What is
	// needed for a moment, such as the Pods of a whole cluster, then takes the room of garbage.
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
	bytes, err := limit()
	switch {
	case errors.Is(err, memlimit.ErrNoLimit), errors.Is(err, memlimit.ErrNoCgroup), errors.Is(err, memlimit.ErrCgroupsNotSupported):
		log.Debug("no memory limit", "reason", err)
	case err != nil:
		log.Warn("reading the memory limit of the cgroup failed; garbage is collected as if there were none", "error", err)
	default:
		debug.SetMemoryLimit(int64(share * float64(bytes)))
		log.Info("memory limit set", "bytes", int64(share*float64(bytes)), "share", share, "reason", "limit of the cgroup", "limit", bytes)
	}
}
