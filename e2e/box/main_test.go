package box_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/box"
)

var rounds = flag.Int("rounds", 3, "how often the server is killed in the middle of a scale-up")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// up returns a box in which `dev` has brought a group of machines up.
func up(t *testing.T, size int, flags ...string) (*box.Box, *box.Process) {
	t.Helper()
	b := box.New(t)
	p := b.Dev(size, flags...)
	b.Within(10*time.Second, "the cluster is up", func() error { return b.Settled("web", size, time.Time{}) })
	return b, p
}
