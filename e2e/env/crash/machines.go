package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/e2e/env/box"
)

// MachinesKilled kills one machine, and then all of them at once: each is replaced,
// and there is never more than one more than wanted (L1, S5).
func MachinesKilled(t *testing.T, storage Storage) {
	w := begin(t, storage, few)
	seen := w.Watch()
	for _, victims := range [][]box.Machine{w.Machines()[:1], nil} {
		if victims == nil {
			victims = w.Machines()
		}
		for _, m := range victims {
			if err := m.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		w.Await(fmt.Sprintf("%d killed machines are replaced", len(victims)), func() error {
			ids, err := w.ListRecords()
			if err != nil {
				return err
			}
			for _, m := range victims {
				if slices.Contains(ids, m.ID) {
					return fmt.Errorf("%s still has a record", m.ID)
				}
			}
			return w.Settled(Group, few, time.Time{})
		})
	}
	w.sound(few+1, seen())
}
