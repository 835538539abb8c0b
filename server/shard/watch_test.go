package shard

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/events"
	"nstance.dev/server/groups"
)

// watched is what one watcher has received.
type watched[T any] struct {
	events []T
	ended  chan error
	cancel context.CancelFunc
}

// follow starts a watcher that reads at once.
func followed[T any](w *world, watch func(ctx context.Context, send func(T) error) error) *watched[T] {
	ctx, cancel := context.WithCancel(w.ctx)
	out := &watched[T]{ended: make(chan error, 1), cancel: cancel}
	go func() {
		out.ended <- watch(ctx, func(ev T) error {
			out.events = append(out.events, ev)
			return nil
		})
	}()
	synctest.Wait()
	return out
}

func (w *world) watchInstances(tenant string) *watched[*events.Instance] {
	r := w.term()
	return followed(w, func(ctx context.Context, send func(*events.Instance) error) error {
		return r.events.WatchInstances(ctx, tenant, send)
	})
}

func (w *world) watchGroups(tenant string) *watched[*events.Group] {
	r := w.term()
	return followed(w, func(ctx context.Context, send func(*events.Group) error) error {
		return r.events.WatchGroups(ctx, tenant, send)
	})
}

// statuses are the events of one instance, in order.
func statuses(events []*events.Instance, id string) []string {
	var all []string
	for _, ev := range events {
		if ev.Instance.ID.String() == id {
			all = append(all, ev.Status)
		}
	}
	return all
}

// TestS17_DeletedStaysDeletedAfterATakeOver: the record of an ended instance stands
// for a while longer where the provider lags, and the next leader knows what it is.
func TestS17_DeletedStaysDeletedAfterATakeOver(t *testing.T) {
	lag := drivertest.Conditions{ListLag: 10 * time.Second, GetLag: 10 * time.Second}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: lag}}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		id := w.vms(web)[0].InstanceID
		w.scale(web, 0)
		w.settle(30 * time.Second)
		if st, err := w.term().planner.status.GetInstance("default", id.String()); err != nil || st.Status != "terminated" {
			t.Fatalf("status %v, %v; want terminated", st, err)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.lead()
		watch := w.watchInstances("default")
		w.settle(30 * time.Second)
		watch.cancel()
		<-watch.ended
		if got := statuses(watch.events, id.String()); len(got) > 0 {
			t.Errorf("the next leader says %q of a deleted instance", got)
		}
		if n := len(w.records()); n != 1 {
			t.Errorf("%d records stand, want the tombstone", n)
		}
		w.settle(2 * time.Minute)
		if n := len(w.records()); n != 0 {
			t.Errorf("%d records stand when the tombstone's time is over", n)
		}
	})
}

func TestS17_InstanceEventsInOrder(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		watch, foreign := w.watchInstances("default"), w.watchInstances("b")
		w.scale(web, 1)
		w.settle(40 * time.Second)
		id := w.vms(web)[0].InstanceID.String()
		w.scale(web, 0)
		w.settle(time.Second)
		watch.cancel()
		if err := <-watch.ended; err != nil {
			t.Errorf("watch ended with %v", err)
		}
		if first := watch.events[0].Status; first != "snapshot_end" {
			t.Errorf("first event %q, want snapshot_end", first)
		}
		want := []string{"created", "registered", "pending_deletion", "deleting", "deleted"}
		if got := statuses(watch.events, id); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		var last int64
		beats := 0
		for _, ev := range watch.events {
			if ev.Status == "heartbeat" {
				beats++
			}
			if ev.Instance.ID.String() == id {
				if ev.Instance.Revision <= last {
					t.Errorf("revision %d of %q after %d", ev.Instance.Revision, ev.Status, last)
				}
				last = ev.Instance.Revision
			}
		}
		if beats != 2 {
			t.Errorf("%d heartbeats in 41s, want 2", beats)
		}
		for _, ev := range foreign.events {
			if ev.Instance.ID != "" {
				t.Errorf("S12: tenant b was told of %s", ev.Instance.ID)
			}
		}
	})
}

// TestS17_EventsCarryTheWholeInstance: who follows events needs no list to know what an
// instance is. What is sent with an event is what a list says at that revision.
func TestS17_EventsCarryTheWholeInstance(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		watch := w.watchInstances("default")
		w.scale(web, 1)
		w.settle(40 * time.Second)
		id := w.vms(web)[0].InstanceID.String()
		listed, err := w.term().planner.status.GetInstance("default", id)
		if err != nil {
			t.Fatal(err)
		}
		w.scale(web, 0)
		w.settle(time.Second)
		watch.cancel()
		<-watch.ended
		for _, ev := range watch.events {
			said := ev.Instance
			if said.ID.String() != id || ev.Status == "deleted" {
				continue
			}
			if said.Group != web || said.Created.IsZero() {
				t.Errorf("%s with %v", ev.Status, said)
			}
			if leaving := ev.Status == "pending_deletion" || ev.Status == "deleting"; leaving != (said.Removal.Reason != "") {
				t.Errorf("%s with removal %v", ev.Status, said.Removal)
			}
			if !said.LastSeen.IsZero() && said.LastSeen.Before(said.Created) {
				t.Errorf("%s: last seen at %v, before it was made", ev.Status, said.LastSeen)
			}
			if said.Revision != listed.Revision {
				continue
			}
			same := listed     // but for what reports and listings change, which are no events,
			same.Details = nil // and what is said of one instance alone
			same.LastSeen, same.ProviderSeenAt, same.ProviderStatus = said.LastSeen, said.ProviderSeenAt, said.ProviderStatus
			if diff := cmp.Diff(same, said); ev.Status != "registered" || diff != "" {
				t.Errorf("%s is not what a list says (-list +event):\n%s", ev.Status, diff)
			}
		}
		if n := len(statuses(watch.events, id)); n != 5 {
			t.Errorf("%d events, want 5", n)
		}
	})
}

func TestS17_SnapshotHoldsWhatIsLeaving(t *testing.T) {
	inWorld(t, worldOptions{Drain: "5m"}, func(t *testing.T, w *world) {
		w.coordinate("default")
		coordinator := w.watchInstances("default")
		w.scale(web, 2)
		w.settle(time.Minute)
		w.scale(web, 1)
		w.settle(time.Second)
		before := coordinator.events[len(coordinator.events)-1]
		if before.Status != "pending_deletion" || time.Until(before.Instance.Removal.DeleteAt) != 5*time.Minute-time.Second {
			t.Fatalf("last event %v, want a removal that waits for 5m", before)
		}
		late := w.watchInstances("default")
		if got := statuses(late.events, before.Instance.ID.String()); !slices.Equal(got, []string{"pending_deletion"}) {
			t.Errorf("snapshot %q, want pending_deletion", got)
		}
		w.stop()
		w.lead()
		next := w.watchInstances("default")
		if got := next.events[0]; got.Instance.ID != before.Instance.ID || got.Instance.Revision <= before.Instance.Revision {
			t.Errorf("after a take-over %v, want the same removal with a later revision than %d", got, before.Instance.Revision)
		}
	})
}

func TestWatchGroups(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		watch, foreign := w.watchGroups("default"), w.watchGroups("b")
		if len(watch.events) != 1 || watch.events[0].Group.Key != "web" || watch.events[0].Group.Actual != 1 {
			t.Fatalf("snapshot %v, want the group web", watch.events)
		}
		w.scale(web, 2)
		w.settle(time.Minute)
		last := watch.events[len(watch.events)-1]
		if last.Gone || last.Group.Size != 2 {
			t.Errorf("last event %v, want the new size", last)
		}
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		last = watch.events[len(watch.events)-1]
		if !last.Gone || last.Group.Key != "web" {
			t.Errorf("last event %v, want that the group is gone", last)
		}
		if len(foreign.events) > 0 {
			t.Errorf("S12: tenant b was told %v", foreign.events)
		}
	})
}

// TestS17_RecordThatComesBackIsRemoved: a write whose answer was lost may take effect
// after the instance has ended.
func TestS17_RecordThatComesBackIsRemoved(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Second)
		key := w.records()[0].Key()
		first, err := w.store.Get(w.ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		w.scale(web, 0)
		w.settle(10 * time.Second)
		if _, err := w.store.PutIfAbsent(w.ctx, key, first.Data); err != nil {
			t.Fatal(err)
		}
		w.settle(10 * time.Minute)
		if n := len(w.records()); n != 0 {
			t.Errorf("%d records stand, want none", n)
		}
	})
}
