package liveness

import (
	"errors"
	"slices"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// TestF31_FromSilenceToSick: an overdue report makes an instance suspect and has the provider
// asked; three make it sick; and one that is heard of is well again.
func TestF31_FromSilenceToSick(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id, other := w.reporting(), w.reporting()
		w.expect(id, "heard of", fleet.Running, FirstReport)
		w.settle(10 * time.Second)
		w.Reported(other, false)
		w.expect(id, "not late yet", fleet.Running)
		w.settle(time.Second)
		w.expect(id, "a report is overdue", fleet.Suspect, Late)
		if n := w.asked(id); n != 1 {
			t.Errorf("the provider was asked %d times about it, want once", n)
		}
		w.Reported(id, false)
		w.expect(id, "heard of again", fleet.Running, Well)
		for range 4 {
			w.settle(8 * time.Second)
			w.Reported(other, false)
		}
		w.events(id)
		w.settle(time.Second)
		w.expect(id, "three reports are missing", fleet.Unhealthy, Sick)
		if len(w.sick) != 1 || w.sick[0].ID != id || w.sick[0].State != fleet.Unhealthy {
			t.Errorf("told while the row changed: %+v", w.sick)
		}
		w.Reported(id, false)
		w.expect(id, "heard of at last", fleet.Running, Well)
		w.expect(other, "the other", fleet.Running, FirstReport)
	})
}

// TestTheEndOfAStreamAfterItsInstanceIsForgotten: the stream of an instance ends after it, and leaves nothing behind.
func TestTheEndOfAStreamAfterItsInstanceIsForgotten(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.in(fleet.Deleting)
		w.Connected(id)
		w.Forget(id)
		w.Disconnected(id, true)
		if n := len(w.signs); n != 0 {
			t.Errorf("signs of %d instances are kept", n)
		}
	})
}

// TestF31_TheEndOfAStream: a broken one is a question to the provider, also about an instance
// that is leaving; a goodbye is not.
func TestF31_TheEndOfAStream(t *testing.T) {
	for name, c := range map[string]struct {
		state    fleet.State
		graceful bool
		then     fleet.State
		asked    int
	}{
		"broken":               {fleet.Running, false, fleet.Suspect, 1},
		"a goodbye":            {fleet.Running, true, fleet.Running, 0},
		"broken, leaving":      {fleet.Draining, false, fleet.Draining, 1},
		"a goodbye of leaving": {fleet.Draining, true, fleet.Draining, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWard(t, func(t *testing.T, w *ward) {
				id := w.in(c.state)
				w.Connected(id)
				w.settle(time.Second)
				w.asked(id)
				w.Disconnected(id, c.graceful)
				if n := w.asked(id); n != c.asked || w.row(id).State != c.then {
					t.Errorf("asked %d times, and it is %s; want %d and %s", n, w.row(id).State, c.asked, c.then)
				}
			})
		})
	}
}

// TestF32_NobodyIsLateForANewLeader: it counts from when it knows everybody.
func TestF32_NobodyIsLateForANewLeader(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.in(fleet.Running)
		w.settle(10 * time.Minute) // of take-over
		w.JudgeAll()
		w.settle(time.Minute - time.Millisecond)
		w.expect(id, "within a minute", fleet.Running)
		w.settle(time.Millisecond)
		w.expect(id, "after a minute", fleet.Suspect, Late)
	})
}

// TestFirstReportIsToldOnce: after the verdict, so that the row shows what it means.
func TestFirstReportIsToldOnce(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.reporting()
		w.Disconnected(id, false)
		w.Connected(id)
		w.Reported(id, false)
		w.expect(id, "a second report", fleet.Running, FirstReport, Late, Well)
		if w.HasReported("vmx0") || !w.HasReported(id) {
			t.Errorf("has reported: %v, and a stranger %v", w.HasReported(id), w.HasReported("vmx0"))
		}
		w.Forget(id)
		if w.HasReported(id) {
			t.Error("it is remembered")
		}
		w.Reported("vmx0", false)
		if got := w.events("vmx0"); len(got) != 0 {
			t.Errorf("told of an instance that nobody knows: %v", got)
		}
	})
}

// TestF34_ANoticeIsToldOnce: and again where it leaves less time.
func TestF34_ANoticeIsToldOnce(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.in(fleet.Running)
		soon := fleet.Notice{Action: "stop", Deadline: time.Now().Add(2 * time.Minute)}
		w.Notice(id, soon)
		w.Notice(id, soon)
		w.expect(id, "the same twice", fleet.Running, Noticed)
		sooner := fleet.Notice{Action: "stop", Deadline: time.Now().Add(time.Minute)}
		w.Notice(id, sooner)
		w.Notice(id, soon)
		w.expect(id, "a sooner one", fleet.Running, Noticed)
		if got := w.Heard([]fleet.Instance{{ID: id}})[0].Notice; got != sooner {
			t.Errorf("the plan sees %+v", got)
		}
		w.Notice("vmx0", soon)
		if got := w.events("vmx0"); len(got) != 0 {
			t.Errorf("told of an instance that nobody knows: %v", got)
		}
	})
}

// TestWhatAPlanHears: what this leader heard, by instance.
func TestWhatAPlanHears(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		unasked, sent, told := w.in(fleet.Pending), w.in(fleet.Pending), w.reporting()
		w.CreateQueued(unasked)
		w.CreateQueued(sent)
		w.CreateSent(sent)
		w.CreateQueued(sent)
		ins := w.Heard([]fleet.Instance{{ID: unasked, State: fleet.Pending}, {ID: sent, State: fleet.Pending}, {ID: told}, {ID: "vmx0"}})
		if ins[0].Power != fleet.Unasked || ins[1].Power == fleet.Unasked || !ins[2].Reported || ins[3].Reported {
			t.Errorf("%+v", ins)
		}
	})
}

// TestF30_AMachineThatIsGone: two answers are needed, of which the second comes by itself.
func TestF30_AMachineThatIsGone(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.in(fleet.Running)
		w.settle(4 * time.Second)
		delete(w.answers, id)
		w.AskSoon(id)
		w.settle(9 * time.Second)
		w.expect(id, "lacked once", fleet.Running)
		w.settle(2 * time.Second)
		w.expect(id, "lacked twice", fleet.Unhealthy, Sick)
		if row := w.row(id); row.Power != fleet.Gone || row.Verdict != fleet.ReasonNotFound {
			t.Errorf("power %v, verdict %s", row.Power, row.Verdict)
		}
	})
}

// TestS20_NothingIsLeftToDrain: an instance that is leaving, whose machine stops or is gone.
func TestS20_NothingIsLeftToDrain(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		stopped, gone := w.in(fleet.Draining), w.in(fleet.Draining)
		w.settle(4 * time.Second)
		vm := w.answers[stopped]
		vm.Status = driver.Stopped
		for range 2 {
			w.Observe(vm, time.Now())
		}
		w.expect(stopped, "stopped", fleet.Draining, NoMachine)
		delete(w.answers, gone)
		w.Missing(gone, fleet.ByList, time.Now())
		w.expect(gone, "lacked by a listing, and a Get agrees", fleet.Draining, NoMachine)
		if w.row(gone).Power != fleet.Gone || w.row(stopped).Power != fleet.Down {
			t.Errorf("power %v and %v", w.row(gone).Power, w.row(stopped).Power)
		}
		w.Missing("vmx0", fleet.ByGet, time.Now())
		if w.Observe(driver.Machine{InstanceID: "vmx0"}, time.Now()) {
			t.Error("a machine that nobody knows is known")
		}
	})
}

// TestS20F21_ListingsAloneEndNoDrain: however often they lack its machine, the provider is
// asked for the very machine; an agent that is connected has one.
func TestS20F21_ListingsAloneEndNoDrain(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.in(fleet.Draining)
		w.settle(4 * time.Second)
		for range 3 {
			w.Missing(id, fleet.ByList, time.Now())
			w.settle(30 * time.Second)
		}
		w.expect(id, "lacked by three listings and shown by each Get", fleet.Draining)
		if n := w.asked(id); n != 3 {
			t.Errorf("asked for the machine %d times, want after each listing", n)
		}
		w.mu.Lock()
		w.fails = errors.New("no answer")
		w.mu.Unlock()
		for range 3 {
			w.Missing(id, fleet.ByList, time.Now())
			w.settle(30 * time.Second)
		}
		w.expect(id, "lacked by three listings, and no Get is answered", fleet.Draining)

		w.mu.Lock()
		w.fails = nil
		delete(w.answers, id)
		w.mu.Unlock()
		w.Connected(id)
		w.Missing(id, fleet.ByList, time.Now())
		w.settle(time.Minute)
		w.expect(id, "lacked by the provider, and its agent is connected", fleet.Draining)
		w.Disconnected(id, true)
		w.Missing(id, fleet.ByList, time.Now())
		w.settle(time.Minute)
		w.expect(id, "lacked by the provider alone", fleet.Draining, NoMachine)
	})
}

// TestTheProvidersReasonIsTold: why a machine does not run, as the provider says it.
func TestTheProvidersReasonIsTold(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.in(fleet.Provisioning)
		w.Observe(driver.Machine{InstanceID: id, ProviderID: "vm-1", Status: driver.Failed, Reason: "no\nroom"}, time.Now())
		if len(w.told) != 1 || w.told[0].Event != Sick || w.told[0].Said != "no room" || w.told[0].Instance.Verdict != fleet.ReasonUnhealthy {
			t.Errorf("told %+v", w.told)
		}
		if ins := w.Heard([]fleet.Instance{{ID: id}}); ins[0].Said != "no room" {
			t.Errorf("the plan sees %q", ins[0].Said)
		}
		w.answers[id] = driver.Machine{InstanceID: id, Status: driver.Deleted, Reason: "reclaimed"}
		w.Ask(t.Context(), id)
		if ins := w.Heard([]fleet.Instance{{ID: id}}); ins[0].Said != "reclaimed" {
			t.Errorf("of a machine that is gone the plan sees %q", ins[0].Said)
		}
	})
}

// TestF22_ACreateWithoutAnAnswer: it is given up where a Get and a listing lack the machine
// after its time.
func TestF22_ACreateWithoutAnAnswer(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.in(fleet.Pending)
		delete(w.answers, id)
		w.CreateQueued(id)
		w.settle(time.Hour - 2*time.Minute) // in the queue
		if in := w.row(id); !w.LastCreate(in).Equal(in.Created) {
			t.Errorf("the create counts from %v, want from its record, %v", w.LastCreate(in), in.Created)
		}
		w.CreateSent(id)
		if sent := w.LastCreate(w.row(id)); !sent.Equal(time.Now()) {
			t.Errorf("the create counts from %v, want from now", sent)
		}
		w.settle(8*time.Second - time.Millisecond)
		if n := w.asked(id); n != 0 {
			t.Errorf("asked %d times before the create was lost", n)
		}
		w.settle(time.Millisecond)
		if n := w.asked(id); n != 1 || w.listed() != 1 {
			t.Errorf("asked %d times and listed %d times, want once each", n, w.listed())
		}
		w.Missing(id, fleet.ByList, time.Now())
		w.expect(id, "a Get and a listing agree", fleet.Unhealthy, Sick)
		if reason := w.row(id).Verdict; reason != fleet.ReasonAbandoned {
			t.Errorf("reason %s", reason)
		}
	})
	inWard(t, func(t *testing.T, w *ward) {
		id := w.in(fleet.Pending)
		w.CreateSent(id)
		w.settle(4 * time.Second)
		w.Missing(id, fleet.ByList, time.Now())
		if w.CreateAccepted(id); w.unlisted(id) {
			t.Error("what a listing lacked before the create was answered counts")
		}
		w.Observe(w.answers[id], time.Now())
		w.Missing(id, fleet.ByGet, time.Now())
		w.expect(id, "looked for too early", fleet.Provisioning)
	})
}

// TestS21_ManyAreAskedAboutByOneListing: but for those that a listing has lacked.
func TestS21_ManyAreAskedAboutByOneListing(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		var ids []identity.ID
		for range askEach + 1 {
			ids = append(ids, w.in(fleet.Draining))
		}
		lacked := w.in(fleet.Draining)
		w.settle(4 * time.Second)
		w.Missing(lacked, fleet.ByList, time.Now())
		w.Monitor.mu.Lock() // all at once
		for _, id := range append(ids, lacked) {
			w.asks[id] = struct{}{}
		}
		w.Monitor.mu.Unlock()
		w.poke()
		w.settle(time.Second)
		if n := w.asked(lacked); n != 1 || w.listed() != 1 || len(w.gets) != 0 {
			t.Errorf("asked %d times about the one that a listing lacked, listed %d times, asked about %d others", n, w.listed(), len(w.gets))
		}
	})
}

// TestAnErrorSaysNothing: of the provider. The end of the term is told apart.
func TestAnErrorSaysNothing(t *testing.T) {
	for _, err := range []error{driver.Fail(driver.Transient, "get", errors.New("busy")), errTermOver} {
		inWard(t, func(t *testing.T, w *ward) {
			id := w.in(fleet.Running)
			w.fails = err
			for range 3 {
				w.settle(20 * time.Second)
				w.Reported(id, false)
				w.Ask(t.Context(), id)
			}
			if w.row(id).State != fleet.Running || w.over == 0 {
				t.Errorf("%s, and %d errors were looked at", w.row(id).State, w.over)
			}
			w.Ask(t.Context(), "vmx0") // nobody to ask about
		})
	}
}

// TestF32_S8_MostFallSilentAtOnce: nobody is found sick while the brake is on. It comes off
// when they are back, and whoever stays silent is found sick then.
func TestF32_S8_MostFallSilentAtOnce(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		var ids []identity.ID
		for range 8 {
			ids = append(ids, w.reporting())
		}
		w.settle(11 * time.Second)
		if got := w.events(""); !slices.Equal(got, []Event{Silenced}) || w.Silence() == "" {
			t.Fatalf("told %v of the brake, which says %q", got, w.Silence())
		}
		w.settle(10 * time.Minute)
		for _, id := range ids {
			if state := w.row(id).State; state != fleet.Suspect {
				t.Errorf("%s is %s with the brake on", id, state)
			}
		}
		for range 6 {
			for _, id := range ids[1:] {
				w.Reported(id, false)
			}
			w.settle(10 * time.Second)
		}
		if got := w.events(""); !slices.Equal(got, []Event{Silenced}) || w.Silence() != "" {
			t.Errorf("told %v of the brake, which says %q", got, w.Silence())
		}
		if a, b := w.row(ids[0]).State, w.row(ids[1]).State; a != fleet.Unhealthy || b != fleet.Running {
			t.Errorf("the silent one is %s, another %s", a, b)
		}
	})
}

// TestF32_OneAfterTheOtherIsNoMassSilence: however many are silent in the end.
func TestF32_OneAfterTheOtherIsNoMassSilence(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		var ids []identity.ID
		for range 4 {
			ids = append(ids, w.reporting())
			w.settle(6 * time.Second)
		}
		w.settle(time.Minute)
		for _, id := range ids {
			w.expect(id, "silent", fleet.Unhealthy, FirstReport, Late, Sick)
		}
		if got := w.events(""); len(got) > 0 || len(w.silences.suspects) > 0 {
			t.Errorf("told %v of the brake; suspects are %v", got, w.silences.suspects)
		}
	})
}

// TestF32_WhoIsLeavingIsNotSilent: a suspect that is condemned, or has ended, says nothing of
// the others any more.
func TestF32_WhoIsLeavingIsNotSilent(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		w.in(fleet.Running)
		silent, leaving, ended := w.reporting(), w.reporting(), w.reporting()
		w.settle(11 * time.Second)
		if c := w.census(time.Now()); c.Silent != 3 {
			t.Fatalf("%+v, want three that are silent", c)
		}
		for id, state := range map[identity.ID]fleet.State{silent: fleet.Suspect, leaving: fleet.Condemned, ended: fleet.Deleted} {
			if _, err := w.opts.Instances.Note(id, func(in *cache.Instance) error { in.State = state; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if c := w.census(time.Now()); c.Silent != 1 || c.Fresh != 1 || c.Registered != 2 {
			t.Errorf("%+v, want one of two that is silent", c)
		}
	})
}

// TestF31_SuspectThatWasNotNotedAsOne: two verdicts at once may note what they found
// in the other order. Nobody stays suspect for ever.
func TestF31_SuspectThatWasNotNotedAsOne(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.reporting()
		w.settle(12 * time.Second)
		w.Monitor.mu.Lock()
		if _, noted := w.silences.suspects[id]; !noted {
			t.Error("a silent instance is not noted as suspect")
		}
		delete(w.silences.suspects, id)
		w.Monitor.mu.Unlock()
		w.settle(time.Minute)
		w.expect(id, "after a minute", fleet.Unhealthy, FirstReport, Late, Sick)
	})
}

// TestJudgedOnWhatNoLongerHolds: a row changes while it is judged, and is judged again.
func TestJudgedOnWhatNoLongerHolds(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.reporting()
		w.settle(32 * time.Second)
		w.events(id)
		w.mu.Lock()
		w.judging = func() {
			if _, err := w.opts.Instances.Note(id, func(in *cache.Instance) error {
				in.State = fleet.Running
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		w.mu.Unlock()
		w.settle(time.Second)
		w.expect(id, "late when it is judged once more", fleet.Suspect, Late)
		if len(w.sick) > 0 {
			t.Errorf("found sick on a state that it had left: %+v", w.sick)
		}
	})
}

// TestFoundSickOnce: an instance that is sick may be so for another reason later.
func TestFoundSickOnce(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.reporting()
		w.settle(time.Minute)
		w.Disconnected(id, false)
		w.Missing(id, fleet.ByList, time.Now())
		w.Missing(id, fleet.ByGet, time.Now())
		w.expect(id, "silent, then gone", fleet.Unhealthy, FirstReport, Late, Sick)
		if w.row(id).Verdict != fleet.ReasonNotFound {
			t.Errorf("it is sick because %s", w.row(id).Verdict)
		}
		if len(w.sick) != 1 || w.row(id).Power != fleet.Gone {
			t.Errorf("found sick %d times, power %v", len(w.sick), w.row(id).Power)
		}
	})
}
