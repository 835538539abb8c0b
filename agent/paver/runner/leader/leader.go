// Package leader looks from the host at the first process of a node machine: which one it is, what
// its boot ID is, and how a command runs beside it. Both real runners use it.
//
// Commands run through nsenter. `systemd-run --machine` needs systemd-machined on the host and
// D-Bus in the machine, which answers half a minute after the boot, and neither exists everywhere.
package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner"
)

// bootIDFile is the file that systemd-nspawn mounts over the kernel's, with an ID for each boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// ErrNone is matched by the error about a process that is not the first one of a machine.
var ErrNone = errors.New("no machine's first process")

// Of returns the leader among the children of a systemd-nspawn process.
func Of(supervisor int) (journal.Leader, error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", supervisor, supervisor))
	if err != nil {
		return journal.Leader{}, fmt.Errorf("%w: read the children of %d: %w", ErrNone, supervisor, err)
	}
	for field := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(field); err == nil && First(pid) {
			return Describe(pid)
		}
	}
	return journal.Leader{}, fmt.Errorf("%w: %d has no child that is one", ErrNone, supervisor)
}

// First reports whether a process is number 1 of a PID namespace below this one.
func First(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(numbers)
			return len(fields) > 1 && fields[len(fields)-1] == "1"
		}
	}
	return false
}

// Describe returns what tells a process from every other one.
func Describe(pid int) (journal.Leader, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return journal.Leader{}, fmt.Errorf("%w: %w", ErrNone, err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return journal.Leader{}, fmt.Errorf("%w: %w", ErrNone, err)
	}
	boot, err := HostBootID()
	if err != nil {
		return journal.Leader{}, err
	}
	return journal.Leader{PID: pid, StartTime: stat.Starttime, PIDNamespace: PIDNamespace(pid), HostBootID: boot}, nil
}

// HostBootID is that of the host's kernel.
func HostBootID() (string, error) {
	text, err := os.ReadFile(bootIDFile)
	if err != nil {
		return "", fmt.Errorf("read the host's boot ID: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Alive reports whether the process of a leader still exists: that number, started then.
func Alive(l journal.Leader) bool {
	if l.PID == 0 {
		return false
	}
	now, err := Describe(l.PID)
	return err == nil && now.StartTime == l.StartTime && now.HostBootID == l.HostBootID
}

// PIDNamespace is the inode of a process's PID namespace; 0 if it is gone.
func PIDNamespace(pid int) uint64 {
	info, err := os.Stat(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return stat.Ino
}

// BootID returns the boot ID that the machine sees; empty while it has none of its own.
func BootID(l journal.Leader) string {
	text, err := os.ReadFile(filepath.Join(fmt.Sprintf("/proc/%d/root", l.PID), bootIDFile))
	if err != nil {
		return ""
	}
	id := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	if host := strings.ReplaceAll(l.HostBootID, "-", ""); id == host {
		return "" // the mount over it is not made yet
	}
	return strings.TrimSpace(string(text))
}

// StartedAt is when a process was started.
func StartedAt(l journal.Leader) time.Time {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return time.Time{}
	}
	stat, err := fs.Stat()
	if err != nil {
		return time.Time{}
	}
	const ticks = 100 // USER_HZ, which is the same on every architecture that Go has
	return time.Unix(int64(stat.BootTime), 0).Add(time.Duration(l.StartTime) * time.Second / ticks)
}

// Exec runs a command in the namespaces of a leader, with the environment of a fresh login.
func Exec(ctx context.Context, l journal.Leader, argv []string) (command.Output, error) {
	cmd, err := Command(ctx, l, argv)
	if err != nil {
		return command.Output{}, err
	}
	return command.Run(cmd)
}

// Command is one that runs in the namespaces of a leader, with the environment of a fresh login.
func Command(ctx context.Context, l journal.Leader, argv []string) (*exec.Cmd, error) {
	if !Alive(l) {
		return nil, runner.ErrNotRunning
	}
	args := append([]string{"--target", strconv.Itoa(l.PID), "--all", "--"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TERM=dumb"}
	return cmd, nil
}

// Answers waits until the machine's systemd answers: it has begun to start units, or is through.
// Where find says that the machine does not run the wait is over: nothing else will start it.
func Answers(ctx context.Context, find func() (journal.Leader, error)) error {
	const pause = 100 * time.Millisecond
	last := "no process of it was seen"
	for {
		l, err := find()
		if errors.Is(err, runner.ErrNotRunning) {
			return fmt.Errorf("wait for the machine's systemd: %w; at last %.200s", err, last)
		}
		if err == nil {
			out, err := Exec(ctx, l, []string{"systemctl", "is-system-running"})
			switch text := strings.TrimSpace(string(out.Text)); {
			case err != nil:
				last = err.Error()
			case text == "running" || text == "degraded" || text == "starting" && BootID(l) != "":
				return nil
			default:
				last = "systemd says " + text
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the machine's systemd: %w; at last %.200s", ctx.Err(), last)
		case <-time.After(pause):
		}
	}
}
