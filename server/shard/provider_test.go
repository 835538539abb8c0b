package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
)

func TestF19_LostCreateAnswer(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"the answer is lost":       drivertest.LostAnswer(),
		"the call arrives late":    {Late: 3 * time.Second},
		"the answer never arrives": {Linger: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{Cloud: drivertest.Options{Conditions: drivertest.Conditions{BootTime: 20 * time.Second}}}, func(t *testing.T, w *world) {
				w.cloud.SetFaults(drivertest.Times(3, drivertest.OpCreate, fault))
				w.scale(web, 3)
				w.settle(5 * time.Minute)
				w.converged(3)
				if made := w.cloud.Created(); made != 3 {
					t.Errorf("%d machines were made, want 3", made)
				}
			})
		})
	}
}

// TestF19_RefusedAfterALostAnswer: that the second call had no effect does not
// say that the first one had none.
func TestF19_RefusedAfterALostAnswer(t *testing.T) {
	for _, kind := range []driver.Kind{driver.Capacity, driver.Transient} {
		t.Run(string(kind), func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.cloud.SetFaults(drivertest.Any(
					drivertest.Times(1, drivertest.OpCreate, drivertest.LostAnswer()),
					drivertest.Times(1, drivertest.OpCreate, drivertest.Fail(kind)),
				))
				w.dead.Store(true) // the answer is all that tells
				w.scale(web, 1)
				w.settle(2 * time.Second)
				w.dead.Store(false)
				w.settle(10 * time.Minute)
				w.converged(1)
			})
		})
	}
}

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
		if _, err := w.shard().Reign(); err == nil {
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

func TestF23_PartOfABatchIsRefused(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-1"}, 6)
		w.scale(web, 10)
		w.settle(time.Minute)
		w.converged(10)
		bySubnet := map[string]int{}
		for _, vm := range w.vms(web) {
			bySubnet[vm.SubnetID]++
		}
		if bySubnet["net-1"] != 6 || bySubnet["net-2"] != 4 {
			t.Errorf("machines by subnet: %v, want 6 in net-1 and 4 in net-2", bySubnet)
		}
	})
}

func TestF24_ThrottledForFiveMinutes(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 2, Burst: 5}}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Limits: limits}}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fail(driver.Throttled)))
		w.scale(web, 8)
		w.settle(5 * time.Minute)
		// The rate halves at the first complaint, and for a moment each minute.
		if n := w.count(drivertest.OpCreate); n > 5+2*5+1*300 {
			t.Errorf("S21: %d calls in 5 minutes of throttling", n)
		}
		w.cloud.SetFaults(nil)
		w.settle(time.Minute)
		w.converged(8)
		if made := w.cloud.Created(); made != 8 {
			t.Errorf("%d machines were made, want 8", made)
		}
	})
}

func TestS21_ThrottlingHalvesTheRateForAMinute(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 10, Burst: 1}}
	inWorld(t, worldOptions{DeadAgents: true, Cloud: drivertest.Options{Limits: limits}}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.Fail(driver.Throttled)))
		began := time.Now()
		w.scale(web, 600)
		w.settle(100 * time.Second)
		var first, second int
		for _, at := range w.createTimes() {
			switch since := at.Sub(began); {
			case since < 50*time.Second:
				first++
			case since >= 70*time.Second && since < 90*time.Second:
				second++
			}
		}
		if first < 240 || first > 252 || second < 195 || second > 201 {
			t.Errorf("%d calls in the first 50s and %d in 20s after the minute, want 250 and 200", first, second)
		}
	})
}

func TestF25_NoCapacityTriesTheNextSubnet(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-1"}, 0)
		w.scale(web, 1)
		w.settle(time.Second)
		vms := w.vms(web)
		if len(vms) != 1 || vms[0].SubnetID != "net-2" {
			t.Fatalf("machines after a second: %v, want one in net-2", vms)
		}
		w.scale(web, 3)
		w.settle(time.Minute)
		w.converged(3)
		if n := w.count(drivertest.OpCreate); n != 4 {
			t.Errorf("%d create calls, want 4: a refused subnet cools off", n)
		}
	})
}

func TestL8_EverySubnetFull(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.cloud.SetRoom(drivertest.Place{}, 0)
		w.scale(web, 2)
		w.settle(10 * time.Minute)
		if n := w.count(drivertest.OpCreate); n > 20 {
			t.Errorf("%d create calls in 10 minutes without any room", n)
		}
		if n := len(w.records()); n > 0 {
			t.Errorf("%d records of machines that were refused", n)
		}
		w.cloud.SetRoom(drivertest.Place{}, -1)
		w.settle(40 * time.Minute)
		w.converged(2)
	})
}

func TestF26_MachinesThatDieAtBirth(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Dies: true}))
		w.scale(web, 1)
		w.settle(59 * time.Minute)
		if n := w.count(drivertest.OpCreate); n != 6 {
			t.Errorf("%d creates in an hour of machines that die at birth, want the first and 5 more", n)
		}
		w.converged(0)
		w.cloud.SetFaults(nil)
		w.settle(2 * time.Minute)
		w.converged(1)
	})
}

func TestF26_AnEditOfTheGroupTriesAgain(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Dies: true}))
		w.scale(web, 1)
		w.settle(time.Minute)
		w.cloud.SetFaults(nil)
		w.scale(web, 2)
		w.settle(time.Second)
		w.converged(2)
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

func TestF28_StoppedOrRemovedByHand(t *testing.T) {
	for name, hand := range map[string]func(*drivertest.Cloud, identity.ID) bool{
		"stopped": func(c *drivertest.Cloud, id identity.ID) bool { return c.SetStatus(id, driver.Stopped) },
		"removed": (*drivertest.Cloud).Remove,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 3)
				w.settle(time.Minute)
				hand(w.cloud, w.vms(web)[1].InstanceID)
				w.settle(5 * time.Minute)
				w.converged(3)
				if made := w.cloud.Created(); made != 4 {
					t.Errorf("%d machines were made, want 4", made)
				}
			})
		})
	}
}

// TestF28_StoppedWhileSilent is the case in which no stream breaks: only the
// listing tells.
func TestF28_StoppedBeforeItsAgentCame(t *testing.T) {
	inWorld(t, worldOptions{DeadAgents: true, Timeout: "10m"}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		w.cloud.SetStatus(w.vms(web)[0].InstanceID, driver.Stopped)
		w.settle(time.Minute)
		if made, running := w.cloud.Created(), len(w.vms(web)); made != 3 || running != 2 {
			t.Errorf("%d machines made and %d there, want 3 and 2", made, running)
		}
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
		if held := w.reign().Held(); len(held) != 2 {
			t.Errorf("held: %v, want the two that carry our tags", held)
		}
		w.stop()
		w.lead()
		w.settle(time.Hour)
		if n, held := w.count(drivertest.OpDelete), w.reign().Held(); n > 0 || len(held) != 2 {
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
		if held := w.reign().Held(); len(held) != 1 || held[0].VM.ID != rec.ID {
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

func TestL3_MachineThatNeverRegistersIsReplaced(t *testing.T) {
	inWorld(t, worldOptions{DeadAgents: true}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(2*time.Minute + 20*time.Second)
		if made := w.cloud.Created(); made != 2 {
			t.Errorf("%d machines made before the time is up, want 2", made)
		}
		w.settle(20 * time.Second)
		if made, there := w.cloud.Created(), len(w.vms(web)); made != 4 || there != 2 {
			t.Errorf("%d machines made and %d there, want 4 and 2", made, there)
		}
		w.settle(55 * time.Minute)
		if made := w.cloud.Created(); made != 7 {
			t.Errorf("%d machines made in an hour, want 2 and 5 more", made)
		}
	})
}

func TestP15_DeadMachineIsReplacedAtOnce(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(65 * time.Second) // not at the moment of a listing
		victim := w.vms(web)[0].InstanceID
		before := w.count(drivertest.OpCreate)
		w.cloud.Kill(victim)
		w.settle(100 * time.Millisecond)
		if sent := w.count(drivertest.OpCreate) - before; sent != 1 {
			t.Errorf("%d creates within 100ms of a death, want 1", sent)
		}
		if n := len(w.vms(web)); n > 4 {
			t.Errorf("%d machines, want at most one more than the size", n)
		}
		w.settle(time.Minute)
		w.converged(3)
		if made := w.cloud.Created(); made != 4 {
			t.Errorf("%d machines were made, want 4", made)
		}
	})
}

func TestReportsThatAreMissing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		quiet := w.members(web)[0]
		w.machine(quiet.ID).silence()
		state := func() fleet.State {
			row, _ := w.reign().cache.Instance(quiet.ID)
			return row.State
		}
		w.settle(9 * time.Second) // its last report came at the end of the minute
		if got := state(); got != fleet.Running {
			t.Errorf("state %s before a report is overdue", got)
		}
		w.settle(13 * time.Second)
		if got := state(); got != fleet.Suspect {
			t.Errorf("state %s with one report missing, want suspect", got)
		}
		if made := w.cloud.Created(); made != 2 {
			t.Errorf("%d machines made with one report missing, want 2", made)
		}
		w.settle(time.Minute)
		w.converged(2)
		if _, there := w.cloud.Machine(quiet.ID); there {
			t.Error("a machine with three reports missing is still there")
		}
	})
}

func TestF32_NobodyIsSickBecauseOfAChangeOfLeader(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 20)
		w.settle(time.Minute)
		w.stop()
		w.settle(10 * time.Minute) // nobody leads
		w.lead()
		w.settle(5 * time.Minute)
		w.converged(20)
		if made := w.cloud.Created(); made != 20 {
			t.Errorf("%d machines were made, want 20", made)
		}
	})
}

// TestS7_AgentThatNeverComesBack: its VM runs, so it gets the time of three
// reports from the take-over on, and then is replaced first.
func TestS7_AgentThatNeverComesBack(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		w.stop()
		gone := w.vms(web)[0].InstanceID
		w.machine(gone).off()
		w.lead()
		w.settle(50 * time.Second)
		if made := w.cloud.Created(); made != 3 {
			t.Errorf("%d machines made within a minute of the take-over, want 3", made)
		}
		w.settle(2 * time.Minute)
		w.converged(3)
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

func TestS2_NoCallAfterTheLease(t *testing.T) {
	limits := driver.Limits{Calls: driver.Bucket{Rate: 2, Burst: 5}}
	inWorld(t, worldOptions{Cloud: drivertest.Options{Limits: limits}}, func(t *testing.T, w *world) {
		w.scale(web, 40)
		w.settle(5 * time.Second)
		w.life.kill() // the lease runs out; the process lives on
		synctest.Wait()
		calls, writes := len(w.cloud.Calls()), w.store.Calls()
		w.settle(10 * time.Minute)
		if n := len(w.cloud.Calls()); n != calls {
			t.Errorf("%d calls of the provider after the lease", n-calls)
		}
		if n := w.store.Calls(); n != writes {
			t.Errorf("%d calls of storage after the lease", n-writes)
		}
		w.stop()
		w.lead()
		w.settle(2 * time.Minute)
		w.converged(40)
	})
}

func TestL7_OneGroupInErrorDoesNotDelayAnother(t *testing.T) {
	other := fleet.GroupID{Tenant: "b", Name: "other"}
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.OpCreate && c.Request.Group == web.Name {
				return drivertest.Fault{Latency: 4 * time.Second, Before: driver.Fail(driver.Transient, "create", nil)}
			}
			return drivertest.Fault{}
		})
		w.scale(web, 100)
		w.scale(other, 5)
		w.settle(100 * time.Millisecond)
		if n := len(w.vms(other)); n != 5 {
			t.Errorf("%d machines of the other group after 100ms, want 5", n)
		}
		w.cloud.SetFaults(nil)
		w.settle(10 * time.Minute)
		if n := len(w.vms(web)); n != 100 {
			t.Errorf("%d machines of the group that was in error, want 100", n)
		}
	})
}

// TestS8_MassLoss: twenty machines really are gone. That takes a second listing
// and a Get each to believe, and they are replaced a few a minute.
func TestS8_MassLoss(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 25)
		w.settle(65 * time.Second)
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
		var times []time.Time
		for _, at := range w.createTimes() {
			if at.After(lost) {
				times = append(times, at)
			}
		}
		if len(times) != 20 {
			t.Errorf("%d creates for 20 lost machines", len(times))
		}
		for i := 10; i < len(times); i++ {
			if span := times[i].Sub(times[i-10]); span < time.Minute {
				t.Errorf("11 replacements within %v, at most 10 a minute are allowed", span)
			}
		}
	})
}

func TestS7_SickMachinesThatRunGoAFewAtATime(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 20)
		w.settle(65 * time.Second)
		for _, in := range w.members(web)[:12] {
			w.machine(in.ID).silence()
		}
		most := 0
		w.cloud.SetConditions(drivertest.Conditions{DeleteTime: 10 * time.Second, BootTime: 5 * time.Second})
		for range 300 {
			w.settle(time.Second)
			leaving := 0
			for _, in := range w.members(web) {
				if _, there := w.cloud.Machine(in.ID); there && in.State.Leaving() {
					leaving++
				}
			}
			most = max(most, leaving)
		}
		if most > 2 {
			t.Errorf("%d of 20 machines that still run were leaving at once, at most 2 may", most)
		}
		w.converged(20)
	})
}
