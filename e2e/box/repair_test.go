package box_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/e2e/box"
)

func TestL1_KilledMachineIsReplacedWithinThreeSeconds(t *testing.T) {
	b, _ := up(t, 3)
	peak := b.Peak()
	for range 3 {
		victim := b.Machines()[0]
		if err := victim.Signal(unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.Within(3*time.Second, "a killed machine is replaced", func() error {
			if slices.Contains(b.RecordIDs(), victim.ID) {
				return fmt.Errorf("%s still has a record", victim.ID)
			}
			return b.Settled("web", 3, time.Time{})
		})
	}
	if most := peak(); most > 4 {
		t.Errorf("%d processes at a time, and must be 4 at most", most)
	}
}

// All of them at once is no reason to do less, or more.
func TestL1_AllMachinesKilledAtOnceAreReplaced(t *testing.T) {
	b, _ := up(t, 3)
	peak := b.Peak()
	before := b.Machines()
	for _, m := range before {
		if err := m.Signal(unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	b.Within(10*time.Second, "three killed machines are replaced", func() error {
		if ids := b.RecordIDs(); slices.ContainsFunc(box.IDs(before), func(id string) bool { return slices.Contains(ids, id) }) {
			return fmt.Errorf("old records are left: %v", ids)
		}
		return b.Settled("web", 3, time.Time{})
	})
	if most := peak(); most > 4 {
		t.Errorf("%d processes at a time, and must be 4 at most", most)
	}
}
