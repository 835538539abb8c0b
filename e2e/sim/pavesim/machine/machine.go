// Package machine is a host with the real nstance-paver on it: its loop, its journal and all that it
// writes are on a real disk, its node machines are those of the fake runner, and its images are made up.
//
// A process of the paver stands still before each look and each step until the simulator lets it go
// on with a [Verdict], so that nothing happens but one thing after another, and it can be killed before
// a step, at any call to the machines in it, or after it and before the journal is written.
package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"nstance.dev/agent/paver"
	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/pavertest"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/report"
	"nstance.dev/agent/paver/runner/fake"
	"nstance.dev/agent/paver/settings"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Options are the surroundings of a host; all are required.
type Options struct {
	Name string
	Dir  string // empty, and of the host alone
	// Wake is told, without waiting, that a process stands still.
	Wake chan<- struct{}
	// Fetch says what becomes of the download of a content.
	Fetch func(hash string) error
	// Reachable says whether the API server can be reached.
	Reachable func() error
}

// Host is a host. New makes one.
type Host struct {
	opts   Options
	runner *fake.Runner
	boots  int // of the host itself

	mu      sync.Mutex
	process *process
	parked  *Parked
	fuse    int    // calls to the machines until the process is killed in one; 0: it is not
	dying   bool   // the process was killed, and ends
	down    string // the operation for which the host is about to reboot; empty: it is not
	logs    bytes.Buffer

	restarts map[journal.Slot]int // of the kubelet
}

// process is one process of the paver.
type process struct {
	paver *paver.Paver
	ctx   context.Context //nolint:containedctx // the process's
	kill  context.CancelFunc
	ended chan struct{}
}

// Parked is a look or a step that waits.
type Parked struct {
	// Step is what is to be done; nil for a look.
	Step *transition.Step
	// Down: the host is to reboot for an operation.
	Down bool
	// Journal is what was written last.
	Journal journal.Journal
	going   chan Verdict
}

// Verdict is what becomes of a look or a step.
type Verdict struct {
	Before bool // the process is killed before it
	Within int  // it is killed at the call to the machines of this number; 0: in none
	After  bool // it is killed after it, before the journal is written
}

var errKilled = errors.New("killed")

// New returns a host on which nothing runs.
func New(o Options) (*Host, error) {
	h := &Host{opts: o, runner: &fake.Runner{}, boots: 1, restarts: map[journal.Slot]int{}}
	h.runner.Fault = h.fault
	for path, content := range map[string]string{
		"etc/resolv.conf": "nameserver 192.0.2.1\n", "proc/sys/kernel/panic": "0\n", "proc/sys/vm/overcommit_memory": "0\n",
	} {
		path = filepath.Join(o.Dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			return nil, fmt.Errorf("make host %s: %w", o.Name, err)
		}
	}
	return h, nil
}

// fault is asked before each call to the machines. A process that is dead does nothing more.
func (h *Host) fault(op string, slot journal.Slot) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.HasPrefix(op, "Exec systemctl restart") && !h.dying {
		h.restarts[slot]++
	}
	if h.fuse > 0 {
		if h.fuse--; h.fuse == 0 {
			h.dying = true
			h.process.kill()
		}
	}
	if h.dying {
		return errKilled
	}
	return nil
}

func (h *Host) state() string { return filepath.Join(h.opts.Dir, "var/lib/nstance-paver") }

func (h *Host) run() string { return filepath.Join(h.opts.Dir, "run") }

func (h *Host) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(writer{h}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// writer takes logs in.
type writer struct{ h *Host }

func (w writer) Write(line []byte) (int, error) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	return w.h.logs.Write(line)
}

var _ io.Writer = writer{}

// Start starts a process of the paver.
func (h *Host) Start() error {
	log := h.log()
	local, err := policy.Parse([]byte("allow: {pave: true}\nimages: {requireDigest: false}\n"))
	if err != nil {
		return err
	}
	steps := &steps{h: h, Host: host.New(host.Options{
		Dir: h.state(), Machines: h.machines(), Runner: h.runner, Images: images{filepath.Join(h.opts.Dir, "images"), h.opts.Fetch}, Log: log,
		Policy: func() (policy.Policy, error) { return local, nil },
		Settings: settings.Host{
			Root: h.opts.Dir, Load: func(context.Context, string) error { return nil }, Reload: func(context.Context) error { return nil },
		},
		Facts:     facts.Options{Root: h.opts.Dir, UserExists: func(string) bool { return false }},
		Network:   network,
		Probe:     func(context.Context, preflight.Targets) (preflight.Facts, error) { return pavertest.Facts(), nil },
		Reachable: func(context.Context, *nstancev1.MachineAssignment) error { return h.opts.Reachable() },
		Disk:      host.Disk{Free: func(string) (uint64, uint64, error) { return 100 << 30, 200 << 30, nil }, Shares: func(string, string) bool { return true }},
	})}
	p, err := paver.New(paver.Options{
		Host: steps, Executor: executor{steps}, Dir: h.state(), RunDir: h.run(), Version: "sim", Log: log, Jitter: func() float64 { return 0 },
	})
	if err != nil {
		return fmt.Errorf("start the paver of %s: %w", h.opts.Name, err)
	}
	ctx, kill := context.WithCancel(context.Background())
	process := &process{paver: p, ctx: ctx, kill: kill, ended: make(chan struct{})}
	h.mu.Lock()
	h.process, h.fuse, h.dying, h.parked = process, 0, false, nil
	h.mu.Unlock()
	go func() {
		defer close(process.ended)
		_ = p.Run(ctx) // it ends with ctx
	}()
	return nil
}

// network is what a host has of it: one interface.
func network(_ context.Context, argv ...string) ([]byte, error) {
	if argv[0] == "nft" {
		return nil, exec.ErrNotFound
	}
	return []byte(`[{"ifname":"lo"}]`), nil
}

// Up reports whether a process of the paver is there that was not killed.
func (h *Host) Up() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.process != nil && h.process.ctx.Err() == nil
}

// Killed reports whether the process was killed and [Host.Kill] was not called since.
func (h *Host) Killed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.process != nil && h.process.ctx.Err() != nil
}

// Kill kills the process, and waits until nothing of it runs.
func (h *Host) Kill() {
	h.mu.Lock()
	p := h.process
	h.dying = true
	h.mu.Unlock()
	if p == nil {
		return
	}
	p.kill()
	<-p.ended
	h.mu.Lock()
	defer h.mu.Unlock()
	h.process, h.parked, h.fuse, h.dying = nil, nil, 0, false
}

// Reboot is a power cut: all machines end, what is in memory is gone, and the machine that is enabled
// starts. The process is killed.
func (h *Host) Reboot() error {
	h.Kill()
	h.boots++
	h.mu.Lock()
	h.down = ""
	h.mu.Unlock()
	h.runner.Reboot()
	return os.RemoveAll(h.run())
}

// LoseJournal takes the journal away. No process may be up.
func (h *Host) LoseJournal() error {
	if err := os.Remove(filepath.Join(h.state(), "journal.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Orphan kills the systemd-nspawn of the slot's machine, and leaves what runs in it. End lets the
// whole machine end.
func (h *Host) Orphan(slot journal.Slot) { h.runner.Orphan(slot) }

// End lets the slot's machine end by itself.
func (h *Host) End(slot journal.Slot) { h.runner.End(slot) }

// Waits returns the look or step that waits; nil: none does.
func (h *Host) Waits() *Parked {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parked
}

// Go lets what waits go on.
func (h *Host) Go(v Verdict) {
	h.mu.Lock()
	c := h.parked
	h.parked = nil
	h.mu.Unlock()
	c.going <- v
}

// Take gives the paver work. It must be up.
func (h *Host) Take(w *nstancev1.MachineWork) { _ = h.process.paver.Take(h.process.ctx, w) }

// Status is the last report; nil: no process is up.
func (h *Host) Status() *nstancev1.MachineStatus {
	h.mu.Lock()
	p := h.process
	h.mu.Unlock()
	if p == nil || p.ctx.Err() != nil {
		return nil
	}
	s, _ := p.paver.Status()
	return s
}

// Known is the journal as the process wrote it last; false: no process is up.
func (h *Host) Known() (journal.Journal, bool) {
	h.mu.Lock()
	p := h.process
	h.mu.Unlock()
	if p == nil || p.ctx.Err() != nil {
		return journal.Journal{}, false
	}
	return p.paver.Journal(), true
}

// Logs are all that the host ever logged.
func (h *Host) Logs() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.logs.Bytes())
}

func (h *Host) restarted(slot journal.Slot) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.restarts[slot]
}

// Running is a node machine of which something runs.
type Running struct {
	Slot    journal.Slot
	Boot    string
	Kubelet bool
	Orphan  bool // its systemd-nspawn has ended
	// Restarts of the kubelet in this slot.
	Restarts int
}

// Runs returns the node machines, in the order of their slots.
func (h *Host) Runs() (all []Running) {
	runs := h.runner.Runs()
	for _, slot := range journal.Slots() {
		kubelet, some := runs[slot]
		if !some {
			continue
		}
		state, err := h.runner.State(context.Background(), slot)
		if err == nil && state.Phase != journal.Absent {
			all = append(all, Running{slot, state.BootID, kubelet, state.Phase == journal.Orphan, h.restarted(slot)})
		}
	}
	return all
}

// steps carries steps out when they may go on.
type steps struct {
	*host.Host

	h *Host
}

func (s *steps) park(ctx context.Context, c *Parked) (Verdict, error) {
	c.going = make(chan Verdict)
	s.h.mu.Lock()
	s.h.parked = c
	s.h.mu.Unlock()
	select {
	case s.h.opts.Wake <- struct{}{}:
	default:
	}
	select {
	case v := <-c.going:
		return v, nil
	case <-ctx.Done():
		s.h.mu.Lock()
		defer s.h.mu.Unlock()
		if s.h.parked == c {
			s.h.parked = nil
		}
		return Verdict{}, ctx.Err()
	}
}

// die kills the process that calls it.
func (s *steps) die() {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.dying = true
	s.h.process.kill()
}

// Observe implements paver.Host.
func (s *steps) Observe(ctx context.Context, markers bool) (map[journal.Slot]host.Seen, error) {
	v, err := s.park(ctx, &Parked{})
	switch {
	case err != nil:
		return nil, err
	case v.Before:
		s.die()
		return nil, errKilled
	}
	return s.Host.Observe(ctx, markers)
}

// Do implements paver.Host.
func (s *steps) Do(ctx context.Context, w host.Work) (transition.Result, error) {
	v, err := s.park(ctx, &Parked{Step: &w.Step, Journal: w.Journal})
	switch {
	case err != nil:
		return transition.Result{}, err
	case v.Before:
		s.die()
		return transition.Result{}, errKilled
	}
	s.h.mu.Lock()
	s.h.fuse = v.Within
	s.h.mu.Unlock()
	result, err := s.Host.Do(ctx, w)
	s.h.mu.Lock()
	s.h.fuse = 0
	dead := s.h.dying
	s.h.mu.Unlock()
	if v.After && !dead {
		s.die()
		return transition.Result{}, errKilled
	}
	return result, err
}

// Surroundings implements paver.Host: a host that is fit.
func (s *steps) Surroundings(context.Context, journal.Journal) report.Surroundings {
	return report.Surroundings{
		Preflight: []*nstancev1.PreflightCheck{{Id: "root", Result: nstancev1.PreflightResult_PREFLIGHT_RESULT_PASSED}},
		Host:      &nstancev1.MachineHost{BootId: s.h.bootID(), Arch: "amd64", Cgroup: "v2"},
	}
}
