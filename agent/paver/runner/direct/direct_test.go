package direct

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"nstance.dev/agent/paver/journal"
)

// What takes root and systemd-nspawn is tested by e2e/suite/hosts.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAStartLeavesNoThreadBehind: many commands, so that some begin on the first thread of the
// process, which cannot end.
func TestAStartLeavesNoThreadBehind(t *testing.T) {
	before := threads(t)
	for range 50 {
		cmd := exec.CommandContext(t.Context(), "true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := startIn(cmd, nil); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if after := threads(t); after > before+20 {
		t.Errorf("%d threads, and %d before", after, before)
	}
	if err := startIn(exec.CommandContext(t.Context(), "no-such-program"), nil); err == nil {
		t.Error("a program that does not exist was started")
	}
}

func threads(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestWhatNeverRanIsAbsent(t *testing.T) {
	r := New(Options{Logs: t.TempDir(), Name: func(s journal.Slot) string { return "never-" + string(s) }})
	switch state, err := r.State(t.Context(), journal.A); {
	case err != nil && strings.Contains(err.Error(), errNoGroups.Error()):
		t.Logf("no machine can run here: %v", err)
	case err != nil || state.Phase != journal.Absent:
		t.Errorf("%+v, %v", state, err)
	}
}

func TestPids(t *testing.T) {
	if got := pids([]byte("12\n0\nx\n-3\n7\n")); len(got) != 2 || got[0] != 12 || got[1] != 7 {
		t.Errorf("%v", got)
	}
	var m members
	m.add(1, 2, 1)
	m.add(2, 3)
	if len(m.all) != 3 {
		t.Errorf("%v", m.all)
	}
}
