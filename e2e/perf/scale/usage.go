package scale

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has taken up to now.
type usage struct {
	resident, peak int64 // bytes
	processor      time.Duration
}

// tick is the unit of /proc/PID/stat; see proc_pid_stat(5). Linux has had no other for
// programs on any processor that we build for.
const tick = time.Second / 100

// usageOf reads what a process has taken from /proc.
func usageOf(pid int) (usage, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	return parseUsage(string(status), string(stat))
}

// parseUsage reads the two files of proc_pid_status(5) and proc_pid_stat(5).
func parseUsage(status, stat string) (usage, error) {
	var u usage
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("status of a process: %w", err)
		}
		switch fields[0] {
		case "VmRSS:":
			u.resident = kib << 10
		case "VmHWM:":
			u.peak = kib << 10
		}
	}
	// The name of the program, in parentheses, may hold anything; after it come fields 3, 4 …
	_, rest, found := strings.Cut(stat[max(0, strings.LastIndex(stat, ")")):], ")")
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3
	if !found || len(fields) <= system || u.resident == 0 {
		return usage{}, errors.New("a process without memory or times: it has ended")
	}
	for _, i := range []int{user, system} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("times of a process: %w", err)
		}
		u.processor += time.Duration(ticks) * tick
	}
	return u, nil
}

// mib is how large a number of bytes is in MiB.
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
