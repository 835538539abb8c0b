package shard

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
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

func (w *world) watchInstances(tenant string) *watched[*nstancev1.InstanceEvent] {
	r := w.reign()
	return followed(w, func(ctx context.Context, send func(*nstancev1.InstanceEvent) error) error {
		return r.WatchInstances(ctx, tenant, send)
	})
}

func (w *world) watchGroups(tenant string) *watched[*nstancev1.GroupEvent] {
	r := w.reign()
	return followed(w, func(ctx context.Context, send func(*nstancev1.GroupEvent) error) error {
		return r.WatchGroups(ctx, tenant, send)
	})
}

// statuses are the events of one instance, in order.
func statuses(events []*nstancev1.InstanceEvent, id string) []string {
	var all []string
	for _, ev := range events {
		if ev.InstanceId == id {
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
		if st, err := w.reign().GetInstance("default", id.String()); err != nil || st.Status != "terminated" {
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
			if ev.InstanceId == id {
				if ev.Revision <= last {
					t.Errorf("revision %d of %q after %d", ev.Revision, ev.Status, last)
				}
				last = ev.Revision
			}
		}
		if beats != 2 {
			t.Errorf("%d heartbeats in 41s, want 2", beats)
		}
		for _, ev := range foreign.events {
			if ev.InstanceId != "" {
				t.Errorf("S12: tenant b was told of %s", ev.InstanceId)
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
		listed, err := w.reign().GetInstance("default", id)
		if err != nil {
			t.Fatal(err)
		}
		w.scale(web, 0)
		w.settle(time.Second)
		watch.cancel()
		<-watch.ended
		for _, ev := range watch.events {
			if ev.InstanceId != id {
				continue
			}
			said := ev.GetInstance()
			if ev.Status == "deleted" {
				if said != nil {
					t.Errorf("deleted, and described as %v", said)
				}
				continue
			}
			if said.GetInstanceId() != id || said.GetTenant() != "default" || said.GetGroup() != ev.Group || said.GetRevision() != ev.Revision || said.GetCreatedAt() == nil {
				t.Errorf("%s with %v", ev.Status, said)
			}
			if leaving := ev.Status == "pending_deletion" || ev.Status == "deleting"; leaving != (said.GetCondemned() != nil) {
				t.Errorf("%s with condemned %v", ev.Status, said.GetCondemned())
			}
			if said.GetLastSeen() != nil && said.GetLastSeen().AsTime().Before(said.GetCreatedAt().AsTime()) {
				t.Errorf("%s: last seen at %v, before it was made", ev.Status, said.GetLastSeen().AsTime())
			}
			listed.LastSeen = said.GetLastSeen() // reports change it, and are no events
			if ev.Revision == listed.Revision && (ev.Status != "registered" || !proto.Equal(said, listed)) {
				t.Errorf("%s says\n%v, and a list\n%v", ev.Status, said, listed)
			}
		}
		if n := len(statuses(watch.events, id)); n != 5 {
			t.Errorf("%d events, want 5", n)
		}
	})
}

// TestO5_HeartbeatsTellOfAnotherConfiguration: with the heartbeat after a reload a watcher
// knows that its tenant's part of the configuration is another one.
func TestO5_HeartbeatsTellOfAnotherConfiguration(t *testing.T) {
	opts := worldOptions{}
	inWorld(t, opts, func(t *testing.T, w *world) {
		digest := func(ev *nstancev1.InstanceEvent) string { return ev.ConfigDigest }
		watch := w.watchInstances("default")
		before := w.reign().ConfigDigest("default")
		w.settle(heartbeat + time.Second)
		if last := watch.events[len(watch.events)-1]; last.Status != "heartbeat" || digest(last) != before || before == "" {
			t.Fatalf("the first heartbeat is %v, want digest %q", last, before)
		}
		w.reconfigure(large(opts))
		w.settle(heartbeat)
		last := watch.events[len(watch.events)-1]
		if after := w.reign().ConfigDigest("default"); last.Status != "heartbeat" || digest(last) != after || after == before {
			t.Errorf("after the reload: %v, want another digest than %q", last, before)
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
		if before.Status != "pending_deletion" || time.Until(before.DeleteAt.AsTime()) != 5*time.Minute-time.Second {
			t.Fatalf("last event %v, want a removal that waits for 5m", before)
		}
		late := w.watchInstances("default")
		if got := statuses(late.events, before.InstanceId); !slices.Equal(got, []string{"pending_deletion"}) {
			t.Errorf("snapshot %q, want pending_deletion", got)
		}
		w.stop()
		w.lead()
		next := w.watchInstances("default")
		if got := next.events[0]; got.InstanceId != before.InstanceId || got.Revision <= before.Revision {
			t.Errorf("after a take-over %v, want the same removal with a later revision than %d", got, before.Revision)
		}
	})
}

func TestL11_SlowWatcherIsCutOff(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		r := w.reign()
		stuck, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- r.WatchInstances(w.ctx, "default", func(*nstancev1.InstanceEvent) error {
				<-stuck
				return nil
			})
		}()
		synctest.Wait()
		w.scale(web, 200)
		w.settle(time.Minute)
		w.converged(200) // nobody was held up
		close(stuck)
		var refused *refusal.Error
		if err := <-ended; !errors.As(err, &refused) || refused.Code != refusal.ResourceExhausted {
			t.Errorf("ended with %v, want ResourceExhausted", err)
		}
	})
}

func TestWatchGroups(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		watch, foreign := w.watchGroups("default"), w.watchGroups("b")
		if len(watch.events) != 1 || watch.events[0].Group.Key != "web" || watch.events[0].Group.ActualSize != 1 {
			t.Fatalf("snapshot %v, want the group web", watch.events)
		}
		w.scale(web, 2)
		w.settle(time.Minute)
		last := watch.events[len(watch.events)-1]
		if last.Type != "UPSERT" || last.Group.Size != 2 {
			t.Errorf("last event %v, want the new size", last)
		}
		if err := w.reign().DeleteGroup(w.ctx, "default", &nstancev1.DeleteGroupRequest{Key: "web"}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		last = watch.events[len(watch.events)-1]
		if last.Type != "DELETE" || last.Group.Key != "web" {
			t.Errorf("last event %v, want that the group is gone", last)
		}
		if len(foreign.events) > 0 {
			t.Errorf("S12: tenant b was told %v", foreign.events)
		}
	})
}

func TestWatchEndsWithTheReign(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		watch := w.watchInstances("default")
		w.stop()
		if err := <-watch.ended; !refusedWith(err, refusal.Unavailable) {
			t.Errorf("ended with %v, want Unavailable", err)
		}
	})
}

func TestHub(t *testing.T) {
	var h hub[int]
	a, b := h.subscribe("a"), h.subscribe("b")
	h.publish("a", 1)
	h.publish("b", 2)
	if len(a.queue) != 1 || len(b.queue) != 1 || <-a.queue != 1 || <-b.queue != 2 {
		t.Error("events went to the wrong tenants")
	}
	for i := range watchQueue {
		h.publish("a", i)
	}
	if len(a.queue) != watchQueue || a.why != nil {
		t.Errorf("%d events wait, %v", len(a.queue), a.why)
	}
	h.publish("a", 0)
	for range watchQueue {
		<-a.queue
	}
	if _, open := <-a.queue; open || !errors.Is(a.why, errWatcherSlow) {
		t.Errorf("after one event too many: open %v, %v", open, a.why)
	}
	h.unsubscribe(a) // may come late
	h.close()
	if _, open := <-b.queue; open || !errors.Is(b.why, errReignOver) {
		t.Errorf("after the end: open %v, %v", open, b.why)
	}
	if late := h.subscribe("a"); !errors.Is(late.why, errReignOver) {
		t.Errorf("subscribed after the end: %v", late.why)
	}
	h.publish("a", 1)
}

func TestWatchErrors(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		r := w.reign()
		watch := followed(w, func(ctx context.Context, send func(*nstancev1.ErrorEvent) error) error {
			return r.WatchErrors(ctx, "default", send)
		})
		r.events.failure(r.cache, web, "", "quota", "no more", time.Now())
		r.events.failure(r.cache, fleet.GroupID{Tenant: "b", Name: "web"}, "", "quota", "no more", time.Now())
		synctest.Wait()
		if len(watch.events) != 1 || watch.events[0].Class != "quota" || watch.events[0].GetGroup() != "web" {
			t.Errorf("events %v, want one", watch.events)
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
