package fleet_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nstance.dev/server/fleet"
)

func at(d time.Duration) time.Time { return epoch.Add(d) }

// agent is a registered instance that last reported at epoch, every 10 s: a
// report is overdue at 11 s, and three are at 33 s.
func agent(state fleet.State, change ...func(*fleet.Health)) fleet.Health {
	h := fleet.Health{
		State: state, Power: fleet.Up, Created: at(-time.Hour), Lag: time.Minute,
		Registered: true, RegisterBy: at(-50 * time.Minute), Connected: true,
		LastReport: epoch, Interval: 10 * time.Second,
		Seen: fleet.PresenceUp, Looked: at(-time.Minute),
	}
	if state == fleet.Suspect {
		h.Doubted = epoch
	}
	for _, f := range change {
		f(&h)
	}
	return h
}

// booting is an instance that has to register by 5m30s, its create sent at
// epoch and lost if not answered by 90 s.
func booting(state fleet.State, change ...func(*fleet.Health)) fleet.Health {
	h := fleet.Health{
		State: state, Created: epoch, Lag: time.Minute,
		CreatingUntil: at(90 * time.Second), RegisterBy: at(330 * time.Second), Interval: 10 * time.Second,
	}
	if state == fleet.Provisioning {
		h.Power, h.Seen = fleet.Up, fleet.PresenceUp
	}
	for _, f := range change {
		f(&h)
	}
	return h
}

func lost(d time.Duration) func(*fleet.Health) {
	return func(h *fleet.Health) { h.Connected, h.Lost = false, at(d) }
}

func looked(d time.Duration) func(*fleet.Health) {
	return func(h *fleet.Health) { h.Looked = at(d) }
}

func seen(p fleet.Presence) func(*fleet.Health) {
	return func(h *fleet.Health) { h.Seen = p }
}

func missed(by fleet.Source, d time.Duration) func(*fleet.Health) {
	return func(h *fleet.Health) {
		h.Connected = false
		h.Absent = h.Absent.Missed(by, at(d), h.Created, h.Lag)
	}
}

func disconnected(h *fleet.Health) { h.Connected = false }

func TestJudge(t *testing.T) {
	found := func(r fleet.Reason, p fleet.Power, why string) fleet.Verdict {
		return fleet.Verdict{Event: fleet.EventFoundSick, Reason: r, Power: p, Why: why}
	}
	down := found(fleet.ReasonUnhealthy, fleet.Down, "the provider says that its VM does not run")
	gone := found(fleet.ReasonNotFound, fleet.Gone, "its VM is gone")
	dead := found(fleet.ReasonUnhealthy, fleet.Up, "three reports are missing")
	for _, c := range []struct {
		name string
		h    fleet.Health
		now  time.Duration
		want fleet.Verdict
	}{
		// reports
		{"heard of in time", agent(fleet.Running), 10 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(11 * time.Second)}},
		{"one report overdue", agent(fleet.Running), 11 * time.Second,
			fleet.Verdict{Event: fleet.EventMissed, Power: fleet.Up, Why: "a report is overdue", AskProvider: true, Next: at(33 * time.Second)}},
		{"overdue, and the provider was asked since", agent(fleet.Suspect, looked(12*time.Second)), 20 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(33 * time.Second)}},
		{"three reports overdue", agent(fleet.Suspect), 33 * time.Second, dead},
		{"F32: three overdue at once, as after a pause of the server: perhaps all are", agent(fleet.Running), time.Minute,
			fleet.Verdict{Event: fleet.EventMissed, Power: fleet.Up, Why: "a report is overdue", AskProvider: true, Next: at(62 * time.Second)}},
		{"F32: suspect for a second only", agent(fleet.Suspect, looked(time.Minute), func(h *fleet.Health) { h.Doubted = at(time.Minute) }), 61 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(62 * time.Second)}},
		{"back from suspect", agent(fleet.Suspect), time.Second,
			fleet.Verdict{Event: fleet.EventReported, Power: fleet.Up, Why: "it was heard of", Next: at(11 * time.Second)}},
		{"back from unhealthy", agent(fleet.Unhealthy), time.Second,
			fleet.Verdict{Event: fleet.EventReported, Power: fleet.Up, Why: "it was heard of", Next: at(11 * time.Second)}},
		{"found sick before", agent(fleet.Unhealthy, func(h *fleet.Health) { h.Verdict = fleet.ReasonUnhealthy }), time.Minute,
			fleet.Verdict{Power: fleet.Up}},
		{"no interval, no judgement by reports", agent(fleet.Running, func(h *fleet.Health) { h.Interval = 0 }), time.Hour,
			fleet.Verdict{Power: fleet.Up}},

		// streams
		{"a broken stream is suspect at once", agent(fleet.Running, lost(time.Second)), time.Second,
			fleet.Verdict{Event: fleet.EventMissed, Power: fleet.Up, Why: "its stream broke", AskProvider: true, Next: at(33 * time.Second)}},
		{"a broken stream, provider asked", agent(fleet.Suspect, lost(time.Second), looked(2*time.Second)), 3 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(33 * time.Second)}},
		{"a goodbye is not suspect before its report is due", agent(fleet.Running, disconnected), 5 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(11 * time.Second)}},
		{"an agent that reports once counts while its stream is up", agent(fleet.Suspect, func(h *fleet.Health) { h.Single = true }), time.Hour,
			fleet.Verdict{Event: fleet.EventReported, Power: fleet.Up, Why: "it was heard of"}},
		{"and not when its stream was lost for long", agent(fleet.Suspect, func(h *fleet.Health) { h.Single = true }, lost(0)), 33 * time.Second, dead},

		// take-over
		{"F32: not judged by reports before the grace is over", agent(fleet.Running, disconnected, func(h *fleet.Health) { h.NotBefore = at(time.Minute) }), 40 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(time.Minute)}},
		{"but judged by its VM", agent(fleet.Running, seen(fleet.PresenceDown), func(h *fleet.Health) { h.NotBefore = at(time.Minute) }), 0, down},

		// mass silence
		{"F32: nobody is found sick while the brake is on", agent(fleet.Suspect, looked(12*time.Second), func(h *fleet.Health) { h.Suspended = at(30 * time.Minute) }), time.Minute,
			fleet.Verdict{Power: fleet.Up, Next: at(30 * time.Minute)}},
		{"F32: but the provider is asked", agent(fleet.Running, lost(time.Second), func(h *fleet.Health) { h.Suspended = at(30 * time.Minute) }), time.Minute,
			fleet.Verdict{Event: fleet.EventMissed, Power: fleet.Up, Why: "its stream broke", AskProvider: true, Next: at(30 * time.Minute)}},
		{"F32: and believed", agent(fleet.Suspect, seen(fleet.PresenceDown), func(h *fleet.Health) { h.Suspended = at(30 * time.Minute) }), time.Minute, down},
		{"F32: when the brake is off", agent(fleet.Suspect, func(h *fleet.Health) { h.Suspended = at(time.Minute) }), time.Minute, dead},

		// provider
		{"F28: a positive bad status needs no second look", agent(fleet.Running, seen(fleet.PresenceDown)), 0, down},
		{"a bad status before registration", booting(fleet.Provisioning, seen(fleet.PresenceDown)), time.Second, down},
		{"found sick by its reports, now its VM is down", agent(fleet.Unhealthy, seen(fleet.PresenceDown), func(h *fleet.Health) { h.Verdict = fleet.ReasonUnhealthy }), 0, down},
		{"one listing lacks it: ask", agent(fleet.Suspect, looked(0), lost(0), missed(fleet.ByList, time.Second)), 2 * time.Second,
			fleet.Verdict{Power: fleet.Up, AskProvider: true, Next: at(11 * time.Second)}},
		{"one Get lacks it: ask again in 10 s", agent(fleet.Suspect, looked(0), lost(0), missed(fleet.ByGet, time.Second)), 2 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(11 * time.Second)}},
		{"one Get lacks it, 10 s ago", agent(fleet.Suspect, looked(0), lost(0), missed(fleet.ByGet, time.Second)), 11 * time.Second,
			fleet.Verdict{Power: fleet.Up, AskProvider: true, Next: at(33 * time.Second)}},
		{"a Get and a listing lack it", agent(fleet.Suspect, missed(fleet.ByGet, time.Second), missed(fleet.ByList, 2*time.Second)), 2 * time.Second, gone},
		{"two Gets lack it, 10 s apart", agent(fleet.Suspect, missed(fleet.ByGet, time.Second), missed(fleet.ByGet, 11*time.Second)), 11 * time.Second, gone},
		{"two Gets lack it, too close", agent(fleet.Suspect, looked(0), lost(0), missed(fleet.ByGet, time.Second), missed(fleet.ByGet, 10*time.Second)), 10 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(11 * time.Second)}},
		{"absence says nothing while its stream is up", agent(fleet.Running, missed(fleet.ByGet, time.Second), missed(fleet.ByList, 2*time.Second), func(h *fleet.Health) { h.Connected = true }), 2 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(11 * time.Second)}},
		{"F20: absence within the lag of the creation is not even noted", booting(fleet.Provisioning, missed(fleet.ByGet, time.Second), missed(fleet.ByList, 59*time.Second)), 61 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(330 * time.Second)}},
		{"F20: nor counted when its create was sent again", booting(fleet.Provisioning, func(h *fleet.Health) {
			h.Absent = fleet.Absence{First: at(time.Second), Last: at(20 * time.Second)}
		}), 30 * time.Second,
			fleet.Verdict{Power: fleet.Up, Next: at(60 * time.Second)}},
		{"provisioning and gone", booting(fleet.Provisioning, missed(fleet.ByGet, 70*time.Second), missed(fleet.ByList, 71*time.Second)), 71 * time.Second, gone},

		// joining
		{"waits to register", booting(fleet.Provisioning), time.Minute,
			fleet.Verdict{Power: fleet.Up, Next: at(330 * time.Second)}},
		{"L3: never registered", booting(fleet.Provisioning), 330 * time.Second,
			found(fleet.ReasonRegistrationTimeout, fleet.Up, "its agent did not register in time")},
		{"L3: never registered and no VM known", booting(fleet.Pending), 330 * time.Second,
			found(fleet.ReasonRegistrationTimeout, fleet.NoVM, "its agent did not register in time")},
		{"a create that waits to be sent", booting(fleet.Pending, func(h *fleet.Health) { h.CreatingUntil = time.Time{} }), 5 * time.Minute,
			fleet.Verdict{Power: fleet.NoVM, Next: at(330 * time.Second)}},
		{"a create without an answer yet", booting(fleet.Pending), time.Minute,
			fleet.Verdict{Power: fleet.NoVM, Next: at(90 * time.Second)}},
		{"F19: the answer is overdue: ask", booting(fleet.Pending, missed(fleet.ByGet, 80*time.Second), missed(fleet.ByList, 95*time.Second)), 95 * time.Second,
			fleet.Verdict{Power: fleet.NoVM, AskProvider: true, Next: at(330 * time.Second)}},
		{"F19: two Gets are not enough to abandon a create", booting(fleet.Pending, missed(fleet.ByGet, 91*time.Second), missed(fleet.ByGet, 150*time.Second)), 150 * time.Second,
			fleet.Verdict{Power: fleet.NoVM, Next: at(330 * time.Second)}},
		{"F19: a Get and a listing lack it", booting(fleet.Pending, missed(fleet.ByGet, 91*time.Second), missed(fleet.ByList, 95*time.Second)), 95 * time.Second,
			found(fleet.ReasonAbandoned, fleet.NoVM, "its create was never answered and made no VM")},

		// not judged
		{"leaving", agent(fleet.Draining, seen(fleet.PresenceDown)), time.Hour, fleet.Verdict{Power: fleet.Up}},
		{"deleted", agent(fleet.Deleted), time.Hour, fleet.Verdict{Power: fleet.Up}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, fleet.Judge(c.h, at(c.now))); diff != "" {
				t.Errorf("at %v (-want +got):\n%s", c.now, diff)
			}
		})
	}
}

func drawHealth(t *rapid.T) fleet.Health {
	when := func(name string) time.Time {
		if rapid.Bool().Draw(t, name+" known") {
			return at(time.Duration(rapid.IntRange(-120, 120).Draw(t, name)) * time.Second)
		}
		return time.Time{}
	}
	h := fleet.Health{
		State:         rapid.SampledFrom(append(fleet.States(), "")).Draw(t, "state"),
		Power:         fleet.Power(rapid.IntRange(0, 3).Draw(t, "power")),
		Verdict:       rapid.SampledFrom([]fleet.Reason{"", fleet.ReasonUnhealthy, fleet.ReasonNotFound}).Draw(t, "verdict"),
		Created:       when("created"),
		Lag:           time.Duration(rapid.IntRange(0, 60).Draw(t, "lag")) * time.Second,
		CreatingUntil: when("creating until"),
		Registered:    rapid.Bool().Draw(t, "registered"),
		RegisterBy:    when("register by"),
		Connected:     rapid.Bool().Draw(t, "connected"),
		LastReport:    when("last report"),
		Interval:      time.Duration(rapid.IntRange(-1, 30).Draw(t, "interval")) * time.Second,
		Single:        rapid.Bool().Draw(t, "single"),
		NotBefore:     when("not before"),
		Suspended:     when("suspended"),
		Doubted:       when("doubted"),
		Seen:          fleet.Presence(rapid.IntRange(0, 2).Draw(t, "seen")),
		Looked:        when("looked"),
		Absent:        fleet.Absence{First: when("first"), Last: when("last"), Get: when("get"), List: when("list")},
	}
	if !h.Connected {
		h.Lost = when("lost")
	}
	return h
}

// TestJudgeIsTotal: whatever is known, the event is possible, one that is
// carried out is not given again, and waiting never points into the past.
func TestJudgeIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHealth(t)
		v := fleet.Judge(h, epoch)
		if !v.Next.IsZero() && !v.Next.After(epoch) {
			t.Fatalf("next %v is not to come: %+v", v.Next, v)
		}
		h.Power = v.Power
		if v.Event == 0 {
			return
		}
		next, err := h.State.On(v.Event)
		if err != nil {
			t.Fatal(err)
		}
		h.Registered = h.State.Registered() || h.State.Sick() && h.Registered
		h.State, h.Verdict = next, v.Reason
		if again := fleet.Judge(h, epoch); again.Event != 0 {
			t.Fatalf("judged %+v, and then %+v", v, again)
		}
	})
}

// TestS6_NoVerdictWithoutProof: while the stream is up and reports come in time
// nothing but the provider's positive word makes an instance sick.
func TestS6_NoVerdictWithoutProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHealth(t)
		h.State, h.Connected, h.Lost = fleet.Running, true, time.Time{}
		h.LastReport, h.Interval = epoch, 10*time.Second
		if v := fleet.Judge(h, at(time.Second)); v.Event == fleet.EventFoundSick && h.Seen != fleet.PresenceDown {
			t.Fatalf("%+v: %+v", h, v)
		}
	})
}
