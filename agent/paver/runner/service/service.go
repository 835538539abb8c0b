// Package service runs node machines where systemd is PID 1 of the host: each is an instance of
// the unit systemd-nspawn@.service, which the host starts at boot without nstance-paver and which
// ends with all its processes.
//
// The unit's drop-in and the machine's .nspawn file are written by others before a boot.
package service

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/runner/leader"
)

// Options are the settings of a Runner; zero fields take the defaults.
type Options struct {
	// Name is what a slot's machine is called; node-a and node-b.
	Name func(journal.Slot) string
}

// Runner is a [runner.Runner] by way of systemctl. Make one with [New].
type Runner struct{ opts Options }

var _ runner.Runner = (*Runner)(nil)

// New returns a Runner. It starts nothing.
func New(opts Options) *Runner {
	if opts.Name == nil {
		opts.Name = journal.Slot.Machine
	}
	return &Runner{opts}
}

// Available says why systemd is not PID 1 of this host; nil where it is.
func Available(ctx context.Context) error {
	out, err := command.Run(exec.CommandContext(ctx, "systemctl", "show", "--property=Version", "--value"))
	if err != nil {
		return fmt.Errorf("systemd is not PID 1 of this host: %w", err)
	}
	if out.Code != 0 {
		return fmt.Errorf("systemd is not PID 1 of this host: %s", strings.TrimSpace(string(out.Text)))
	}
	return nil
}

func (r *Runner) unit(slot journal.Slot) string {
	return "systemd-nspawn@" + r.opts.Name(slot) + ".service"
}

// systemctl runs it; an exit code other than 0 is an error.
func systemctl(ctx context.Context, args ...string) (string, error) {
	out, err := command.Run(exec.CommandContext(ctx, "systemctl", args...))
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("exit code %d: %.512s", out.Code, strings.TrimSpace(string(out.Text)))
	}
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w", args[0], err)
	}
	return string(out.Text), nil
}

// Boot implements [runner.Runner].
func (r *Runner) Boot(ctx context.Context, slot journal.Slot) error {
	state, err := r.State(ctx, slot)
	if err != nil {
		return err
	}
	if state.Phase != journal.Running {
		// What was generated since the last boot is read, and a failure of before is forgotten.
		if _, err := systemctl(ctx, "daemon-reload"); err != nil {
			return fmt.Errorf("boot %s: %w", r.opts.Name(slot), err)
		}
		if _, err := systemctl(ctx, "start", r.unit(slot)); err != nil {
			return fmt.Errorf("boot %s: %w", r.opts.Name(slot), err)
		}
	}
	find := func() (journal.Leader, error) {
		state, err := r.State(ctx, slot)
		switch {
		case err == nil && state.Phase != journal.Running:
			err = runner.ErrNotRunning
		case err == nil && state.Leader.PID == 0:
			err = leader.ErrNone // not yet
		}
		return state.Leader, err
	}
	if err := leader.Answers(ctx, find); err != nil {
		return fmt.Errorf("boot %s: %w; see journalctl -u %s", r.opts.Name(slot), err, r.unit(slot))
	}
	return nil
}

// State implements [runner.Runner].
func (r *Runner) State(ctx context.Context, slot journal.Slot) (runner.State, error) {
	text, err := systemctl(ctx, "show", r.unit(slot), "--property=ActiveState,MainPID")
	if err != nil {
		return runner.State{}, err
	}
	return read(text), nil
}

// read interprets properties of the unit.
func read(text string) runner.State {
	properties := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			properties[key] = value
		}
	}
	switch properties["ActiveState"] {
	case "failed":
		return runner.State{Phase: journal.Failed}
	case "active", "activating", "deactivating", "reloading":
	default:
		return runner.State{}
	}
	state := runner.State{Phase: journal.Running}
	pid, err := strconv.Atoi(properties["MainPID"])
	if err != nil || pid == 0 {
		return state // between two starts
	}
	if l, err := leader.Of(pid); err == nil {
		state.Leader, state.BootID, state.StartedAt = l, leader.BootID(l), leader.StartedAt(l)
	}
	return state
}

// Stop implements [runner.Runner].
func (r *Runner) Stop(ctx context.Context, slot journal.Slot, grace time.Duration) error {
	halt, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if _, err := systemctl(halt, "stop", r.unit(slot)); err == nil {
		return nil
	}
	return r.Kill(ctx, slot)
}

// Kill implements [runner.Runner]. To stop the unit as well keeps it from being started again.
func (r *Runner) Kill(ctx context.Context, slot journal.Slot) error {
	_, killErr := systemctl(ctx, "kill", "--kill-who=all", "--signal=SIGKILL", r.unit(slot)) // fails where nothing runs
	if _, err := systemctl(ctx, "stop", r.unit(slot)); err != nil {
		return fmt.Errorf("kill %s: %w", r.opts.Name(slot), errors.Join(err, killErr))
	}
	return nil
}

// Exec implements [runner.Runner].
func (r *Runner) Exec(ctx context.Context, slot journal.Slot, argv ...string) (command.Output, error) {
	state, err := r.State(ctx, slot)
	if err != nil {
		return command.Output{}, err
	}
	if state.Leader.PID == 0 {
		return command.Output{}, fmt.Errorf("run %s in %s: %w", argv[0], r.opts.Name(slot), runner.ErrNotRunning)
	}
	return leader.Exec(ctx, state.Leader, argv)
}

// Enable implements [runner.Runner].
func (r *Runner) Enable(ctx context.Context, slot journal.Slot) error {
	for _, other := range journal.Slots() {
		if other == slot {
			continue
		}
		if _, err := systemctl(ctx, "disable", r.unit(other)); err != nil {
			return err
		}
	}
	if slot == journal.None {
		return nil
	}
	_, err := systemctl(ctx, "enable", "machines.target", r.unit(slot))
	return err
}
