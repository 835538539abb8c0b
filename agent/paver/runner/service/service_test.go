package service

import (
	"testing"

	"nstance.dev/agent/paver/runner"
)

func TestPhasesOfTheUnit(t *testing.T) {
	for text, want := range map[string]runner.Phase{
		"ActiveState=inactive\nMainPID=0\n":      runner.Absent,
		"MainPID=0\nActiveState=failed\n":        runner.Failed,
		"ActiveState=activating\nMainPID=0\n":    runner.Running, // waits for its next start
		"ActiveState=active\nMainPID=99999999\n": runner.Running, // with a leader that is not seen yet
		"ActiveState=deactivating\nMainPID=?\n":  runner.Running,
		"":                                       runner.Absent,
		"ActiveState\n=\n":                       runner.Absent,
	} {
		if got := read(text); got.Phase != want || got.BootID != "" || got.Leader.PID != 0 {
			t.Errorf("%q: %+v, want %q", text, got, want)
		}
	}
}
