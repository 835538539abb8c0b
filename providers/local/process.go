package local

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

// process names one process for ever: a pid is used again, and start times are
// counted anew after a reboot, but the three together never come back.
type process struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks after the boot
	Boot    string `json:"boot"`
}

// host is the box as processes see it.
type host struct {
	proc procfs.FS
	boot string
}

func openHost() (host, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return host{}, fmt.Errorf("open /proc: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return host{}, fmt.Errorf("read the boot id: %w", err)
	}
	return host{proc: proc, boot: string(bytes.TrimSpace(boot))}, nil
}

// identify names the process that has the pid now. The caller must be its
// parent or hold it otherwise.
func (h host) identify(pid int) (process, error) {
	stat, err := h.stat(pid)
	if err != nil {
		return process{}, err
	}
	return process{PID: pid, Started: stat.Starttime, Boot: h.boot}, nil
}

// stat reads what the kernel knows of a pid; os.ErrProcessDone if that is nothing.
func (h host) stat(pid int) (procfs.ProcStat, error) {
	proc, err := h.proc.Proc(pid)
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

// alive reports whether p still runs. A zombie does not, and neither does a
// stranger with its pid. An error means that nobody can tell.
func (h host) alive(p process) (bool, error) {
	if p.PID <= 0 || p.Boot != h.boot {
		return false, nil
	}
	stat, err := h.stat(p.PID)
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

// handle is a process that can be signalled and waited for without a doubt
// about who it is.
type handle struct{ file *os.File }

// open returns a handle of p, or os.ErrProcessDone if p does not run any more.
func (h host) open(p process) (handle, error) {
	if p.PID <= 0 || p.Boot != h.boot {
		return handle{}, os.ErrProcessDone
	}
	opened, openErr := openPID(p.PID)
	// Only now the pid is ours to trust: whoever has p's start time at this
	// moment has had the pid since then, and so had it when it was opened.
	alive, err := h.alive(p)
	switch {
	case openErr == nil && alive:
		return opened, nil
	case openErr == nil:
		opened.close()
	case alive && err == nil:
		err = openErr
	}
	if err != nil {
		return handle{}, fmt.Errorf("open process %d: %w", p.PID, err)
	}
	return handle{}, os.ErrProcessDone
}

// openPID opens whoever has the pid now.
func openPID(pid int) (handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return handle{}, os.NewSyscallError("pidfd_open", err)
	}
	return handle{os.NewFile(uintptr(fd), "pidfd")}, nil
}

func (h handle) close() { _ = h.file.Close() }

// signal reaches the process alone.
func (h handle) signal(sig unix.Signal) error { return h.send(sig, 0) }

// signalGroup reaches the process, which leads a group, and that group. Before
// Linux 6.9 it reaches the process alone; strays are found otherwise.
func (h handle) signalGroup(sig unix.Signal) error {
	const processGroup = 1 << 2 // PIDFD_SIGNAL_PROCESS_GROUP
	err := h.send(sig, processGroup)
	if errors.Is(err, unix.EINVAL) {
		return h.send(sig, 0)
	}
	return err
}

func (h handle) send(sig unix.Signal, flags int) error {
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

// wait blocks until the process has ended, and lets it rest if it is our child;
// or until ctx ends, and then returns its error. It occupies no thread.
func (h handle) wait(ctx context.Context) error {
	if err := h.ended(ctx); err != nil {
		return err
	}
	return h.reap()
}

// ended is [handle.wait] without the rest: a child of ours stays a zombie.
func (h handle) ended(ctx context.Context) error {
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

// reap ends the rest of a child of ours that has ended.
func (h handle) reap() error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) {
		_ = unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil) // ECHILD: not ours to bury
	})
}

// killStrays ends what a machine's first process left behind: the members of
// its session. A session's number may be used again once it is empty, so each
// of them must also have the machine's directory in its environment. It looks
// until it finds none, for they may multiply meanwhile.
func (h host) killStrays(ctx context.Context, p process, dir string) error {
	if p.PID <= 0 || p.Boot != h.boot {
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
func (h host) killMembers(ctx context.Context, session int, dir string) (found int, err error) {
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
func (h host) killMember(ctx context.Context, pid, session int, dir string) (again bool, err error) {
	opened, err := openPID(pid)
	if err != nil {
		return false, nil // it has gone by itself
	}
	defer opened.close()
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false, nil // gone, or another user's
	}
	if !hasVariable(env, identity.EnvMachineDir+"="+dir) {
		stat, err := h.stat(pid)
		return len(env) == 0 && err == nil && !ended(stat), nil
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != session {
		return false, nil
	}
	if err := opened.signal(unix.SIGKILL); err != nil {
		return false, err
	}
	return true, opened.wait(ctx)
}

func hasVariable(environ []byte, variable string) bool {
	for _, v := range bytes.Split(environ, []byte{0}) {
		if string(v) == variable {
			return true
		}
	}
	return false
}
