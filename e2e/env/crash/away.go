package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// StorageAwayForTenLeases takes the storage away while the leader runs. Until it is
// back nobody acts and nothing is promised; the agents keep their streams when the
// lease runs out, for as long as another leader would wait for them. After that one
// server leads the same machines and can scale (F1, S2, S15).
func StorageAwayForTenLeases(t *testing.T, storage Storage) {
	w := begin(t, storage, few)
	w.Audited(1) // time in which the second server gets to stand by
	before, seen := w.Machines(), w.Watch()
	lock, err := w.Lock()
	if err != nil {
		t.Fatal(err)
	}

	back := storage.Away()
	time.Sleep(2 * storage.lease())
	for _, m := range before {
		if strings.Contains(w.MachineLog(m.ID), "no stream to the server") {
			t.Errorf("%s has lost its stream because the lease ran out", m)
		}
	}
	time.Sleep(8 * storage.lease())
	if err := w.Scale(Group, few+1); err == nil {
		t.Error("a new size was promised without storage that could keep it")
	}
	if now := w.Machines(); !slices.Equal(now, before) {
		t.Errorf("without storage the machines are %v, were %v", now, before)
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
