package removal

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
)

// TestS4_ARecordGoesAfterItsMachine: the decision is durable before the delete, and the record
// stands until the provider says that the machine is gone.
func TestS4_ARecordGoesAfterItsMachine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cloud.SetConditions(drivertest.Conditions{DeleteTime: time.Minute})
		id := w.running(nil)
		w.end(id)
		pass(50 * time.Second)
		if rec, stands := w.stored(id); !stands || rec.Deletion == nil || w.stateOf(id) != fleet.Deleting {
			t.Errorf("while its machine is deleted: stands is %t, deletion %v, %s", stands, rec.Deletion, w.stateOf(id))
		}
		pass(20 * time.Second)
		if _, stands := w.stored(id); stands || w.stateOf(id) != fleet.Deleted || w.deletes() != 1 {
			t.Errorf("at the end: stands is %t, %s, %d deletes", stands, w.stateOf(id), w.deletes())
		}
		if !slices.Equal(w.heard(&w.statuses), []string{"deleting"}) {
			t.Errorf("watchers heard %v", w.heard(&w.statuses))
		}
	})
}

// TestS15_AnInstanceThatIsCondemnedOnRecordGoes: its row lags behind the record, and a plan
// repeats the decision. No bound on decisions stands in the way of one that is durable already;
// the plan would repeat it without an end.
func TestS15_AnInstanceThatIsCondemnedOnRecordGoes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		late := w.running(nil)
		for range 10 { // the bound of the minute is used up
			_ = w.Condemn(w.ctx, fleet.Condemn{ID: w.running(nil), Reason: fleet.ReasonGroupDeleted})
		}
		rec, _ := w.instances.Record(late)
		rec.Status = layout.StatusDeleting
		rec.Deletion = &layout.Deletion{Reason: string(fleet.ReasonGroupDeleted), RequestedAt: layout.At(time.Now())}
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		stored, err := w.objects.Get(t.Context(), rec.Key())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.objects.PutIfMatch(t.Context(), rec.Key(), data, stored.ETag); err != nil {
			t.Fatal(err)
		}
		if _, stands := w.stored(late); !stands || w.stateOf(late) != fleet.Running {
			t.Fatalf("the row is %s before anybody has followed the record", w.stateOf(late))
		}
		if err := w.Condemn(w.ctx, fleet.Condemn{ID: late, Reason: fleet.ReasonGroupDeleted}); err != nil || w.stateOf(late) != fleet.Condemned {
			t.Errorf("it is %s, error %v; want condemned", w.stateOf(late), err)
		}
	})
}

// TestL2_ADeleteIsRepeatedUntilItIsAccepted, and its tenant is told; one that is accepted and
// does not happen is asked for again.
func TestL2_ADeleteIsRepeatedUntilItIsAccepted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Times(2, drivertest.OpDelete, drivertest.Fail(driver.Transient)))
		w.cloud.SetConditions(drivertest.Conditions{DeleteTime: 11 * time.Minute})
		id := w.running(nil)
		w.end(id)
		pass(6 * time.Second)
		if n := w.deletes(); n != 3 || len(w.heard(&w.said)) != 2 {
			t.Errorf("%d deletes and %d errors after two failures, want 3 and 2", n, len(w.heard(&w.said)))
		}
		pass(10*time.Minute + 10*time.Second)
		if n := w.deletes(); n != 4 || len(w.heard(&w.said)) != 3 {
			t.Errorf("%d deletes and %d errors after ten minutes, want 4 and 3", n, len(w.heard(&w.said)))
		}
		pass(2 * time.Minute)
		if _, stands := w.stored(id); stands {
			t.Error("its record stands when its machine is gone")
		}
	})
}

// TestS8_S23_NoDeleteIsSentWhileDeletesAreHeld, not even one that was decided before.
func TestS8_S23_NoDeleteIsSentWhileDeletesAreHeld(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.held = true
		id := w.running(nil)
		w.end(id)
		pass(time.Hour)
		if n := w.deletes(); n != 0 {
			t.Errorf("%d deletes", n)
		}
		w.mu.Lock()
		w.held = false
		w.mu.Unlock()
		pass(2 * time.Second)
		if n := w.deletes(); n != 1 {
			t.Errorf("%d deletes afterwards, want 1", n)
		}
	})
}

// TestS4_ADeleteWaitsForTheCreate: it would overtake it.
func TestS4_ADeleteWaitsForTheCreate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.creating = make(chan struct{})
		w.end(w.running(nil))
		pass(time.Minute)
		if n := w.deletes(); n != 0 {
			t.Errorf("%d deletes while the create is under way", n)
		}
		close(w.creating)
		pass(time.Second)
		if n := w.deletes(); n != 1 {
			t.Errorf("%d deletes after it, want 1", n)
		}
	})
}

// TestS8_DeletedGroupsHaveABound: what is beyond it stays, and goes a minute later.
func TestS8_DeletedGroupsHaveABound(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var ids []identity.ID
		for range 25 {
			ids = append(ids, w.running(nil))
		}
		condemned := func() (n int) {
			for _, id := range ids {
				if w.stateOf(id) != fleet.Running { // a plan condemns nobody twice
					n++
					continue
				}
				if err := w.Condemn(w.ctx, fleet.Condemn{ID: id, Reason: fleet.ReasonGroupDeleted}); err != nil {
					t.Fatal(err)
				}
				if rec, _ := w.stored(id); rec.Deletion != nil {
					n++
				}
			}
			return n
		}
		if n := condemned(); n != 10 {
			t.Errorf("%d of 25 are condemned at once, want 10", n)
		}
		if left, next, _ := w.Budget(web, nil, time.Now()); left != 0 || !next.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("%d are left, more at %v", left, next)
		}
		pass(time.Minute)
		if n := condemned(); n != 20 {
			t.Errorf("%d of 25 are condemned a minute later, want 20", n)
		}
	})
}

// TestS8_F37_NamedAndThenTheirGroupDeleted: all objects of a cluster are deleted by mistake. Six machines are deleted by name, at once,
// and then the rest with their group: both together stay within the bound of a minute. A further one by name does not wait.
func TestS8_F37_NamedAndThenTheirGroupDeleted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		going := 0
		condemn := func(reason fleet.Reason) {
			id := w.running(nil)
			if err := w.Condemn(w.ctx, fleet.Condemn{ID: id, Reason: reason}); err != nil {
				t.Fatal(err)
			}
			if rec, _ := w.stored(id); rec.Deletion != nil {
				going++
			}
		}
		for range 6 {
			condemn(fleet.ReasonRequested)
		}
		for range 7 {
			condemn(fleet.ReasonGroupDeleted)
		}
		if going != 10 {
			t.Errorf("%d of 13 go within the minute, want 10", going)
		}
		condemn(fleet.ReasonRequested)
		if going != 11 {
			t.Error("a machine that was named waits")
		}
	})
}

// TestS8_LossesHaveABoundAfterAMassLoss.
func TestS8_LossesHaveABoundAfterAMassLoss(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lost := w.running(nil)
		if _, err := w.instances.Note(lost, func(in *cache.Instance) error { in.Power = fleet.Gone; return nil }); err != nil {
			t.Fatal(err)
		}
		if w.Losses(time.Now()).Limited || !w.MayReplace(w.running(nil)) {
			t.Error("without a loss there is a bound")
		}
		w.recovering = true
		taken := 0
		for range 15 {
			if w.MayReplace(lost) {
				taken++
			}
		}
		if b := w.Losses(time.Now()); taken != 10 || !b.Limited || b.Left != 0 {
			t.Errorf("%d of 15 are replaced at once, want 10; %+v", taken, b)
		}
		w.AfterAnother()
		if left, _, _ := w.Budget(web, nil, time.Now()); left != 0 {
			t.Errorf("%d may go in the first minute of a leader after another", left)
		}
	})
}

// TestS6_WhoHasJoinedIsNotCondemnedForNotJoining: its agent registered while that was decided.
func TestS6_WhoHasJoinedIsNotCondemnedForNotJoining(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.running(nil)
		if err := w.Condemn(w.ctx, fleet.Condemn{ID: id, Reason: fleet.ReasonRegistrationTimeout}); err != nil {
			t.Fatal(err)
		}
		if rec, _ := w.stored(id); rec.Deletion != nil {
			t.Error("it is condemned")
		}
	})
}

// TestS6_AnOldDecisionBySizeIsLookedAtAgain: writes of the record took long, and the group has
// changed meanwhile.
func TestS6_AnOldDecisionBySizeIsLookedAtAgain(t *testing.T) {
	for _, chosen := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			w.chosen = chosen
			id := w.running(nil)
			w.objects.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: 5 * time.Second} })
			go func() {
				_, _ = w.instances.Change(w.ctx, id, func(rec *layout.InstanceRecord) error { rec.Hostname = "other"; return nil })
			}()
			pass(time.Second)
			if err := w.Condemn(w.ctx, fleet.Condemn{ID: id, Reason: fleet.ReasonScaleDown}); err != nil {
				t.Fatal(err)
			}
			if rec, _ := w.instances.Record(id); (rec.Deletion != nil) != chosen {
				t.Errorf("chosen again is %t, and the deletion is %v", chosen, rec.Deletion)
			}
		})
	}
}

// TestS15_WhatACallerAsksForIsDurable: the end of an instance, that of its drain, and that
// nobody takes its removal back.
func TestS15_WhatACallerAsksForIsDurable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.drains = true
		named, sick := w.running(nil), w.running(nil)
		if err := w.Condemn(w.ctx, fleet.Condemn{ID: sick, Reason: fleet.ReasonUnhealthy}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []identity.ID{named, sick} {
			row, _ := w.rows.Instance(id)
			if err := w.CondemnNamed(row, false); err != nil {
				t.Fatal(err)
			}
		}
		rec, _ := w.stored(named)
		if d := rec.Deletion; d == nil || d.Reason != string(fleet.ReasonRequested) || !d.DeleteAt.Time.Equal(time.Now().Add(10*time.Minute)) {
			t.Fatalf("deletion %+v, want one that drains for ten minutes", d)
		}
		if err := w.ShortenDrain(w.ctx, fleet.ShortenDrain{ID: named, DeleteAt: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		if rec, _ = w.stored(named); !rec.Deletion.DeleteAt.Time.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("shortened to %v", rec.Deletion.DeleteAt)
		}
		row, _ := w.rows.Instance(named)
		if err := w.CondemnNamed(row, true); err != nil {
			t.Fatal(err)
		}
		if rec, _ = w.stored(named); rec.Deletion.DrainAckedAt.IsZero() {
			t.Error("its drain goes on")
		}
		if err := w.CancelRevocable(w.ctx); err != nil {
			t.Fatal(err)
		}
		for _, id := range []identity.ID{named, sick} {
			if rec, _ := w.stored(id); rec.Deletion == nil {
				t.Errorf("the removal of %s was taken back", id)
			}
		}
	})
}

// TestS6_ALeaderJudgesAgainWhoWasFoundSick, and nobody else.
func TestS6_ALeaderJudgesAgainWhoWasFoundSick(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		sick, small := w.running(nil), w.running(nil)
		for id, reason := range map[identity.ID]fleet.Reason{sick: fleet.ReasonUnhealthy, small: fleet.ReasonScaleDown} {
			if err := w.Condemn(w.ctx, fleet.Condemn{ID: id, Reason: reason}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.CancelRevocable(w.ctx); err != nil {
			t.Fatal(err)
		}
		if rec, _ := w.stored(sick); rec.Deletion != nil || w.stateOf(sick) != fleet.Running {
			t.Errorf("deletion %v, %s: want that it is judged again", rec.Deletion, w.stateOf(sick))
		}
		if n := strings.Count(w.logs.String(), "removal cancelled"); n != 1 || !strings.Contains(w.logs.String(), sick.String()) {
			t.Errorf("%d removals are said to be cancelled, want that of %s", n, sick)
		}
		if rec, _ := w.stored(small); rec.Deletion == nil {
			t.Error("a smaller size was taken back")
		}
	})
}

// TestS18_TheIDOfAnInstanceOnDemandIsKept: its caller may repeat a call whose answer was lost.
func TestS18_TheIDOfAnInstanceOnDemandIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.running(func(rec *layout.InstanceRecord) { rec.OnDemand = true })
		w.end(id)
		keep := min(w.cfg.Server.GarbageCollection.DeletedRecordRetention.Std(), fleet.LongestIDAge)
		pass(keep - time.Minute)
		if rec, stands := w.stored(id); !stands || rec.Deletion.GoneAt.IsZero() || w.stateOf(id) != fleet.Deleted {
			t.Errorf("stands is %t, %s", stands, w.stateOf(id))
		}
		pass(2 * time.Minute)
		if _, stands := w.stored(id); stands {
			t.Error("its record stands for ever")
		}
	})
}

// TestS18_TheRecordOfAnInstanceThatAFormerLeaderEndedGoes when its time is over, counted from
// its end.
func TestS18_TheRecordOfAnInstanceThatAFormerLeaderEndedGoes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.Server.GarbageCollection.DeletedRecordRetention = document.Duration(time.Hour)
		id := w.running(func(rec *layout.InstanceRecord) {
			rec.OnDemand, rec.Status = true, layout.StatusDeleting
			rec.Deletion = &layout.Deletion{Reason: string(fleet.ReasonRequested), RequestedAt: rec.CreatedAt, GoneAt: rec.CreatedAt}
		})
		pass(20 * time.Minute) // until the next leader takes over
		row, _ := w.rows.Instance(id)
		w.DeleteRecordLater(row)
		pass(39 * time.Minute)
		if _, stands := w.stored(id); !stands {
			t.Error("its record went before its time")
		}
		pass(2 * time.Minute)
		if _, stands := w.stored(id); stands {
			t.Error("its record stands for ever")
		}
	})
}

// TestL11_ARemovalIsAnnouncedAtOnceWithoutBalancers: there is nobody to wait for.
func TestL11_ARemovalIsAnnouncedAtOnceWithoutBalancers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Announce(w.running(nil))
		if got := strings.Join(w.heard(&w.statuses), " "); got != "pending_deletion" {
			t.Errorf("watchers heard %q", got)
		}
	})
}
