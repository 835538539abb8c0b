package program

import (
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// What the container may have bounds what the process takes, and the environment is stronger.
func TestMemoryIsBoundByTheContainer(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) })
	for name, tt := range map[string]struct {
		container memlimit.Provider
		env       map[string]string
		limit     int64
		percent   int
	}{
		"512 MiB":           {container: memlimit.Limit(512 << 20), limit: 512 << 20 * 9 / 10, percent: garbage},
		"no limit":          {container: func() (uint64, error) { return 0, memlimit.ErrNoLimit }, limit: math.MaxInt64, percent: garbage},
		"no cgroup":         {container: func() (uint64, error) { return 0, memlimit.ErrNoCgroup }, limit: math.MaxInt64, percent: garbage},
		"unknown":           {container: func() (uint64, error) { return 0, errors.New("no such file") }, limit: math.MaxInt64, percent: garbage},
		"GOMEMLIMIT is set": {container: memlimit.Limit(512 << 20), env: map[string]string{"GOMEMLIMIT": "1GiB"}, limit: math.MaxInt64, percent: garbage},
		"GOGC is set":       {container: memlimit.Limit(512 << 20), env: map[string]string{"GOGC": "off"}, limit: 512 << 20 * 9 / 10, percent: 100},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		debug.SetGCPercent(100)
		boundMemory(func(name string) string { return tt.env[name] }, slog.New(slog.DiscardHandler), tt.container)
		if got := debug.SetMemoryLimit(-1); got < tt.limit-1 || got > tt.limit {
			t.Errorf("%s: the limit is %d, want %d", name, got, tt.limit)
		}
		if got := debug.SetGCPercent(100); got != tt.percent {
			t.Errorf("%s: garbage is collected at %d %%, want %d %%", name, got, tt.percent)
		}
	}
}
