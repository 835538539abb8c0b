package sim_test

import (
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/sim"
)

// TestWatcher_LeavesALeaderThatIsSilent: who drains for a tenant follows the next leader also
// when the last one was stopped, whose streams never end.
func TestWatcher_LeavesALeaderThatIsSilent(t *testing.T) {
	p, err := sim.Parse(`
		seed 1
		set servers 2
		set drain 5m
		1s upsert db 2
		1m freeze-leader 1h
		3m remove db 0`)
	if err != nil {
		t.Fatal(err)
	}
	log := search.Play(t, p).Log
	if !slices.ContainsFunc(log, func(line string) bool { return strings.HasSuffix(line, "db/1 is drained") }) {
		t.Errorf("nobody has drained db/1:\n%s", strings.Join(log, "\n"))
	}
}
