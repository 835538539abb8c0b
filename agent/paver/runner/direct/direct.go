// Package direct runs node machines without a systemd on the host, in containers and in tests: it
// starts systemd-nspawn itself, in a session and cgroups of its own.
//
// Without a service manager nothing ends a machine with the program that started it. A
// systemd-nspawn that is killed leaves its whole payload running, and its lock on the directory is
// gone with it: a second start on the same tree succeeds, and both run. So every machine has a
// cgroup of its own, which says what belongs to it, and before a boot nothing may live in it, nor
// in the PID namespace that the journal remembers. Each machine needs its own cgroup also because
// systemd-nspawn puts its payload below the one that it is started in.
package direct

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/runner/leader"
)

// Options are the settings of a Runner; zero fields take the defaults.
type Options struct {
	// Machines is the directory of the slots' root file systems; /var/lib/machines.
	Machines string
	// Logs is the directory for the consoles of the machines; /run/nstance-paver.
	Logs string
	// Name is what a slot's machine, tree and cgroup are called; node-a and node-b.
	Name func(journal.Slot) string
	// Known is the leader that the journal remembers of a slot; none.
	Known func(journal.Slot) journal.Leader
	// Arguments are added to those of systemd-nspawn, before --boot.
	Arguments []string
}

// Runner is a [runner.Runner] for hosts without systemd. Make one with [New].
type Runner struct{ opts Options }

var _ runner.Runner = (*Runner)(nil)

// New returns a Runner. It starts nothing.
func New(opts Options) *Runner {
	if opts.Machines == "" {
		opts.Machines = "/var/lib/machines"
	}
	if opts.Logs == "" {
		opts.Logs = "/run/nstance-paver"
	}
	if opts.Name == nil {
		opts.Name = journal.Slot.Machine
	}
	if opts.Known == nil {
		opts.Known = func(journal.Slot) journal.Leader { return journal.Leader{} }
	}
	return &Runner{opts}
}

// Boot implements [runner.Runner].
func (r *Runner) Boot(ctx context.Context, slot journal.Slot) error {
	switch state, err := r.State(ctx, slot); {
	case err != nil:
		return err
	case state.Phase == journal.Orphan:
		if err := r.Kill(ctx, slot); err != nil {
			return fmt.Errorf("boot %s: %w", r.opts.Name(slot), err)
		}
		fallthrough
	case state.Phase != journal.Running:
		if err := r.start(slot); err != nil {
			return fmt.Errorf("boot %s: %w", r.opts.Name(slot), err)
		}
	}
	find := func() (journal.Leader, error) {
		state, err := r.State(ctx, slot)
		if err == nil && state.Phase != journal.Running {
			err = runner.ErrNotRunning
		}
		return state.Leader, err
	}
	if err := leader.Answers(ctx, find); err != nil {
		return fmt.Errorf("boot %s: %w; its console says %s", r.opts.Name(slot), err, r.console(slot))
	}
	return nil
}

// start starts systemd-nspawn in the machine's cgroups and goes on without it.
func (r *Runner) start(slot journal.Slot) error {
	name := r.opts.Name(slot)
	groups, err := makeGroups(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.opts.Logs, 0o700); err != nil {
		return fmt.Errorf("make directory of consoles: %w", err)
	}
	console, err := os.OpenFile(r.consoleFile(slot), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open console: %w", err)
	}
	defer console.Close()
	args := append([]string{
		"--quiet", "--register=no", "--keep-unit", "--settings=override",
		"--machine=" + name, "--directory=" + filepath.Join(r.opts.Machines, name),
	}, r.opts.Arguments...)
	cmd := exec.Command("systemd-nspawn", append(args, "--boot")...)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := startIn(cmd, groups); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // so that no zombie remains; State sees how it ended
	return nil
}

// startIn starts a command as a member of the cgroups. In hierarchies of version 1 a child begins
// where the thread was that made it, so this takes a thread for itself, which ends with it.
func startIn(cmd *exec.Cmd, groups []group) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread is in other cgroups than its process
		if unix.Gettid() == os.Getpid() {
			// The first thread never ends. While it is held here another goroutine gets another one.
			result <- startIn(cmd, groups)
			return
		}
		result <- startOnThread(cmd, groups)
	}()
	return <-result
}

func startOnThread(cmd *exec.Cmd, groups []group) error {
	for _, g := range groups {
		if g.unified {
			dir, err := os.Open(g.dir)
			if err != nil {
				return fmt.Errorf("open cgroup: %w", err)
			}
			defer dir.Close()
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		} else if err := os.WriteFile(filepath.Join(g.dir, "tasks"), []byte("0"), 0o600); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start systemd-nspawn: %w", err)
	}
	return nil
}

// State implements [runner.Runner].
func (r *Runner) State(_ context.Context, slot journal.Slot) (runner.State, error) {
	m, err := r.members(slot)
	if err != nil {
		return runner.State{}, err
	}
	switch {
	case len(m.all) == 0:
		return runner.State{}, nil
	case m.supervisor == 0:
		return runner.State{Phase: journal.Orphan}, nil
	}
	l, err := leader.Of(m.supervisor)
	if err != nil {
		return runner.State{Phase: journal.Running}, nil //nolint:nilerr // it is starting or ending
	}
	return runner.State{Phase: journal.Running, BootID: leader.BootID(l), StartedAt: leader.StartedAt(l), Leader: l}, nil
}

// Stop implements [runner.Runner].
func (r *Runner) Stop(ctx context.Context, slot journal.Slot, grace time.Duration) error {
	m, err := r.members(slot)
	if err != nil {
		return err
	}
	if m.supervisor != 0 {
		if err := syscall.Kill(m.supervisor, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s: %w", r.opts.Name(slot), err)
		}
		halt, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		_ = r.waitEmpty(halt, slot) // what is left is killed
	}
	return r.Kill(ctx, slot)
}

// Kill implements [runner.Runner].
func (r *Runner) Kill(ctx context.Context, slot journal.Slot) error {
	if err := r.killAll(ctx, slot); err != nil {
		return fmt.Errorf("kill %s: %w", r.opts.Name(slot), err)
	}
	return removeGroups(r.opts.Name(slot))
}

// killAll sends SIGKILL until nothing is left. Without its first process the kernel ends a whole
// PID namespace, so that what forks all the time does not get away.
func (r *Runner) killAll(ctx context.Context, slot journal.Slot) error {
	for {
		m, err := r.members(slot)
		if err != nil {
			return err
		}
		if len(m.all) == 0 {
			return nil
		}
		for _, pid := range m.all {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d: %w", pid, err)
			}
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%d processes live on: %w", len(m.all), err)
		}
	}
}

func (r *Runner) waitEmpty(ctx context.Context, slot journal.Slot) error {
	for {
		m, err := r.members(slot)
		if err != nil || len(m.all) == 0 {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// Exec implements [runner.Runner].
func (r *Runner) Exec(ctx context.Context, slot journal.Slot, argv ...string) (command.Output, error) {
	state, err := r.State(ctx, slot)
	if err != nil {
		return command.Output{}, err
	}
	if state.Phase != journal.Running || state.Leader.PID == 0 {
		return command.Output{}, fmt.Errorf("run %s in %s: %w", argv[0], r.opts.Name(slot), runner.ErrNotRunning)
	}
	return leader.Exec(ctx, state.Leader, argv)
}

// Enable implements [runner.Runner]: here machines never start by themselves.
func (r *Runner) Enable(context.Context, journal.Slot) error { return nil }

func (r *Runner) consoleFile(slot journal.Slot) string {
	return filepath.Join(r.opts.Logs, r.opts.Name(slot)+".console")
}

// console is the end of what a machine wrote to its console.
func (r *Runner) console(slot journal.Slot) string {
	text, err := os.ReadFile(r.consoleFile(slot))
	if err != nil {
		return "nothing"
	}
	const most = 1024
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
}
