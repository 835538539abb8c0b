// Package usage reads what a process of this box has taken: memory and processor time.
package usage

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has taken up to now.
type Usage struct {
	Resident, Peak int64 // bytes
	Processor      time.Duration
}

// tick is the unit of /proc/PID/stat; see proc_pid_stat(5). Linux has had no other for
// programs on any processor that we build for.
const tick = time.Second / 100

// Of reads what a process has taken from /proc. One that has ended is an error.
func Of(pid int) (Usage, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	return parse(string(status), string(stat))
}

// parse reads the two files of proc_pid_status(5) and proc_pid_stat(5).
func parse(status, stat string) (Usage, error) {
	var u Usage
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("status of a process: %w", err)
		}
		switch fields[0] {
		case "VmRSS:":
			u.Resident = kib << 10
		case "VmHWM:":
			u.Peak = kib << 10
		}
	}
	// The name of the program, in parentheses, may hold anything; after it come fields 3, 4 …
	_, rest, found := strings.Cut(stat[max(0, strings.LastIndex(stat, ")")):], ")")
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3
	if !found || len(fields) <= system || u.Resident == 0 {
		return Usage{}, errors.New("a process without memory or times: it has ended")
	}
	for _, i := range []int{user, system} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("times of a process: %w", err)
		}
		u.Processor += time.Duration(ticks) * tick
	}
	return u, nil
}

// MiB is how large a number of bytes is in MiB.
func MiB(bytes int64) float64 { return float64(bytes) / (1 << 20) }
