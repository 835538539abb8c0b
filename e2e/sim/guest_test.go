package sim_test

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim"
)

func TestInstance_Lives(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   sim.Instance
		want bool
	}{
		{"asked for", sim.Instance{}, true},
		{"running", sim.Instance{Runs: true}, true},
		{"condemned", sim.Instance{Runs: true, Condemned: time.Unix(1, 0)}, false},
		{"removed", sim.Instance{Removed: time.Unix(1, 0)}, false},
		{"put back by a late write", sim.Instance{Late: true}, false},
		{"put back by a late write, and its machine runs", sim.Instance{Late: true, Runs: true}, true},
	} {
		if got := tt.in.Lives(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
