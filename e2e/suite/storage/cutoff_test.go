//go:build storage

package storage_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/cable"
	"nstance.dev/e2e/env/crash"
	"nstance.dev/e2e/env/storage"
)

// The default lease, and the shortest: each is measured at the worst moment, right after a renewal that
// the standby has not seen yet or has just seen.
func TestL2_StandbyServesWhenTheHostOfTheLeaderIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		lease  time.Duration
		rounds int
	}{
		"the default lease":  {15 * time.Second, 1},
		"the shortest lease": {5 * time.Second, 4},
	} {
		t.Run(name, func(t *testing.T) {
			crash.LeaderCutOff(t, c.rounds, func() crash.Storage {
				server := storage.S3At(t, cable.Near)
				server.Setenv(t)
				return crash.Storage{Location: location(t, server), Lease: c.lease}
			})
		})
	}
}

// Packets to a host that is cut off are lost: nobody refuses them.
func TestACableThatIsPulled(t *testing.T) {
	host := cable.New(t)
	var far net.Listener
	host.On(func() {
		var err error
		if far, err = net.Listen("tcp", cable.Far+":0"); err != nil {
			t.Fatal(err)
		}
	})
	defer far.Close()
	const silence = 500 * time.Millisecond // after seconds this host would know that it finds no such neighbour
	dial := func(patience time.Duration) error {
		conn, err := net.DialTimeout("tcp", far.Addr().String(), patience)
		if err == nil {
			_ = conn.Close() // it was for the try
		}
		return err
	}
	if err := dial(box.Patience); err != nil {
		t.Fatalf("with the cable in: %v", err)
	}
	host.Pull()
	if refused := net.Error(nil); !errors.As(dial(silence), &refused) || !refused.Timeout() {
		t.Fatalf("with the cable out: %v, and must get no answer", refused)
	}
	host.Plug()
	if err := dial(box.Patience); err != nil {
		t.Fatalf("with the cable in again: %v", err)
	}
}
