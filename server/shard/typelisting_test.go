package shard

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/catalog"
	"nstance.dev/server/driver"
	"nstance.dev/server/events"
)

// typedDriver is a cloud that lists its machine types.
type typedDriver struct {
	mortalDriver
	*listing
}

// listing is what the cloud says of its types, once it can be reached.
type listing struct {
	types  []driver.InstanceType
	refuse int // so many calls fail first
	calls  int
}

func (l *listing) InstanceTypes(context.Context) ([]driver.InstanceType, error) {
	if l.calls++; l.calls <= l.refuse {
		return nil, driver.Fail(driver.Transient, "instance-types", context.DeadlineExceeded)
	}
	return l.types, nil
}

func TestGroupsSayWhatTheirMachinesOffer(t *testing.T) {
	types := &listing{refuse: 2, types: []driver.InstanceType{{Name: "small", VCPU: 4, MemoryMiB: 16384, GPUs: 1, GPUModel: "T4"}}}
	inWorld(t, worldOptions{Types: types}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(20 * time.Second)
		if g := w.term().planner.status.ListGroups("default")[0]; g.Offer != (catalog.Offer{}) {
			t.Fatalf("%+v of types that nobody knows", g.Offer)
		}
		watch := w.watchGroups("default")
		w.settle(2 * time.Minute)
		last := watch.events[len(watch.events)-1].Group
		want := catalog.Offer{VCPU: 4, MemoryMiB: 16384, GPUs: 1, GPUModel: "T4"}
		if diff := cmp.Diff(want, last.Offer); diff != "" {
			t.Errorf("offer in the last event (-want +got):\n%s", diff)
		}
		w.settle(24 * time.Hour)
		if types.calls < 4 || types.calls > 6 {
			t.Errorf("%d listings in a day, want two that fail and one in twelve hours", types.calls)
		}
	})
}

// TestWatchersSeeAReload: a group that an edit of the configuration adds, changes or
// removes is told to those who watch, who may have machines to count on it.
func TestWatchersSeeAReload(t *testing.T) {
	static := func(groups string) worldOptions { return worldOptions{Groups: groups} }
	inWorld(t, static(`{"default": {"stays": {"template": "plain", "size": 1}, "goes": {"template": "plain", "size": 0}}}`), func(t *testing.T, w *world) {
		w.settle(time.Minute)
		watch := w.watchGroups("default")
		seen := len(watch.events)
		w.reconfigure(static(`{"default": {"stays": {"template": "plain", "size": 1}, "comes": {"template": "plain", "size": 2}}}`))
		w.settle(time.Minute)
		told := map[string]*events.Group{}
		for _, ev := range watch.events[seen:] {
			told[ev.Group.Key] = ev
		}
		if ev := told["comes"]; ev == nil || ev.Gone || ev.Group.Size != 2 || !ev.Group.Static {
			t.Errorf("of a new group %v was told, want size 2", ev)
		}
		if ev := told["goes"]; ev == nil {
			t.Error("nothing was told of a group that is no longer configured")
		}
		if ev := told["stays"]; ev != nil {
			t.Errorf("of a group that did not change %v was told", ev)
		}
	})
}
