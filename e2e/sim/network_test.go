package sim_test

import (
	"strings"
	"testing"

	"nstance.dev/e2e/sim"
)

// TestStream_AgentFindsOutThatTheServerIsGone: also where the server was killed before either
// side had asked for a sign of life.
func TestStream_AgentFindsOutThatTheServerIsGone(t *testing.T) {
	p, err := sim.Parse(`
		seed 1
		set servers 1
		1s upsert db 12
		11s crash a keep
		20s start a`)
	if err != nil {
		t.Fatal(err)
	}
	log := search.Play(t, p).Log
	for _, line := range log {
		if strings.HasSuffix(line, "is condemned: unhealthy") {
			t.Errorf("%s, though its agent only had to connect again; all:\n%s", line, strings.Join(log, "\n"))
			break
		}
	}
}
