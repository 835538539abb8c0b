package fake_test

import (
	"testing"

	"nstance.dev/agent/paver/runner/fake"
	"nstance.dev/agent/paver/runner/runnertest"
)

func TestContract(t *testing.T) {
	runnertest.Run(t, func(*testing.T) runnertest.Subject {
		r := new(fake.Runner)
		return runnertest.Subject{Runner: r, Orphan: r.Orphan}
	})
}
