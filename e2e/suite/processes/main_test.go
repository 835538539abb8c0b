package processes_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/env/box"
)

var (
	rounds = flag.Int("rounds", 1, "how often a server is killed in the middle of a scale-up")
	crowd  = flag.Int("crowd", 60, "how many machines are made and taken away again")
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// lease is what the locks of these clusters last.
const lease = 5 * time.Second

// up returns a box in which `dev` has brought a group of machines up, in a patient
// cluster.
func up(t *testing.T, size int, flags ...string) (*box.Box, *box.Process) {
	t.Helper()
	b := box.New(t)
	b.Configure(size, lease)
	p := b.Dev(size, flags...)
	b.Await("the cluster is up", func() error { return b.Settled("web", size, time.Time{}) })
	return b, p
}
