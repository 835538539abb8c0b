package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nstance.dev/e2e/box"
)

// StorageAwayForTenLeases takes the storage away while the leader runs. Until it is
// back nobody acts, nothing is promised, and the agents keep their streams; after
// that one server leads the same machines and can scale (F1, S2, S15).
func StorageAwayForTenLeases(t *testing.T, storage Storage) {
	w := begin(t, storage, few)
	before, seen := w.Machines(), w.Watch()
	lock, err := w.Lock()
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := w.Leader()
	if err != nil {
		t.Fatal(err)
	}

	back := storage.Away()
	time.Sleep(10 * storage.lease())
	if err := w.Scale(Group, few+1); err == nil {
		t.Error("a new size was promised without storage that could keep it")
	}
	if now := w.Machines(); !slices.Equal(now, before) {
		t.Errorf("without storage the machines are %v, were %v", now, before)
	}
	if n, err := box.Metric(t.Context(), addrs.Health, "nstance_agent_streams"); err != nil || n != few {
		t.Errorf("without storage the leader has %v streams of agents (%v), not %d", n, err, few)
	}
	back()
	returned := time.Now()

	w.Await("a server leads again", func() error {
		now, err := w.Lock()
		if err != nil {
			return err
		}
		if now.Term == lock.Term {
			return fmt.Errorf("the lock is still the one of term %d", lock.Term)
		}
		return w.Leads(now.LeaderID)
	})
	w.Settle(few, returned)
	w.Audited(2)
	w.unharmed(before, seen())

	w.Resize(few + 2)
	w.Settle(few+2, time.Time{})
}
