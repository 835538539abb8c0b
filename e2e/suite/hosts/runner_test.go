//go:build hosts

package hosts_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/runner/direct"
	"nstance.dev/agent/paver/runner/leader"
	"nstance.dev/agent/paver/runner/runnertest"
)

// TestMain fails with what is missing: a level that cannot run is not a level that passed.
func TestMain(m *testing.M) {
	flag.Parse()
	err := preflight(map[string]string{"sshd": "openssh-server", "ssh": "openssh-client", "containerd": "containerd", "runc": "runc"})
	if err == nil {
		err = alone()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "preflight of e2e-hosts failed:\n%v\n", err)
		os.Exit(1) //nolint:forbidigo // the process of tests has no other way to say so
	}
	os.Exit(m.Run()) //nolint:forbidigo // as testing does
}

// TestDirectRunnerContract: real machines, started without a service manager.
func TestDirectRunnerContract(t *testing.T) {
	machines := trees(t, "contract-a", "contract-b")
	runnertest.Run(t, func(t *testing.T) runnertest.Subject {
		r := direct.New(direct.Options{
			Machines: machines, Logs: t.TempDir(), Name: func(s journal.Slot) string { return "contract-" + string(s) },
		})
		return runnertest.Subject{Runner: r, Shell: true, Orphan: func(slot journal.Slot) { orphan(t, r, slot) }}
	})
	expectNothingLeft(t, "contract-a", "contract-b")
}

// orphan kills the systemd-nspawn of a machine and waits until it is gone.
func orphan(t *testing.T, r runner.Runner, slot journal.Slot) {
	t.Helper()
	state, err := r.State(t.Context(), slot)
	if err != nil || state.Leader.PID == 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	supervisor := parent(t, state.Leader.PID)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for parent(t, state.Leader.PID) == supervisor {
		time.Sleep(10 * time.Millisecond)
	}
	if !leader.Alive(state.Leader) {
		t.Fatal("the payload has ended with its systemd-nspawn: this test shows nothing")
	}
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nPPid:\t")
	line, _, _ := strings.Cut(rest, "\n")
	return atoi(t, line)
}

// A machine of which the journal knows the first process is found by that, wherever it has gone.
func TestTheJournalKnowsWhatLeftItsCgroup(t *testing.T) {
	machines := trees(t, "known-a")
	var known journal.Leader
	r := direct.New(direct.Options{
		Machines: machines, Logs: t.TempDir(), Name: func(s journal.Slot) string { return "known-" + string(s) },
		Known: func(journal.Slot) journal.Leader { return known },
	})
	if err := r.Boot(t.Context(), journal.A); err != nil {
		t.Fatal(err)
	}
	state, err := r.State(t.Context(), journal.A)
	if err != nil {
		t.Fatal(err)
	}
	orphan(t, r, journal.A)
	if err := syscall.Kill(state.Leader.PID, syscall.SIGSTOP); err != nil { // it would start others in their cgroups
		t.Fatal(err)
	}
	for _, dir := range cgroups(t) { // what escapes is not in its own cgroup
		moveAll(t, filepath.Join(dir, "nstance-known-a"), dir)
	}
	if state, err := r.State(t.Context(), journal.A); err != nil || state.Phase != journal.Absent {
		t.Fatalf("%+v, %v: this test shows nothing", state, err)
	}
	known = state.Leader
	if state, err := r.State(t.Context(), journal.A); err != nil || state.Phase != journal.Orphan {
		t.Errorf("%+v, %v", state, err)
	}
	if err := r.Kill(t.Context(), journal.A); err != nil || leader.Alive(known) {
		t.Errorf("after the kill its first process lives: %v", err)
	}
	expectNothingLeft(t, "known-a")
}
