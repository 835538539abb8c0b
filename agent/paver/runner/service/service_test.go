package service

import (
	"testing"

	"nstance.dev/agent/paver/journal"
)

func TestPhasesOfTheUnit(t *testing.T) {
	for text, want := range map[string]journal.Phase{
		"ActiveState=inactive\nMainPID=0\n":      journal.Absent,
		"MainPID=0\nActiveState=failed\n":        journal.Failed,
		"ActiveState=activating\nMainPID=0\n":    journal.Running, // waits for its next start
		"ActiveState=active\nMainPID=99999999\n": journal.Running, // with a leader that is not seen yet
		"ActiveState=deactivating\nMainPID=?\n":  journal.Running,
		"":                                       journal.Absent,
		"ActiveState\n=\n":                       journal.Absent,
	} {
		if got := read(text); got.Phase != want || got.BootID != "" || got.Leader.PID != 0 {
			t.Errorf("%q: %+v, want %q", text, got, want)
		}
	}
}
