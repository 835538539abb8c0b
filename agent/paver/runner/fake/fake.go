// Package fake is a runner in memory, with faults that a test asks for.
package fake

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner"
)

// Runner is a [runner.Runner] in memory. The zero Runner has no machine and no faults. It may be
// used concurrently; its exported fields are set before.
type Runner struct {
	// Fault is asked before each call; an error is the call's. Op is the method's name.
	Fault func(op string, slot journal.Slot) error
	// Command answers Exec; by default the kubelet is started, stopped and looked at.
	Command func(slot journal.Slot, argv []string) command.Output

	mu       sync.Mutex
	machines map[journal.Slot]*machine
	enabled  journal.Slot
	boots    int
	calls    []string
}

type machine struct {
	state   runner.State
	kubelet bool
	starts  int // of the kubelet
}

var _ runner.Runner = (*Runner)(nil)

func (r *Runner) called(op string, slot journal.Slot) error {
	r.calls = append(r.calls, op+" "+string(slot))
	if r.machines == nil {
		r.machines = map[journal.Slot]*machine{}
	}
	if r.Fault != nil {
		return r.Fault(op, slot)
	}
	return nil
}

func (r *Runner) start(slot journal.Slot) {
	r.boots++
	r.machines[slot] = &machine{kubelet: true, state: runner.State{
		Phase: journal.Running, BootID: fmt.Sprintf("boot-%d", r.boots), StartedAt: time.Now(),
		Leader: journal.Leader{PID: 1000 + r.boots, StartTime: uint64(r.boots), HostBootID: "host"},
	}}
}

// Boot implements [runner.Runner].
func (r *Runner) Boot(ctx context.Context, slot journal.Slot) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.called("Boot", slot); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if m := r.machines[slot]; m == nil || m.state.Phase != journal.Running {
		r.start(slot)
	}
	return nil
}

// Stop implements [runner.Runner].
func (r *Runner) Stop(_ context.Context, slot journal.Slot, _ time.Duration) error {
	return r.end("Stop", slot)
}

// Kill implements [runner.Runner].
func (r *Runner) Kill(_ context.Context, slot journal.Slot) error { return r.end("Kill", slot) }

func (r *Runner) end(op string, slot journal.Slot) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.called(op, slot); err != nil {
		return err
	}
	delete(r.machines, slot)
	return nil
}

// State implements [runner.Runner].
func (r *Runner) State(_ context.Context, slot journal.Slot) (runner.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Fault != nil {
		if err := r.Fault("State", slot); err != nil {
			return runner.State{}, err
		}
	}
	if m := r.machines[slot]; m != nil {
		return m.state, nil
	}
	return runner.State{}, nil
}

// Exec implements [runner.Runner].
func (r *Runner) Exec(ctx context.Context, slot journal.Slot, argv ...string) (command.Output, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.called("Exec "+strings.Join(argv, " "), slot); err != nil {
		return command.Output{}, err
	}
	m := r.machines[slot]
	if m == nil || m.state.Phase != journal.Running {
		return command.Output{}, runner.ErrNotRunning
	}
	if err := ctx.Err(); err != nil {
		return command.Output{}, err
	}
	if r.Command != nil {
		return r.Command(slot, argv), nil
	}
	return m.systemctl(argv), nil
}

// systemctl is what a machine answers about its kubelet.
func (m *machine) systemctl(argv []string) command.Output {
	if len(argv) < 3 || argv[0] != "systemctl" || !strings.HasPrefix(argv[len(argv)-1], "kubelet") {
		return command.Output{}
	}
	switch argv[1] {
	case "show":
		active := "inactive"
		if m.kubelet {
			active = "active"
		}
		return command.Output{Text: fmt.Appendf(nil, "LoadState=loaded\nActiveState=%s\nResult=success\nType=simple\nInvocationID=%s-%d\n", active, m.state.BootID, m.starts)}
	case "start", "restart":
		m.kubelet = true
		m.starts++
	case "stop", "kill":
		m.kubelet = false
	case "is-active":
		if !m.kubelet {
			return command.Output{Code: 3, Text: []byte("inactive\n")}
		}
		return command.Output{Text: []byte("active\n")}
	}
	return command.Output{}
}

// Enable implements [runner.Runner].
func (r *Runner) Enable(_ context.Context, slot journal.Slot) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.called("Enable", slot); err != nil {
		return err
	}
	r.enabled = slot
	return nil
}

// Reboot is a reboot of the host: every machine ends, and the enabled one starts.
func (r *Runner) Reboot() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machines = map[journal.Slot]*machine{}
	if r.enabled != journal.None {
		r.start(r.enabled)
	}
}

// Orphan kills the systemd-nspawn of a machine and leaves its payload.
func (r *Runner) Orphan(slot journal.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.machines[slot]; m != nil {
		m.state.Phase = journal.Orphan
	}
}

// End lets a machine end by itself.
func (r *Runner) End(slot journal.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.machines, slot)
}

// Started starts a machine that nobody asked for.
func (r *Runner) Started(slot journal.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machines == nil {
		r.machines = map[journal.Slot]*machine{}
	}
	r.start(slot)
}

// Runs returns the slots in which something runs, with whether the kubelet does.
func (r *Runner) Runs() map[journal.Slot]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[journal.Slot]bool{}
	for slot, m := range r.machines {
		all[slot] = m.kubelet
	}
	return all
}

// Enabled is the slot that starts with the host.
func (r *Runner) Enabled() journal.Slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.enabled
}

// Calls are those so far, such as `Boot a`.
func (r *Runner) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}
