package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

// TestS16_AChainOfReplacementsOutlivesItsMiddle: the second of three ends before the first one
// may. The third still stands for the first under the next leader: nobody else is made
// in its place, and none of the two is one too many.
func TestS16_AChainOfReplacementsOutlivesItsMiddle(t *testing.T) {
	cases := []struct {
		name   string
		middle string // what is left of it when the next leader comes
		cloud  drivertest.Conditions
	}{
		{"its VM is there", "deleting", drivertest.Conditions{DeleteTime: 10 * time.Minute}},
		{"its tombstone is there", "gone", drivertest.Conditions{ListLag: time.Second, GetLag: time.Second}},
		{"nothing is left of it", "", drivertest.Conditions{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.cloud.BootTime = time.Minute
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: c.cloud}})
				defer w.close()
				w.lead()
				middle := w.losesItsMiddle()
				if got := w.remainsOf(middle); got != c.middle {
					t.Fatalf("the one in the middle is %q, want %q", got, c.middle)
				}
				if err := w.stop(); err != nil {
					t.Fatal(err)
				}
				w.lead()
				w.settle(15 * time.Minute)
				w.wantTypes("large")
				w.converged(1)
				if made := w.cloud.Created(); made != 3 {
					t.Errorf("%d machines were made, want the three of the chain", made)
				}
			})
		})
	}
}

// losesItsMiddle brings a group of one to the point where its machine is outdated,
// the one that was to take its place is ended by a caller, and the one that was to
// take that one's place boots. It returns the one in the middle.
func (w *world) losesItsMiddle() identity.ID {
	w.t.Helper()
	w.scale(web, 1)
	w.settle(5 * time.Minute)
	w.reconfigure(large(w.opts))
	w.settle(10 * time.Second)
	middle := w.vms(web)[1].InstanceID
	w.cloud.SetStatus(middle, driver.Stopped)
	w.settle(31 * time.Second)
	w.deleteInstance(middle.String(), false)
	w.settle(5 * time.Second)
	return middle
}

// remainsOf is what storage says of an instance that a caller has ended; empty:
// nothing.
func (w *world) remainsOf(id identity.ID) string {
	w.t.Helper()
	for _, rec := range w.records() {
		switch {
		case rec.ID != id:
		case rec.Deletion == nil:
			return string(rec.Status)
		case rec.Deletion.GoneAt.IsZero():
			return "deleting"
		default:
			return "gone"
		}
	}
	return ""
}
