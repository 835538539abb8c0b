package provisioning

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore/memory"
)

// TestS3_AMachineIsAskedForOnceItsRecordIsDurable: the world checks each create that the cloud sees.
func TestS3_AMachineIsAskedForOnceItsRecordIsDurable(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.objects.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: time.Second} })
		id, launched := w.launch(web)
		if !launched {
			t.Fatal("it was not launched")
		}
		pass(5 * time.Second)
		w.wantMade(id)
		if w.wakes() == 0 {
			t.Error("nobody was woken")
		}
	})
}

// TestF19_ALostAnswerIsAskedForAgain: the same call, until the provider says what became of it.
func TestF19_ALostAnswerIsAskedForAgain(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Times(3, drivertest.OpCreate, drivertest.LostAnswer()))
		id, _ := w.launch(web)
		w.resize(web, 0) // nothing gives it up that may have made the machine
		w.pause(true)
		pass(10 * time.Minute)
		if n := w.creates(); n != 1 {
			t.Errorf("%d creates while the group is paused, want 1", n)
		}
		w.pause(false)
		pass(8 * time.Second)
		w.wantMade(id)
		if n, made := w.creates(), w.cloud.Created(); n != 4 || made != 1 {
			t.Errorf("%d creates and %d machines, want 4 and 1", n, made)
		}
	})
}

// TestF19_AnOpenCreateIsRepeatedThoughItsMachineShows: a driver that makes a machine in several
// steps goes on with them when it is asked again, and not because a listing has shown what
// there is of it.
func TestF19_AnOpenCreateIsRepeatedThoughItsMachineShows(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.LostAnswer()))
		id, _ := w.launch(web)
		vm, _ := w.cloud.Machine(id)
		if !w.Observe(vm.Machine, time.Now()) || w.stateOf(id) != fleet.Provisioning {
			t.Fatalf("it is %s when a listing has shown it", w.stateOf(id))
		}
		pass(2 * time.Second)
		w.wantMade(id)
		if n := w.creates(); n != 2 {
			t.Errorf("%d creates, want 2: until the outcome is known", n)
		}
	})
}

// TestF19_S4_RefusedAfterALostAnswerIsDeletedLikeAnyOther: that the second call had no effect
// does not say that the first one had none.
func TestF19_S4_RefusedAfterALostAnswerIsDeletedLikeAnyOther(t *testing.T) {
	for _, kind := range []driver.ErrorClass{driver.Capacity, driver.Quota, driver.Transient} {
		inWorld(t, settings{}, func(t *testing.T, w *world) {
			w.cloud.SetFaults(drivertest.Any(
				drivertest.Times(1, drivertest.OpCreate, drivertest.LostAnswer()),
				drivertest.Times(1, drivertest.OpCreate, drivertest.Fail(kind)),
			))
			id, _ := w.launch(web)
			pass(2 * time.Second)
			if !w.recorded(id) || len(w.condemned) != 1 || w.condemned[0].ID != id || w.condemned[0].Reason != fleet.ReasonAbandoned {
				t.Errorf("%s: recorded is %t, condemned are %v", kind, w.recorded(id), w.condemned)
			}
		})
	}
}

// TestS21_ARefusalHoldsTheGroupBack: its record is taken back, and its tenant is told once.
func TestS21_ARefusalHoldsTheGroupBack(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Times(2, drivertest.OpCreate, drivertest.Fail(driver.Quota)))
		id, _ := w.launch(web)
		w.wantGivenUp(id)
		wantSaid(t, w.said(), "quota: ")
		began := time.Now()
		if g := w.gate(web); g.By != fleet.BlockerBackOff || !g.Until.Equal(began.Add(5*time.Second)) {
			t.Errorf("gate %+v, want one of 5 seconds", g)
		}
		if g := w.gate(small); g != (fleet.Block{}) {
			t.Errorf("another group: %+v", g)
		}
		pass(5 * time.Second)
		if room, beyond := w.Room(web, time.Now()); room != 1 || beyond.By != fleet.BlockerBackOff {
			t.Errorf("room %d, beyond %+v: one is to be tried", room, beyond)
		}
		w.launch(web)
		wantSaid(t, w.said()) // the same as before
		if g := w.gate(web); !g.Until.Equal(began.Add(15 * time.Second)) {
			t.Errorf("gate %+v, want one of 10 seconds", g)
		}
		w.Edited(web)
		if g := w.gate(web); g != (fleet.Block{}) {
			t.Errorf("gate %+v after an edit", g)
		}
		made, _ := w.launch(web)
		w.wantMade(made)
	})
}

// TestS21_WhatIsQueuedBehindARefusalIsNotSent: every create would meet the same cause.
func TestS21_WhatIsQueuedBehindARefusalIsNotSent(t *testing.T) {
	inWorld(t, settings{limits: document.Limits{Calls: &document.Bucket{Rate: 1, Burst: 1}}}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fail(driver.Quota)))
		w.launch(small) // takes the token
		second, _ := w.launch(web)
		third, _ := w.launch(web)
		w.Edited(small)
		pass(3 * time.Second)
		if n := w.creates(); n != 2 {
			t.Errorf("%d creates, want 2", n)
		}
		w.wantGivenUp(second)
		w.wantGivenUp(third)
	})
}

func TestF25_NoCapacityLeavesThePlaceOut(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-1"}, 0)
		first, _ := w.launch(web)
		w.wantGivenUp(first)
		wantSaid(t, w.said(), "capacity: ")
		if g := w.gate(web); g != (fleet.Block{}) {
			t.Errorf("gate %+v: another place may have room", g)
		}
		second, _ := w.launch(web)
		w.wantMade(second)
		if vm, _ := w.cloud.Machine(second); vm.SubnetID != "net-2" {
			t.Errorf("made in %s, want net-2", vm.SubnetID)
		}
	})
}

func TestF24_S21_ThrottledIsAskedAgainWhenTheProviderWishes(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.Fault{
			Before: &driver.Error{Class: driver.Throttled, Op: "create", RetryAfter: 20 * time.Second},
		}))
		id, _ := w.launch(web)
		if hold := w.Throttled(web, time.Now()); hold.By != fleet.BlockerThrottled {
			t.Errorf("throttled: %+v", hold)
		}
		pass(20*time.Second - 1)
		if n := w.creates(); n != 1 || !w.recorded(id) {
			t.Errorf("%d creates before the time is over, want 1; recorded is %t", n, w.recorded(id))
		}
		pass(time.Second)
		w.wantMade(id)
		if hold := w.Throttled(web, time.Now()); hold.By != "" {
			t.Errorf("throttled after a success: %+v", hold)
		}
	})
}

// TestS5_S23_WhatIsNotWantedAnyMoreIsNotSent: while a create waits for its turn.
func TestS5_S23_WhatIsNotWantedAnyMoreIsNotSent(t *testing.T) {
	slow := settings{limits: document.Limits{Calls: &document.Bucket{Rate: 0.1, Burst: 1}}}
	for name, change := range map[string]func(w *world){
		"the group was made smaller": func(w *world) { w.resize(web, 0) },
		"the group is paused":        func(w *world) { w.pause(true) },
		"too little time is left":    func(*world) { pass(61 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "too little time is left" {
				slow.limits.Calls.Rate = 0.01
			}
			inWorld(t, slow, func(t *testing.T, w *world) {
				w.launch(small) // takes the token
				id, _ := w.launch(web)
				change(w)
				pass(100 * time.Second)
				w.wantGivenUp(id)
				if n := w.creates(); n != 1 {
					t.Errorf("%d creates, want that of the other group alone", n)
				}
				wantSaid(t, w.said())
			})
		})
	}
}

// TestS23_APauseEndsWhatACallerAskedFor: nobody decides about it anew, and so its tenant is told.
func TestS23_APauseEndsWhatACallerAskedFor(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.pause(true)
		id, _ := w.ask(web, Request{OnDemand: true})
		w.wantGivenUp(id)
		wantSaid(t, w.said(), "paused: ")
	})
}

// TestS4_ARecordThatMayHaveBeenWrittenIsTakenBack: no try is answered, and one takes effect
// two thirds of a minute later. Nobody is asked for a machine.
func TestS4_ARecordThatMayHaveBeenWrittenIsTakenBack(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		began := time.Now()
		w.objects.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && time.Since(began) < 20*time.Second {
				return memory.Fault{Late: 40 * time.Second}
			}
			return memory.Fault{}
		})
		eff, _ := w.Find(web)
		id, err := identity.NewID(eff.Kind)
		if err != nil {
			t.Fatal(err)
		}
		if launched, err := w.Launch(w.ctx, id, eff, Request{}); launched || err == nil {
			t.Fatalf("launched is %t, error %v", launched, err)
		}
		stood := false
		for range 180 {
			pass(time.Second)
			stood = stood || w.recorded(id)
		}
		if !stood || w.recorded(id) || w.creates() != 0 {
			t.Errorf("the record stood is %t and stands is %t; %d creates", stood, w.recorded(id), w.creates())
		}
	})
}

// TestS2_TheEndOfTheTermLeavesTheAttempt: the next leader finds the record.
func TestS2_TheEndOfTheTermLeavesTheAttempt(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: time.Minute}))
		id, _ := w.launch(web)
		w.end()
		pass(10 * time.Minute)
		if n := w.creates(); n != 1 || !w.recorded(id) || w.stateOf(id) != fleet.Pending {
			t.Errorf("%d creates, recorded is %t, %s", n, w.recorded(id), w.stateOf(id))
		}
		wantSaid(t, w.said())
	})
}

// TestS4_WhoDeletesWaitsForTheCall: a delete that overtook the create would leave its machine.
func TestS4_WhoDeletesWaitsForTheCall(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: 10 * time.Second}))
		id, _ := w.launch(web)
		began := time.Now()
		if err := w.WaitForCall(w.ctx, id); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("waited for %v: %v", time.Since(began), err)
		}
		w.wantMade(id)
		if err := w.WaitForCall(w.ctx, id); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("no call is under way, and it waited until %v: %v", time.Since(began), err)
		}
	})
}

// TestS4_ACondemnedInstanceIsNotAskedFor: whoever condemned it while it waited ends it.
func TestS4_ACondemnedInstanceIsNotAskedFor(t *testing.T) {
	inWorld(t, settings{limits: document.Limits{Calls: &document.Bucket{Rate: 1, Burst: 1}}}, func(t *testing.T, w *world) {
		w.launch(small)
		id, _ := w.launch(web)
		if err := w.condemn(w.ctx, fleet.Condemn{ID: id, Reason: fleet.ReasonRequested}); err != nil {
			t.Fatal(err)
		}
		next, _ := w.launch(web)
		pass(2 * time.Second)
		w.wantMade(next)
		if n := w.creates(); n != 2 || !w.recorded(id) {
			t.Errorf("%d creates, want 2; recorded is %t", n, w.recorded(id))
		}
	})
}

// TestL7_GroupsTakeTurns: a large group does not hold up a small one.
func TestL7_GroupsTakeTurns(t *testing.T) {
	inWorld(t, settings{limits: document.Limits{Calls: &document.Bucket{Rate: 1, Burst: 1}}}, func(t *testing.T, w *world) {
		for range 10 {
			w.launch(web)
		}
		w.launch(small)
		w.launch(small)
		pass(4 * time.Second)
		if got, want := w.asked(), []fleet.GroupID{web, web, small, web, small}; !slices.Equal(got, want) {
			t.Errorf("asked for %v, want %v", got, want)
		}
		if room, beyond := w.Room(web, time.Now()); room != queueFloor-7 || beyond.By != fleet.BlockerQueue {
			t.Errorf("room %d, beyond %+v; 7 are queued", room, beyond)
		}
	})
}

// TestTheNonceOutlivesTheSlowestCreate, unless its life is configured.
func TestTheNonceOutlivesTheSlowestCreate(t *testing.T) {
	for _, tt := range []struct {
		server  string
		longest time.Duration
		want    time.Duration
	}{
		{``, 0, 2 * time.Minute},
		{``, 15 * time.Minute, 17 * time.Minute},
		{`"registration": {"nonce_ttl": "5m"},`, 15 * time.Minute, 5 * time.Minute},
	} {
		inWorld(t, settings{server: tt.server, longest: tt.longest}, func(t *testing.T, w *world) {
			id, _ := w.launch(web)
			vm, _ := w.cloud.Machine(id)
			claims, err := identity.DecodeNonceUnverified(string(vm.Request.UserData))
			if err != nil {
				t.Fatal(err)
			}
			rec, _ := w.instances.Record(id)
			if life := time.Duration(claims.ExpiresAt-claims.IssuedAt) * time.Second; life != tt.want || !rec.NonceExpires.Time.Equal(time.Unix(claims.ExpiresAt, 0)) {
				t.Errorf("%s, %v: the nonce lives for %v, and until %v by its record; want %v", tt.server, tt.longest, life, rec.NonceExpires, tt.want)
			}
		})
	}
}

func TestF49_MetricsForgetGroupsThatAreGone(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fail(driver.Quota)))
		w.launch(web)
		w.launch(small)
		if n := testutil.CollectAndCount(w.metrics.createFailures); n != 2 {
			t.Fatalf("%d series, want 2", n)
		}
		w.metrics.GroupGone(web)
		if n := testutil.CollectAndCount(w.metrics.createFailures); n != 1 {
			t.Errorf("%d series, want that of the group that is there", n)
		}
	})
}

// TestL3_F26_MachinesThatComeToNothingHoldTheirGroupBack, and its tenant is told why.
func TestL3_F26_MachinesThatComeToNothingHoldTheirGroupBack(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		tries := w.cfg.Server.Rails.NeverRegisteredPerHour
		for range tries + 1 {
			if g := w.gate(web); g != (fleet.Block{}) {
				t.Fatalf("gate %+v before %d tries", g, tries)
			}
			id, _ := w.launch(web)
			if _, err := w.instances.Note(id, func(in *cache.Instance) error { in.State = fleet.Unhealthy; return nil }); err != nil {
				t.Fatal(err)
			}
			row, _ := w.rows.Instance(id)
			w.FoundSick(row, "it never registered", time.Now())
			w.ReportSick(row, "no disk")
		}
		if g := w.gate(web); g.By != fleet.BlockerCrashLoop {
			t.Errorf("gate %+v after %d failed launches", g, tries+1)
		}
		said := w.said()
		if !slices.Contains(said, "failed-launch: the machine does not run: no disk") || !slices.ContainsFunc(said, func(s string) bool { return s[:5] == "crash" }) {
			t.Errorf("said %q", said)
		}
		if why := w.FailedLaunch(web); why != "it never registered" {
			t.Errorf("the last launch failed for %q", why)
		}
		w.Edited(web)
		if g := w.gate(web); g != (fleet.Block{}) || w.FailedLaunch(web) != "" {
			t.Errorf("gate %+v after an edit, %q", g, w.FailedLaunch(web))
		}
	})
}

// TestS1_ASuccessorFoundByTheLastWriteEndsTheTerm: it is that which notes the machine that
// was made.
func TestS1_ASuccessorFoundByTheLastWriteEndsTheTerm(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: time.Second}))
		id, _ := w.launch(web)
		rec, _ := w.instances.Record(id)
		rec.Term = 2
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
		pass(2 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.superseded {
			t.Error("nobody was told of the later term")
		}
	})
}

// TestARecordThatIsThereIsLeftAlone: the id is taken, and nothing becomes of the second call.
func TestARecordThatIsThereIsLeftAlone(t *testing.T) {
	inWorld(t, settings{}, func(t *testing.T, w *world) {
		id, _ := w.ask(web, Request{OnDemand: true})
		eff, _ := w.Find(web)
		if launched, err := w.Launch(w.ctx, id, eff, Request{OnDemand: true}); launched || err == nil {
			t.Errorf("launched is %t, error %v", launched, err)
		}
		pass(5 * time.Minute)
		w.wantMade(id)
		if n := w.creates(); n != 1 {
			t.Errorf("%d creates, want 1", n)
		}
	})
}
