// Package executor does to a host what operations take: it restarts units, stops the node machine, takes the
// host down, collects logs, and has everything removed.
//
// It decides nothing; what comes next package operation decides. All that it does may be repeated. Units are
// asked for by their names as arguments of systemctl, in the machine or on the host, and no shell reads one.
package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/runner"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Machines are the node machines of a host. [host.Host] has them.
type Machines interface {
	// StopMachine stops a machine in order, within a time.
	StopMachine(ctx context.Context, s journal.Slot, limit time.Duration) error
	// SetKeys sets the SSH keys of users of the host for a machine.
	SetKeys(ctx context.Context, s journal.Slot, users []*nstancev1.MachineSshUser) (operation.Keys, error)
	// Reset removes all that was ever built.
	Reset(ctx context.Context, j journal.Journal, wipe bool) error
}

// Options are what an Executor works with. Machines, Runner and Log are required.
type Options struct {
	Machines Machines
	Runner   runner.Runner
	Mode     preflight.Mode                // of Runner
	Name     func(journal.Slot) string     // of machines; nil: [journal.Slot.Machine]
	Policy   func() (policy.Policy, error) // read at every use; nil: that of [policy.Path]
	Power    Power
	// Journalctl reads journals; nil: that of the host, or of a machine.
	Journalctl Journalctl
	Log        *slog.Logger
}

// Executor is that of this host. It has one user at a time. Make one with [New].
type Executor struct{ opts Options }

// New returns an Executor. It changes nothing.
func New(opts Options) *Executor {
	if opts.Name == nil {
		opts.Name = journal.Slot.Machine
	}
	if opts.Policy == nil {
		opts.Policy = func() (policy.Policy, error) { return policy.Load(policy.Path) }
	}
	opts.Power = opts.Power.withDefaults()
	e := &Executor{opts}
	if opts.Journalctl == nil {
		e.opts.Journalctl = e.journalctl
	}
	return e
}

// Offers are the names of the operations that this host can carry out. Which of them its policy allows
// shows when one is asked for, so that who asks is told why not.
func (e *Executor) Offers() []string {
	return slices.DeleteFunc(operation.Names(), func(name string) bool {
		return e.Unsupported(operation.Record{Name: name}) != ""
	})
}

// Unsupported says why this host cannot carry an operation out; empty: it can. Without systemd as its first
// process nobody takes the host down in order.
func (e *Executor) Unsupported(r operation.Record) string {
	if e.opts.Mode != preflight.Direct {
		return ""
	}
	switch {
	case r.Name == operation.Reboot, r.Name == operation.Shutdown, r.Name == operation.RestartService && r.OnHost():
		return "systemd is not the first process of this host"
	}
	return ""
}

// Refusal says why the policy of the host does not allow an operation (M86); empty: it does.
func (e *Executor) Refusal(name string) string {
	p, err := e.opts.Policy()
	switch {
	case err != nil:
		return err.Error()
	case !slices.Contains(p.Allow.Operations, name):
		return fmt.Sprintf("allow.operations of the machine policy does not have %s", name)
	}
	return ""
}

// HostBootID is the boot of this host; empty: it cannot be read.
func (e *Executor) HostBootID() string { return e.opts.Power.BootID() }

// systemctl runs it in a machine, or on the host; an exit code other than 0 is an error.
func (e *Executor) systemctl(ctx context.Context, s journal.Slot, args ...string) (string, error) {
	where := "the host"
	var out command.Output
	var err error
	if s == journal.None {
		out, err = e.opts.Power.Systemctl(ctx, args...)
	} else {
		where = e.opts.Name(s)
		out, err = e.opts.Runner.Exec(ctx, s, append([]string{"systemctl"}, args...)...)
	}
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("exit code %d: %.256s", out.Code, strings.TrimSpace(string(out.Text)))
	}
	if err != nil {
		return "", fmt.Errorf("systemctl %s in %s: %w", args[0], where, err)
	}
	return string(out.Text), nil
}

// Unit is what the systemd of a machine says of a unit, or that of the host if s is None.
func (e *Executor) Unit(ctx context.Context, s journal.Slot, unit string) (operation.Unit, error) {
	text, err := e.systemctl(ctx, s, "show", "--property=LoadState,ActiveState,Result,Type,InvocationID", "--", unit)
	if err != nil {
		return operation.Unit{}, err
	}
	properties := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			properties[key] = value
		}
	}
	load := properties["LoadState"]
	return operation.Unit{
		Exists: load != "" && load != "not-found", Active: properties["ActiveState"], Result: properties["Result"],
		Oneshot: properties["Type"] == "oneshot", Invocation: properties["InvocationID"],
	}, nil
}

// RestartUnit has systemd restart a unit, and does not wait for that.
func (e *Executor) RestartUnit(ctx context.Context, s journal.Slot, unit string) error {
	_, err := e.systemctl(ctx, s, "restart", "--no-block", "--", unit)
	return err
}

// StopMachine stops a machine in order.
func (e *Executor) StopMachine(ctx context.Context, s journal.Slot) error {
	return e.opts.Machines.StopMachine(ctx, s, assignment.Timeouts{}.WithDefaults().Stop)
}

// SetKeys sets the SSH keys of users of the host for a machine.
func (e *Executor) SetKeys(ctx context.Context, s journal.Slot, users []*nstancev1.MachineSshUser) (operation.Keys, error) {
	return e.opts.Machines.SetKeys(ctx, s, users)
}

// Reset removes all that was ever built.
func (e *Executor) Reset(ctx context.Context, j journal.Journal, wipe bool) error {
	return e.opts.Machines.Reset(ctx, j, wipe)
}

// GoDown stops a machine within a grace, and has systemd reboot the host or power it off. Machine and
// Pods are stopped here, as a host that goes down would wait for each Pod that does not end.
func (e *Executor) GoDown(ctx context.Context, s journal.Slot, grace time.Duration, off bool) error {
	var stopErr error
	if s != journal.None && grace > 0 {
		stopErr = e.opts.Machines.StopMachine(ctx, s, grace)
	}
	verb := "reboot"
	if off {
		verb = "poweroff"
	}
	if _, err := e.systemctl(ctx, journal.None, verb); err != nil {
		return errors.Join(err, stopErr)
	}
	if stopErr != nil {
		e.opts.Log.WarnContext(ctx, "machine goes with its host", "machine", e.opts.Name(s), "error", stopErr)
	}
	return nil
}
