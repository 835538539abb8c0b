// Package process recognizes the processes of this box, and signals and waits for those alone
// that it has recognized.
//
// An [ID] names one process for ever. Every signal goes through a [Handle], a pidfd whose process
// was recognized after it was opened: a stranger is never hit. It needs Linux 5.10 or newer.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
)

// ID names one process for ever: a pid is used again, and start times are
// counted from zero after a reboot, but the three together never come back.
type ID struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks after the boot
	Boot    string `json:"boot"`
}

// Host is the box as processes see it.
type Host struct {
	Proc procfs.FS
	Boot string
}

// OpenHost returns the box that this process runs on.
func OpenHost() (Host, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return Host{}, fmt.Errorf("open /proc: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Host{}, fmt.Errorf("read the boot id: %w", err)
	}
	return Host{Proc: proc, Boot: string(bytes.TrimSpace(boot))}, nil
}

// Identify names the process that has the pid now. The caller must be its
// parent or hold it otherwise.
func (h Host) Identify(pid int) (ID, error) {
	stat, err := h.Stat(pid)
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, Started: stat.Starttime, Boot: h.Boot}, nil
}

// Stat reads what the kernel knows of a pid; os.ErrProcessDone if that is nothing.
func (h Host) Stat(pid int) (procfs.ProcStat, error) {
	proc, err := h.Proc.Proc(pid)
	if err == nil {
		var stat procfs.ProcStat
		if stat, err = proc.Stat(); err == nil {
			return stat, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		err = os.ErrProcessDone
	}
	return procfs.ProcStat{}, fmt.Errorf("process %d: %w", pid, err)
}

// Alive reports whether p still runs. A zombie does not, and neither does a
// stranger with its pid. An error means that nobody can tell.
func (h Host) Alive(p ID) (bool, error) {
	if p.PID <= 0 || p.Boot != h.Boot {
		return false, nil
	}
	stat, err := h.Stat(p.PID)
	if errors.Is(err, os.ErrProcessDone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return stat.Starttime == p.Started && !ended(stat), nil
}

// ended reports whether a process only waits for its parent to notice its end.
func ended(stat procfs.ProcStat) bool {
	return stat.State == "Z" || stat.State == "X" || stat.State == "x"
}

// Handle is a process that can be signalled and waited for without a doubt
// about who it is.
type Handle struct{ file *os.File }

// Open returns a handle of p, or os.ErrProcessDone if p does not run any more.
func (h Host) Open(p ID) (Handle, error) {
	if p.PID <= 0 || p.Boot != h.Boot {
		return Handle{}, os.ErrProcessDone
	}
	opened, openErr := OpenPID(p.PID)
	// Only now the pid is ours to trust: whoever has p's start time at this
	// moment has had the pid since then, and so had it when it was opened.
	alive, err := h.Alive(p)
	switch {
	case openErr == nil && alive:
		return opened, nil
	case openErr == nil:
		opened.Close()
	case alive && err == nil:
		err = openErr
	}
	if err != nil {
		return Handle{}, fmt.Errorf("open process %d: %w", p.PID, err)
	}
	return Handle{}, os.ErrProcessDone
}

// OpenPID opens whoever has the pid now.
func OpenPID(pid int) (Handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return Handle{}, os.NewSyscallError("pidfd_open", err)
	}
	return Handle{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Close gives the handle back. The process goes on.
func (h Handle) Close() { _ = h.file.Close() }

// Signal reaches the process alone.
func (h Handle) Signal(sig unix.Signal) error { return h.send(sig, 0) }

// SignalGroup reaches the process, which leads a group, and that group. Before
// Linux 6.9 it reaches the process alone; strays are found otherwise.
func (h Handle) SignalGroup(sig unix.Signal) error {
	const processGroup = 1 << 2 // PIDFD_SIGNAL_PROCESS_GROUP
	err := h.send(sig, processGroup)
	if errors.Is(err, unix.EINVAL) {
		return h.send(sig, 0)
	}
	return err
}

func (h Handle) send(sig unix.Signal, flags int) error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, flags) }); err != nil {
		return err
	}
	if errors.Is(sent, unix.ESRCH) {
		return nil // it was faster
	}
	return os.NewSyscallError("pidfd_send_signal", sent)
}

// Wait blocks until the process has ended, and lets it rest if it is our child;
// or until ctx ends, and then returns its error. It occupies no thread.
func (h Handle) Wait(ctx context.Context) error {
	if err := h.Ended(ctx); err != nil {
		return err
	}
	return h.Reap()
}

// Ended is [handle.wait] without the rest: a child of ours stays a zombie.
func (h Handle) Ended(ctx context.Context) error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = h.file.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() { // the next wait starts without a deadline
			<-interrupted
			_ = h.file.SetReadDeadline(time.Time{})
		}
	}()
	err = conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	})
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}

// Reap ends the rest of a child of ours that has ended.
func (h Handle) Reap() error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) {
		_ = unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil) // ECHILD: not our child
	})
}

// KillStrays ends what a machine's first process left behind: the members of
// its session. A session's number may be used again once it is empty, so each
// of them must also have the machine's directory in its environment. It looks
// until it finds none, for they may multiply meanwhile.
func (h Host) KillStrays(ctx context.Context, p ID, dir string) error {
	if p.PID <= 0 || p.Boot != h.Boot {
		return nil
	}
	const passes = 20
	for range passes {
		found, err := h.killMembers(ctx, p.PID, dir)
		if err != nil {
			return fmt.Errorf("end the strays of process %d: %w", p.PID, err)
		}
		if found == 0 {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil // who is left does not say that it is ours
}

// killMembers makes one pass, and returns how many processes of the session are
// worth another look: those it killed, and those it can say nothing of yet.
func (h Host) killMembers(ctx context.Context, session int, dir string) (found int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if sid, err := unix.Getsid(pid); err != nil || sid != session {
			continue
		}
		again, err := h.killMember(ctx, pid, session, dir)
		if err != nil {
			return found, err
		}
		if again {
			found++
		}
	}
	return found, nil
}

// killMember ends one process if it is a member of a machine's session. In the
// middle of an exec a process has no environment to know it by.
func (h Host) killMember(ctx context.Context, pid, session int, dir string) (again bool, err error) {
	opened, err := OpenPID(pid)
	if err != nil {
		return false, nil // it has gone by itself
	}
	defer opened.Close()
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false, nil // gone, or another user's
	}
	if !hasVariable(env, identity.EnvMachineDir+"="+dir) {
		stat, err := h.Stat(pid)
		return len(env) == 0 && err == nil && !ended(stat), nil
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != session {
		return false, nil
	}
	if err := opened.Signal(unix.SIGKILL); err != nil {
		return false, err
	}
	return true, opened.Wait(ctx)
}

func hasVariable(environ []byte, variable string) bool {
	for _, v := range bytes.Split(environ, []byte{0}) {
		if string(v) == variable {
			return true
		}
	}
	return false
}
