package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

func TestF20_LaggingList(t *testing.T) {
	lag := drivertest.Conditions{ListLag: time.Minute, GetLag: time.Minute, BootTime: 30 * time.Second}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: lag}}, func(t *testing.T, w *world) {
		w.scale(web, 5)
		w.settle(10 * time.Minute)
		w.converged(5)
		w.stop()
		w.lead()
		w.settle(10 * time.Minute)
		w.converged(5)
		if made := w.cloud.Created(); made != 5 {
			t.Errorf("%d machines were made, want 5", made)
		}
		w.scale(web, 0)
		w.settle(time.Hour)
		w.converged(0)
	})
}

func TestF21_EmptyListDeletesNothing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 8)
		w.settle(time.Minute)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fault{Empty: true}))
		w.settle(10 * time.Minute)
		w.scale(web, 6)
		w.settle(time.Minute)
		if n := w.count(drivertest.OpDelete); n > 0 {
			t.Errorf("%d deletes were sent on the word of an empty list", n)
		}
		if made := w.cloud.Created(); made != 8 {
			t.Errorf("%d machines were made, want 8", made)
		}
		w.cloud.SetFaults(nil)
		w.settle(2 * time.Minute)
		w.converged(6)
	})
}

func TestF21_EmptyListAtTakeOver(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 8)
		w.settle(time.Minute)
		w.stop()
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fault{Empty: true}))
		w.lead()
		w.settle(10 * time.Minute)
		if n, made := w.count(drivertest.OpDelete), w.cloud.Created(); n > 0 || made != 8 {
			t.Errorf("%d deletes and %d creates, want 0 and 8", n, made)
		}
		w.cloud.SetFaults(nil)
		w.settle(2 * time.Minute)
		w.converged(8)
	})
}

func TestF21_EmptyListAndSilentAgents(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 8)
		w.settle(65 * time.Second)
		for _, in := range w.members(web) {
			w.machine(in.ID).silence()
		}
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fault{Empty: true}))
		w.settle(30 * time.Minute)
		if n := w.count(drivertest.OpDelete); n > 0 {
			t.Errorf("%d deletes were sent on the word of an empty list", n)
		}
	})
}

func TestF22_TakeOverWaitsForAListing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		w.stop()
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fail(driver.Transient)))
		w.start()
		w.settle(30 * time.Second)
		if _, err := w.shard().Term(); err == nil {
			t.Error("it serves without having seen the provider's machines")
		}
		w.cloud.SetFaults(nil)
		w.serving()
		w.settle(time.Minute)
		w.converged(3)
	})
}

func TestF22_ListFailsOnALaterPage(t *testing.T) {
	inWorld(t, worldOptions{Cloud: drivertest.Options{PageSize: 2}}, func(t *testing.T, w *world) {
		w.scale(web, 9)
		w.settle(time.Minute)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fault{FailPage: 3}))
		w.settle(10 * time.Minute)
		if n, made := w.count(drivertest.OpDelete), w.cloud.Created(); n > 0 || made != 9 {
			t.Errorf("%d deletes and %d creates, want 0 and 9", n, made)
		}
	})
}

func TestF27_DeleteTakesTwentyMinutes(t *testing.T) {
	slow := drivertest.Conditions{DeleteTime: 20 * time.Minute}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: slow}}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		w.scale(web, 1)
		w.settle(5 * time.Minute)
		if n := w.count(drivertest.OpDelete); n != 2 {
			t.Errorf("%d delete calls for two machines", n)
		}
		w.scale(web, 2)
		w.settle(time.Minute)
		if made := w.cloud.Created(); made != 4 {
			t.Errorf("%d machines were made, want 4: those being deleted are no capacity", made)
		}
		w.settle(30 * time.Minute)
		w.converged(2)
		if n := w.count(drivertest.OpDelete); n > 6 {
			t.Errorf("%d delete calls for two machines", n)
		}
	})
}

// TestS21_ManySlowDeletesLeaveRoomForQuestions: hundreds of machines take their time
// to go; one that dies meanwhile is asked about and replaced as if there were none.
func TestS21_L7_ManySlowDeletesLeaveRoomForQuestions(t *testing.T) {
	limits := driver.Limits{Reads: driver.Bucket{Rate: 5, Burst: 5}}
	inWorld(t, worldOptions{Interval: "1m", Cloud: drivertest.Options{Limits: limits, Enforce: true}}, func(t *testing.T, w *world) {
		w.scale(web, 120)
		w.scale(other, 3)
		w.settle(2 * time.Minute)
		w.cloud.SetConditions(drivertest.Conditions{DeleteTime: 8 * time.Minute})
		w.scale(web, 0)
		w.settle(3 * time.Minute)
		before := w.cloud.Created()
		w.cloud.Kill(w.vms(other)[0].InstanceID)
		w.settle(2 * time.Second)
		if made := w.cloud.Created() - before; made != 1 {
			t.Errorf("%d machines were made within two seconds of a death, want 1", made)
		}
		w.settle(20 * time.Minute)
		w.converged(3)
	})
}

func TestF29_ForeignMachineIsHeld(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		stranger, err := w.ids.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		w.cloud.Plant(testOwner, stranger.String())
		w.cloud.Plant(testOwner, "not an id")
		w.cloud.Plant(driver.Owner{Cluster: testCluster, Shard: "s2"}, "of another shard")
		w.scale(web, 1)
		w.settle(2 * time.Hour)
		if n := len(w.cloud.Machines()); n != 4 {
			t.Errorf("%d machines, want 4: strangers are never deleted", n)
		}
		if held := w.term().Unmanaged(); len(held) != 2 {
			t.Errorf("held: %v, want the two that carry our tags", held)
		}
		w.stop()
		w.lead()
		w.settle(time.Hour)
		if n, held := w.count(drivertest.OpDelete), w.term().Unmanaged(); n > 0 || len(held) != 2 {
			t.Errorf("after a take-over: %d deletes, held %v", n, held)
		}
	})
}

func TestF11_RecordDeletedByHandHoldsTheMachine(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		rec := w.records()[0]
		w.stop()
		w.remove(rec.Key())
		w.lead()
		w.settle(time.Hour)
		if _, there := w.cloud.Machine(rec.ID); !there {
			t.Error("a machine without a record was deleted")
		}
		if held := w.term().Unmanaged(); len(held) != 1 || held[0].VM.ID != rec.ID {
			t.Errorf("held: %v, want %s", held, rec.ID)
		}
	})
}

func TestL5_OrphanIsRemoved(t *testing.T) {
	lag := drivertest.Conditions{ListLag: 10 * time.Second, GetLag: 10 * time.Second}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: lag}}, func(t *testing.T, w *world) {
		// The create arrives after its instance was given up and deleted.
		w.cloud.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.Fault{Late: 40 * time.Second}))
		w.scale(web, 1)
		w.settle(100 * time.Millisecond)
		w.scale(web, 0)
		w.settle(10 * time.Minute)
		w.converged(0)
	})
}

func TestS16_TakeOverKnowsTheSameInstances(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Minute)
		w.scale(web, 3)
		w.settle(time.Minute)
		before := w.members(web)
		w.stop()
		w.lead()
		w.settle(time.Minute)
		after := w.members(web)
		ignore := cmpopts.IgnoreFields(cache.Instance{}, "Revision", "ProviderSeenAt", "Overrides")
		if diff := cmp.Diff(before, after, ignore); diff != "" {
			t.Errorf("instances differ (-before +after):\n%s", diff)
		}
	})
}

// TestS8_MassLoss: twenty machines really are gone. That takes a second listing
// and a Get each to believe, and they are replaced a few a minute.
func TestS8_MassLoss(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 25)
		w.settle(6*time.Minute + 5*time.Second)
		lost := time.Now()
		for _, vm := range w.vms(web)[:20] {
			w.cloud.Remove(vm.InstanceID)
		}
		w.settle(25 * time.Second)
		if made := w.cloud.Created(); made != 25 {
			t.Errorf("%d machines made before a second listing, want 25", made)
		}
		w.settle(10 * time.Minute)
		w.converged(25)
		w.wantReplacements(lost, 20)
	})
}

// The bound is the shard's, however many groups have lost something.
func TestS8_MassLossInManyGroups(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		for i := range 12 {
			w.scale(fleet.GroupID{Tenant: "default", Name: fmt.Sprintf("g%d", i)}, 3)
		}
		w.settle(6*time.Minute + 5*time.Second)
		lost := time.Now()
		for _, vm := range w.cloud.Machines() {
			w.cloud.Remove(vm.InstanceID)
		}
		w.settle(20 * time.Minute)
		w.converged(36)
		w.wantReplacements(lost, 36)
	})
}

// wantReplacements checks that so many machines were asked for since a mass loss, and
// at most ten of them in a minute.
func (w *world) wantReplacements(lost time.Time, n int) {
	w.t.Helper()
	var times []time.Time
	for _, at := range w.createTimes() {
		if at.After(lost) {
			times = append(times, at)
		}
	}
	if len(times) != n {
		w.t.Errorf("%d creates for %d lost machines", len(times), n)
	}
	for i := 10; i < len(times); i++ {
		if span := times[i].Sub(times[i-10]); span < time.Minute {
			w.t.Errorf("11 replacements within %v, at most 10 a minute are allowed", span)
		}
	}
}

// A listing that lacks many machines holds the deletes of all tenants, and tells
// none of them how many machines the others have.
func TestS12_HeldDeletesCountNobodysMachines(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 25)
		w.scale(theirs, 2)
		w.settle(6*time.Minute + 5*time.Second)
		for _, vm := range w.vms(web)[:20] {
			w.cloud.Remove(vm.InstanceID)
		}
		w.settle(25 * time.Second)
		w.scale(theirs, 1)
		w.settle(time.Second)
		told := w.asked(theirs)
		if !slices.ContainsFunc(told.Conditions, func(c explain.Condition) bool {
			return strings.Contains(c.Message, "the provider's listing lacks many machines at once")
		}) {
			t.Errorf("the deletes are not held: %v", told)
		}
		if got := types(told.Conditions); !slices.Contains(got, "listing") || slices.Contains(got, "held") {
			t.Errorf("conditions %v: it is the listing that is not known, not the group", got)
		}
		for _, foreign := range []string{"20 of", "of 25", "of 27"} {
			for _, c := range told.Conditions {
				if strings.Contains(c.Message, foreign) {
					t.Errorf("S12: a condition of another tenant's group counts machines: %s", c.Message)
				}
			}
			for _, d := range told.Next {
				if strings.Contains(d.Reason+d.BlockedWhy, foreign) {
					t.Errorf("S12: a decision about another tenant's group counts machines: %v", d)
				}
			}
		}
	})
}

// TestF20_F2_ListingIsAsOldAsItsQuestion: a group grows while a listing is on its way.
// What was made meanwhile is not missing, and nothing is held back.
func TestF20_F2_ListingIsAsOldAsItsQuestion(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Minute)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fault{Linger: 4 * time.Second}))
		before := w.count(drivertest.OpList)
		for range 600 {
			if w.count(drivertest.OpList) > before {
				break
			}
			w.settle(100 * time.Millisecond)
		}
		w.settle(time.Second)
		w.scale(web, 30)
		w.settle(5 * time.Second)
		if strings.Contains(w.logs.String(), "deletes stopped") {
			t.Error("S8: machines that were made while a listing was on its way are taken for lost")
		}
		if asked := w.count(drivertest.OpGet); asked > 0 {
			t.Errorf("the provider was asked for %d machines that were just made", asked)
		}
		w.settle(time.Minute)
		w.converged(30)
	})
}

// awaitLog lets time pass until the servers have logged something, at most so long.
func (w *world) awaitLog(text string, most time.Duration) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < most; w.settle(time.Second) {
		if strings.Contains(w.logs.String(), text) {
			return
		}
	}
	w.t.Fatalf("nobody has logged %q within %v", text, most)
}

// TestS23_S8_OrphanStaysWhilePaused: the group of an orphan is paused while the delete
// waits for its token.
func TestS23_S8_OrphanStaysWhilePaused(t *testing.T) {
	lag := drivertest.Conditions{ListLag: time.Minute, GetLag: time.Minute}
	opts := worldOptions{Cloud: drivertest.Options{Conditions: lag}, Limits: `{"deletes": {"rate": 0.02, "burst": 2}}`}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.scale(other, 6)
		w.settle(3 * time.Minute)
		id := w.vms(web)[0].InstanceID
		w.scale(web, 0)
		w.settle(3 * time.Minute)
		orphan := w.cloud.Plant(testOwner, id.String())
		w.settle(30 * time.Second)
		w.scale(other, 0) // takes the tokens of the next minutes
		w.awaitLog("deleting leftover machine of an ended instance", 3*time.Minute)
		sent := func() bool {
			return slices.ContainsFunc(w.cloud.Calls(), func(c drivertest.Call) bool {
				return c.Op == drivertest.OpDelete && c.Ref.ProviderID == orphan
			})
		}
		if sent() {
			t.Fatal("the delete of the orphan did not have to wait")
		}
		w.settle(3 * time.Minute) // several passes see it
		n := 0
		for line := range strings.Lines(w.logs.String()) {
			if strings.Contains(line, "deleting leftover machine of an ended instance") && strings.Contains(line, "provider_id="+orphan) {
				n++
			}
		}
		if n != 1 || sent() {
			t.Errorf("%d deletes of the orphan wait or were sent (%v), want one that waits", n, sent())
		}
		w.pauseScope("group", "web", 0)
		w.settle(4 * time.Minute)
		if sent() {
			t.Error("S23: an orphan was deleted while its group was paused")
		}
	})
}

// TestAPassIsOneListing: machines that run are not asked about one by one, however many
// there are.
func TestAPassIsOneListing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 30)
		w.settle(10 * time.Minute)
		w.converged(30)
		lists, gets := w.count(drivertest.OpList), w.count(drivertest.OpGet)
		w.settle(time.Hour)
		passes := int(time.Hour / w.term().planner.groups.Config().Server.GarbageCollection.Interval.Std())
		if n := w.count(drivertest.OpList) - lists; n < passes-1 || n > passes+1 {
			t.Errorf("%d listings in %d passes", n, passes)
		}
		if n := w.count(drivertest.OpGet) - gets; n > 0 {
			t.Errorf("%d machines were asked about beside that", n)
		}
	})
}

// TestTagsOfAGroupDecideNothing: whose a machine is, its record says. Tags that somebody
// edits at the provider neither move it nor end it, under this leader and the next.
func TestTagsOfAGroupDecideNothing(t *testing.T) {
	db := fleet.GroupID{Tenant: "default", Name: "db"}
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.scale(db, 1)
		w.settle(5 * time.Minute)
		for i, vm := range w.vms(web) {
			tags := [][3]string{{"default", "db", "plain"}, {"b", "web", "bare"}, {"", "", ""}}[i]
			if !w.cloud.Retag(vm.InstanceID, tags[0], tags[1], tags[2]) {
				t.Fatalf("%s is not there", vm.InstanceID)
			}
		}
		for range 2 {
			w.settle(time.Hour)
			w.converged(4)
			if n, m := len(w.members(web)), len(w.members(db)); n != 3 || m != 1 {
				t.Errorf("%d and %d instances in the groups, want 3 and 1", n, m)
			}
			w.stop()
			w.lead()
		}
		w.settle(time.Minute)
		if made := w.cloud.Created(); made != 4 {
			t.Errorf("%d machines were made, want 4", made)
		}
	})
}
