// Package runnertest is the contract of runners as a test suite.
package runnertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner"
)

// Subject is a runner with two slots that can be booted.
type Subject struct {
	Runner runner.Runner
	// Orphan kills the program that supervises a slot's machine, and nothing else. Nil where
	// that is not possible.
	Orphan func(journal.Slot)
	// Shell: commands are real ones.
	Shell bool
}

// limit bounds each call; a boot of a whole system takes seconds.
const limit = time.Minute

// Run checks a runner. Fresh returns one with nothing running.
func Run(t *testing.T, fresh func(*testing.T) Subject) {
	t.Run("a machine lives and ends", func(t *testing.T) { life(t, fresh(t)) })
	t.Run("calls may be repeated", func(t *testing.T) { repeated(t, fresh(t)) })
	t.Run("each boot has its own ID", func(t *testing.T) { bootIDs(t, fresh(t)) })
	t.Run("commands", func(t *testing.T) { commands(t, fresh(t)) })
	t.Run("what is left over is killed", func(t *testing.T) { leftovers(t, fresh(t)) })
	t.Run("slots are apart", func(t *testing.T) { apart(t, fresh(t)) })
}

func (s Subject) state(t *testing.T, slot journal.Slot) runner.State {
	t.Helper()
	state, err := s.Runner.State(t.Context(), slot)
	if err != nil {
		t.Fatalf("State(%s): %v", slot, err)
	}
	return state
}

func (s Subject) boot(t *testing.T, slot journal.Slot) runner.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Runner.Boot(ctx, slot); err != nil {
		t.Fatalf("Boot(%s): %v", slot, err)
	}
	state := s.state(t, slot)
	if state.Phase != journal.Running || state.BootID == "" || state.Leader.PID == 0 || state.Leader.HostBootID == "" {
		t.Fatalf("after Boot(%s): %+v", slot, state)
	}
	return state
}

func (s Subject) stop(t *testing.T, slot journal.Slot) {
	t.Helper()
	if err := s.Runner.Stop(t.Context(), slot, limit); err != nil {
		t.Fatalf("Stop(%s): %v", slot, err)
	}
	s.expectNothing(t, slot)
}

func (s Subject) kill(t *testing.T, slot journal.Slot) {
	t.Helper()
	if err := s.Runner.Kill(t.Context(), slot); err != nil {
		t.Fatalf("Kill(%s): %v", slot, err)
	}
	s.expectNothing(t, slot)
}

func (s Subject) expectNothing(t *testing.T, slot journal.Slot) {
	t.Helper()
	if state := s.state(t, slot); state.Phase != journal.Absent && state.Phase != journal.Failed {
		t.Fatalf("%s: %+v, want nothing that runs", slot, state)
	}
}

func life(t *testing.T, s Subject) {
	s.expectNothing(t, journal.A)
	state := s.boot(t, journal.A)
	if age := time.Since(state.StartedAt); age < -time.Minute || age > 10*time.Minute {
		t.Errorf("started %v ago", age)
	}
	if err := s.Runner.Enable(t.Context(), journal.A); err != nil {
		t.Errorf("Enable: %v", err)
	}
	if err := s.Runner.Enable(t.Context(), journal.None); err != nil {
		t.Errorf("Enable none: %v", err)
	}
	if again := s.state(t, journal.A); again.BootID != state.BootID {
		t.Errorf("to enable a slot made boot %s of %s", again.BootID, state.BootID)
	}
	s.stop(t, journal.A)
}

func repeated(t *testing.T, s Subject) {
	s.stop(t, journal.A)
	s.kill(t, journal.A)
	first := s.boot(t, journal.A)
	if second := s.boot(t, journal.A); second.BootID != first.BootID || second.Leader != first.Leader {
		t.Errorf("a second Boot made %+v of %+v", second, first)
	}
	s.kill(t, journal.A)
	s.kill(t, journal.A)
	s.stop(t, journal.A)
}

func bootIDs(t *testing.T, s Subject) {
	first := s.boot(t, journal.A)
	s.stop(t, journal.A)
	if second := s.boot(t, journal.A); second.BootID == first.BootID || second.Leader == first.Leader {
		t.Errorf("the second boot is %+v, like the first", second)
	}
	s.kill(t, journal.A)
}

func commands(t *testing.T, s Subject) {
	if _, err := s.Runner.Exec(t.Context(), journal.A, "true"); !errors.Is(err, runner.ErrNotRunning) {
		t.Errorf("Exec without a machine: %v", err)
	}
	s.boot(t, journal.A)
	defer s.kill(t, journal.A)
	if out, err := s.Runner.Exec(t.Context(), journal.A, "systemctl", "is-active", "--quiet", "kubelet"); err != nil {
		t.Errorf("Exec: %+v, %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Runner.Exec(ctx, journal.A, "sleep", "60"); !errors.Is(err, context.Canceled) {
		t.Errorf("Exec with a context that has ended: %v", err)
	}
	if !s.Shell {
		return
	}
	out, err := s.Runner.Exec(t.Context(), journal.A, "sh", "-c", "echo out; echo err >&2; exit 7")
	if err != nil || out.Code != 7 || string(out.Text) != "out\nerr\n" {
		t.Errorf("Exec: %+v, %v", out, err)
	}
	out, err = s.Runner.Exec(t.Context(), journal.A, "echo", "$HOME; `id`")
	if err != nil || string(out.Text) != "$HOME; `id`\n" {
		t.Errorf("a shell read it: %q, %v", out.Text, err)
	}
	out, err = s.Runner.Exec(t.Context(), journal.A, "sh", "-c", "yes | head -c 1000000; echo end")
	if err != nil || len(out.Text) != command.MaxOutput || !strings.HasSuffix(string(out.Text), "end\n") {
		t.Errorf("%d bytes of output, %v", len(out.Text), err)
	}
	if _, err := s.Runner.Exec(t.Context(), journal.A, "no-such-program"); err != nil {
		t.Logf("a program that does not exist: %v", err) // an error or a code, as nsenter has it
	}
}

func leftovers(t *testing.T, s Subject) {
	if s.Orphan == nil {
		t.Log("the payload of this runner ends with its supervisor")
		return
	}
	first := s.boot(t, journal.A)
	s.Orphan(journal.A)
	if state := s.state(t, journal.A); state.Phase != journal.Orphan {
		t.Errorf("after its supervisor was killed: %+v", state)
	}
	if _, err := s.Runner.Exec(t.Context(), journal.A, "true"); !errors.Is(err, runner.ErrNotRunning) {
		t.Errorf("Exec among leftovers: %v", err)
	}
	if second := s.boot(t, journal.A); second.BootID == first.BootID {
		t.Errorf("a boot found %+v, what was left over", second)
	}
	s.Orphan(journal.A)
	s.kill(t, journal.A)
}

func apart(t *testing.T, s Subject) {
	a, b := s.boot(t, journal.A), s.boot(t, journal.B)
	if a.BootID == b.BootID || a.Leader.PID == b.Leader.PID {
		t.Errorf("both slots have %+v", a)
	}
	s.kill(t, journal.A)
	if after := s.state(t, journal.B); after.BootID != b.BootID || after.Phase != journal.Running {
		t.Errorf("b was %+v, and is %+v after the kill of a", b, after)
	}
	s.stop(t, journal.B)
}
