package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/network"
	"nstance.dev/agent/paver/pavertest"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// TestM91_AHostThatIsNotFitKeepsItsMachine: what preflight reports is looked at again before a kubelet
// is stopped, anything is fetched, and the machine is stopped.
func TestM91_AHostThatIsNotFitKeepsItsMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*preflight.Facts)
		policy string
		want   string // empty: it is built
	}{
		"nothing is wrong":                    {func(*preflight.Facts) {}, "allow: {pave: true}\n", ""},
		"a kubelet beside the machine":        {func(f *preflight.Facts) { f.Kubelets = []int{7} }, "allow: {pave: true}\n", "ForeignKubelet: a kubelet runs on the host (process 7)"},
		"the kubelet's port is taken":         {func(f *preflight.Facts) { f.PortHolder = "k3s (process 8)" }, "allow: {pave: true}\n", "ForeignKubelet: port 10250"},
		"a policy does not change that":       {func(f *preflight.Facts) { f.Kubelets = []int{7} }, "allow: {pave: true, degraded: true}\n", "ForeignKubelet"},
		"limits of Pods would have no effect": {func(f *preflight.Facts) { f.Unified = false }, "allow: {pave: true}\n", "allow.degraded of the machine policy would put up with it"},
		"which a policy puts up with":         {func(f *preflight.Facts) { f.Unified = false }, "allow: {pave: true, degraded: true}\n", ""},
		"swap":                                {func(f *preflight.Facts) { f.Swap = true }, "allow: {pave: true}\n", "Swap: "},
		"a module is no reason":               {func(f *preflight.Facts) { f.Modules = nil }, "allow: {pave: true}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.do(f.work(transition.BuildSlot, journal.Build, journal.A, journal.B))
			f.runner.Started(journal.A)
			tt.change(&f.facts)
			f.policy = tt.policy
			for kind, stage := range map[transition.Kind]journal.Stage{
				transition.StopKubelet: journal.Fetch, transition.FetchRoot: journal.Fetch, transition.CheckGuards: journal.Guard,
			} {
				before := len(f.runner.Calls())
				_, err := f.host.Do(t.Context(), f.work(kind, stage, journal.A, journal.B))
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("%s: %v", kind, err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("%s: %v, want %q", kind, err, tt.want)
				case tt.want != "" && len(f.runner.Calls()) > before:
					t.Errorf("%s: ran %q", kind, f.runner.Calls()[before:])
				}
			}
		})
	}
}

// TestM91_AHostThatCannotBeSeenIsNotBuiltOn: not to find a kubelet is no proof that none runs.
func TestM91_AHostThatCannotBeSeenIsNotBuiltOn(t *testing.T) {
	f := newFixture(t)
	f.host.opts.Probe = func(context.Context, preflight.Targets) (preflight.Facts, error) {
		return f.facts, errors.New("/proc is hidden")
	}
	if _, err := f.host.Do(t.Context(), f.work(transition.FetchRoot, journal.Fetch, journal.A, journal.B)); err == nil || !strings.Contains(err.Error(), "/proc is hidden") {
		t.Errorf("%v", err)
	}
}

// TestM57_ACopyThatHasNoRoomIsNotBegun: the disk is that of the machine that runs.
func TestM57_ACopyThatHasNoRoomIsNotBegun(t *testing.T) {
	f := newFixture(t)
	const size = 8 << 20
	f.write("image/usr/lib/large", strings.Repeat("x", size))
	build := f.work(transition.BuildSlot, journal.Build, journal.A, journal.B)
	f.free = keepFree/2 + size/2
	if _, err := f.host.Do(t.Context(), build); !errors.Is(err, errDisk) {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(filepath.Join(f.dir, "machines")); err != nil || len(entries) > 0 {
		t.Errorf("it was begun: %v, %v", entries, err)
	}
	f.host.opts.Disk.Shares = func(string, string) bool { return true } // a copy takes nothing
	f.do(build)
	f.host.opts.Disk.Shares = func(string, string) bool { return false }
	f.free = keepFree/2 + 2*size
	f.do(build)
}

// TestM59_WhatRunsAgainStartsWithItsHost: a switch that went no further may have stopped that.
func TestM59_WhatRunsAgainStartsWithItsHost(t *testing.T) {
	f := newFixture(t)
	f.do(f.work(transition.BuildSlot, journal.Build, journal.None, journal.A))
	f.do(f.work(transition.RetireSlot, journal.Retire, journal.None, journal.A))
	if got := f.runner.Enabled(); got != journal.None {
		t.Fatalf("%s is enabled", got)
	}
	w := f.work(transition.StartActive, "", journal.None, journal.A)
	w.Journal = journal.Journal{V: 1, Epoch: 1, Active: journal.A}
	f.do(w)
	if got := f.runner.Enabled(); got != journal.A {
		t.Errorf("%q is enabled after the start", got)
	}
	f.do(f.work(transition.RetireSlot, journal.Retire, journal.None, journal.A)) // of another epoch
	w = f.work(transition.GiveUp, journal.Fetch, journal.A, journal.B)
	w.Step.Slot = journal.A
	f.do(w)
	if got := f.runner.Enabled(); got != journal.A {
		t.Errorf("%q is enabled after the assignment was given up", got)
	}
}

// TestDirectoriesAreEmptiedBeforeTheFirstBoot: however many attempts it took to get there, and never
// once the new machine has run.
func TestDirectoriesAreEmptiedBeforeTheFirstBoot(t *testing.T) {
	f := newFixture(t)
	m := pavertest.Assignment(1, nstancev1.MachineMode_MACHINE_MODE_REPAVE, "1")
	m.Template.Machine.Persist = []*nstancev1.MachinePersist{
		{Path: "/var/log/pods", Name: "logs"}, {Path: "/var/lib/containerd", Name: "images", WipeOnRepave: true},
	}
	a, err := assignment.From(m)
	if err != nil {
		t.Fatal(err)
	}
	work := func(kind transition.Kind, stage journal.Stage, attempts int) Work {
		w := f.work(kind, stage, journal.A, journal.B)
		w.Journal.Transition.Assignment, w.Assignment, w.Journal.Transition.Attempts = a, &a, attempts
		return w
	}
	persist := filepath.Join(f.dir, "state/persist") // below the root of the settings
	kept := func() (names []string) {
		for _, name := range []string{"logs", "images"} {
			if _, err := os.Lstat(filepath.Join(f.dir, persist, name, "x")); err == nil {
				names = append(names, name)
			}
		}
		return names
	}
	f.do(work(transition.BuildSlot, journal.Build, 0))
	f.write(filepath.Join(persist, "logs/x"), "")
	f.write(filepath.Join(persist, "images/x"), "")
	f.do(work(transition.RetireSlot, journal.Retire, 2))
	if got := kept(); !slices.Equal(got, []string{"logs"}) {
		t.Errorf("after the old machine was stopped: %q", got)
	}
	f.do(work(transition.BootSlot, journal.Boot, 0))
	f.write(filepath.Join(persist, "images/x"), "of the new machine")
	f.runner.End(journal.B)
	f.do(work(transition.BootSlot, journal.Boot, 0))
	if got := kept(); !slices.Equal(got, []string{"logs", "images"}) {
		t.Errorf("after another boot of the new machine: %q", got)
	}
}

// TestM57_ASettingThatTheKernelRefusesKeepsTheMachine.
func TestM57_ASettingThatTheKernelRefusesKeepsTheMachine(t *testing.T) {
	f := newFixture(t)
	f.do(f.work(transition.BuildSlot, journal.Build, journal.A, journal.B))
	guard := f.work(transition.CheckGuards, journal.Guard, journal.A, journal.B)
	f.do(guard)
	if text, err := os.ReadFile(filepath.Join(f.dir, "proc/sys/kernel/panic")); err != nil || strings.TrimSpace(string(text)) != "0" {
		t.Errorf("the old machine runs with %q, %v", text, err)
	}
	// A file that cannot be opened for writing refuses every value, as the kernel does.
	path := filepath.Join(f.dir, "proc/sys/vm/overcommit_memory")
	f.write("proc/sys/vm/overcommit_memory", "0\n")
	if err := errors.Join(os.Remove(path), os.Symlink("/proc/self/stat", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.host.Do(t.Context(), guard); err == nil || !strings.Contains(err.Error(), "set sysctl vm.overcommit_memory") {
		t.Errorf("%v", err)
	}
}

// TestANetworkThatCannotBeReadIsNotRecordedLate: what Pods have left by then would be taken for the
// host's own.
func TestANetworkThatCannotBeReadIsNotRecordedLate(t *testing.T) {
	f := newFixture(t)
	good := f.host.opts.Network
	f.host.opts.Network = func(context.Context, ...string) ([]byte, error) { return nil, errors.New("no program ip") }
	w := f.work(transition.RecordHost, journal.Guard, journal.None, journal.A)
	if _, err := f.host.Do(t.Context(), w); err == nil || !strings.Contains(err.Error(), "no program ip") {
		t.Errorf("%v", err)
	}
	w.Journal.Transition.Attempts = transition.MaxAttempts - 1
	r := f.do(w)
	if !strings.Contains(string(r.Network), "unknown") {
		t.Fatalf("recorded %s", r.Network)
	}
	f.host.opts.Network, f.ran = good, nil
	f.links = `[{"ifname":"lo"},{"ifname":"cni0"}]`
	retire := f.work(transition.RetireSlot, journal.Retire, journal.A, journal.B)
	retire.Journal.Network = r.Network
	f.do(retire)
	if slices.ContainsFunc(f.ran, func(c string) bool { return strings.Contains(c, "delete") }) {
		t.Errorf("ran %q", f.ran)
	}
	if left := network.Leftovers(network.State{Unknown: true}, network.State{Links: []string{"cni0"}}); len(left) > 0 {
		t.Errorf("%v", left)
	}
}
