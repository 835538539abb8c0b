package leader_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/runner/leader"
)

func TestAProcessIsKnownAgain(t *testing.T) {
	self, err := leader.Describe(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if self.PID != os.Getpid() || self.StartTime == 0 || self.PIDNamespace == 0 || self.HostBootID == "" {
		t.Errorf("%+v", self)
	}
	if !leader.Alive(self) {
		t.Error("this process is dead")
	}
	if age := time.Since(leader.StartedAt(self)); age < -5*time.Second || age > time.Hour {
		t.Errorf("this process was started %v ago", age)
	}
	for name, change := range map[string]func(*journal.Leader){
		"another one of its number": func(l *journal.Leader) { l.StartTime++ },
		"before a reboot":           func(l *journal.Leader) { l.HostBootID = "other" },
		"none":                      func(l *journal.Leader) { *l = journal.Leader{} },
		"one that is gone":          func(l *journal.Leader) { l.PID = 1 << 30 },
	} {
		other := self
		change(&other)
		if leader.Alive(other) {
			t.Errorf("%s is alive", name)
		}
		if _, err := leader.Exec(t.Context(), other, []string{"true"}); !errors.Is(err, runner.ErrNotRunning) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if leader.BootID(self) != "" {
		t.Error("the host's boot ID is taken for one of a machine")
	}
}

func TestOnlyTheFirstProcessOfANamespaceLeads(t *testing.T) {
	if leader.First(os.Getpid()) {
		t.Error("this process is taken for one")
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if l, err := leader.Of(os.Getpid()); !errors.Is(err, leader.ErrNone) {
		t.Errorf("an ordinary child is taken for one: %+v, %v", l, err)
	}
	if l, err := leader.Of(1 << 30); !errors.Is(err, leader.ErrNone) {
		t.Errorf("%+v, %v", l, err)
	}
}

// A machine that ended while its systemd was waited for will not answer.
func TestNobodyWaitsForAMachineThatEnded(t *testing.T) {
	asked := 0
	err := leader.Answers(t.Context(), func() (journal.Leader, error) {
		if asked++; asked == 1 {
			return journal.Leader{}, leader.ErrNone
		}
		return journal.Leader{}, runner.ErrNotRunning
	})
	if !errors.Is(err, runner.ErrNotRunning) || asked != 2 {
		t.Errorf("%v after %d looks", err, asked)
	}
}
