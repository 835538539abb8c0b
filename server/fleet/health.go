package fleet

import "time"

// Health is what is known about one instance when it is judged.
type Health struct {
	State   State
	Power   Power  // what was known of the VM so far
	Verdict Reason // why it is Unhealthy, if it is

	// Created is when the provider's create was last sent; the creation of the
	// record where that is not known. Within Lag of it absence says nothing.
	Created time.Time
	Lag     time.Duration

	// CreatingUntil is when a create without an answer counts as lost. It binds
	// while the state is Pending. Zero: the create still waits to be sent.
	CreatingUntil time.Time

	// Registered says of a sick instance whether its agent had registered; of
	// others the state says it. RegisterBy is until when the agent may register,
	// leeway included; zero: for ever.
	Registered bool
	RegisterBy time.Time

	// Connected: the agent's stream is up. Lost is when the stream broke without
	// a goodbye; zero if it did not, or is up again.
	Connected bool
	Lost      time.Time

	// LastReport is when a report was last accepted: the registration or the
	// take-over, if none was since. Interval is the time between two
	// reports; without one, reports decide nothing.
	// Single: the agent reports once and is judged by its stream alone;
	// LastReport is then when the stream was last up.
	LastReport time.Time
	Interval   time.Duration
	Single     bool

	// NotBefore is the earliest moment at which overdue reports count. A new
	// leader sets it for instances it has not heard of.
	NotBefore time.Time

	// Doubted is when it became suspect; zero: it is not. It stays so for a moment,
	// however late its reports are: all may be, and see [Silence].
	Doubted time.Time

	// Suspended is until when nobody is found sick for missing reports; see
	// [Silence]. Zero: that is not suspended.
	Suspended time.Time

	// Hold is the hold of the instance. Until it ends, neither silence nor a VM that does not
	// run is a failure; afterwards reports are missing from its end on, and the provider is
	// asked again.
	Hold Hold

	// Seen is what the provider last said, at Looked (zero: never asked), and
	// Absent the observations that the VM is not there. Said is why the VM does not
	// run, in the provider's words; empty: it did not say.
	Seen   Presence
	Looked time.Time
	Absent Absence
	Said   string
}

// Verdict is the answer of [Judge].
type Verdict struct {
	Event  Event  // EventMissed, EventReported, EventFoundSick, or none
	Reason Reason // with EventFoundSick
	Power  Power  // what is now known of the VM; holds without an event too
	Why    string // with an event, for people

	// AskProvider: a Get made now may settle the matter.
	AskProvider bool
	// Next is when to judge again without news; zero: only news matters.
	Next time.Time
}

// Judge says what the health of one instance means at now. Its event is always
// possible in the given state, and none where nothing changes. Instances that
// are leaving or deleted are not judged.
func Judge(h Health, now time.Time) Verdict {
	if !h.State.Live() && !h.State.Sick() {
		return Verdict{Power: h.Power}
	}
	v := h.judgeVM(now)
	if v.Event == 0 {
		v = v.with(h.judgeAgent(now))
	}
	if v.Event == 0 && h.State.Sick() && h.held(now) {
		v.Event, v.Why = EventReported, "it is on hold"
	}
	if v.Event == EventFoundSick && h.State.Sick() && v.Reason == h.Verdict && v.Power == h.Power {
		return Verdict{Power: h.Power} // as it was found before
	}
	return v
}

// with adds the judgement of the agent to that of the VM, which found nothing.
func (v Verdict) with(agent Verdict) Verdict {
	agent.Power = v.Power
	agent.AskProvider = agent.AskProvider || v.AskProvider
	agent.Next = earlier(v.Next, agent.Next)
	return agent
}

// judgeVM looks at the provider's word. That a VM is down needs no second look;
// that it is not there does, and never overrules a stream that is up.
func (h Health) judgeVM(now time.Time) Verdict {
	switch {
	case h.Seen != PresenceDown:
	case h.held(now):
		return Verdict{Power: Down, Next: h.Hold.Until}
	case h.Looked.Before(h.Hold.Ended(now)):
		return Verdict{Power: Down, AskProvider: true, Next: now.Add(absenceApart)} // it was on purpose then
	default:
		return unhealthyVerdict(ReasonUnhealthy, Down, because("the provider says that its VM does not run", h.Said))
	}
	if h.noVM() {
		return Verdict{Power: NoVM}
	}
	if h.Connected || h.Absent.First.IsZero() {
		return Verdict{Power: Up}
	}
	shown := h.Created.Add(h.Lag)
	if now.Before(shown) {
		return Verdict{Power: Up, Next: shown}
	}
	if h.Absent.First.Before(shown) {
		return Verdict{Power: Up, AskProvider: true} // seen too early to count
	}
	if h.Absent.Confirmed() {
		return unhealthyVerdict(ReasonNotFound, Gone, because("its VM is gone", h.Said))
	}
	again := h.Absent.First.Add(absenceApart)
	return Verdict{
		Power:       Up,
		AskProvider: h.Absent.Get.IsZero() || !now.Before(again),
		Next:        after(again, now),
	}
}

// noVM reports whether no VM is known to have been made. Whose agent has registered
// has had one.
func (h Health) noVM() bool {
	return h.Seen == PresenceUnknown && (h.State == Pending || h.State.Sick() && h.Power == NoVM && !h.Registered)
}

// joined reports whether the agent of the instance has registered.
func (h Health) joined() bool { return h.State.Registered() || h.State.Sick() && h.Registered }

// held reports whether the instance is on hold. One whose agent has not registered has
// nothing yet that could be kept.
func (h Health) held(now time.Time) bool { return h.joined() && h.Hold.Excuses(now) }

func (h Health) judgeAgent(now time.Time) Verdict {
	if h.joined() {
		return h.judgeReports(now)
	}
	return h.judgeJoining(now)
}

// judgeJoining looks at an instance whose agent has not registered.
func (h Health) judgeJoining(now time.Time) Verdict {
	if !h.RegisterBy.IsZero() && !now.Before(h.RegisterBy) {
		return unhealthyVerdict(ReasonRegistrationTimeout, Up, "its agent did not register in time")
	}
	v := Verdict{Next: h.RegisterBy}
	if h.State != Pending || !h.noVM() || h.CreatingUntil.IsZero() {
		return v
	}
	if now.Before(h.CreatingUntil) {
		v.Next = earlier(v.Next, h.CreatingUntil)
		return v
	}
	if h.Absent.agreed(h.CreatingUntil) {
		return unhealthyVerdict(ReasonAbandoned, NoVM, "its create was never answered and made no VM")
	}
	v.AskProvider = h.Absent.Get.Before(h.CreatingUntil)
	return v
}

// judgeReports looks at what was heard of a registered agent.
func (h Health) judgeReports(now time.Time) Verdict {
	overdue, dead := h.deadlines(now)
	switch {
	case h.Interval <= 0:
		return Verdict{}
	case h.Single && h.Connected:
		return h.heard(time.Time{})
	case now.Before(overdue) && h.Lost.IsZero():
		return h.heard(overdue)
	case now.Before(h.NotBefore):
		return Verdict{Next: h.NotBefore}
	case h.held(now):
		return h.missed(overdue, h.Hold.Until)
	case !now.Before(dead) && (h.State.Sick() || !h.Doubted.IsZero() && !now.Before(h.doubtOver())):
		return unhealthyVerdict(ReasonUnhealthy, Up, "three reports are missing")
	}
	next := after(later(dead, h.doubtOver()), now)
	if next.IsZero() {
		next = now.Add(doubt)
	}
	return h.missed(overdue, next)
}

// missed is the verdict on an agent that is silent, to be judged again at next.
func (h Health) missed(overdue, next time.Time) Verdict {
	v := Verdict{AskProvider: h.Looked.Before(h.suspectSince(overdue)), Next: next}
	if h.State == Running {
		v.Event, v.Why = EventMissed, "a report is overdue"
		if !h.Lost.IsZero() {
			v.Why = "its stream broke"
		}
	}
	return v
}

// doubt is how long an instance is suspect at least before it is found sick for
// missing reports.
const doubt = 2 * time.Second

// doubtOver is when missing reports may count.
func (h Health) doubtOver() time.Time {
	if h.Doubted.IsZero() {
		return h.Suspended
	}
	return later(h.Doubted.Add(doubt), h.Suspended)
}

// deadlines are when a report is overdue and when three are: a tenth of the
// interval later than the agent is to send them. Three count from the end of a hold.
func (h Health) deadlines(now time.Time) (overdue, dead time.Time) {
	grace := h.Interval / 10
	from := later(h.LastReport, h.Hold.Ended(now))
	return h.LastReport.Add(h.Interval + grace), from.Add(3 * (h.Interval + grace))
}

func (h Health) suspectSince(overdue time.Time) time.Time {
	if !h.Lost.IsZero() {
		return earlier(h.Lost, overdue)
	}
	return overdue
}

// heard is the verdict on an agent that was heard of in time.
func (h Health) heard(next time.Time) Verdict {
	v := Verdict{Next: next}
	if h.State == Suspect || h.State.Sick() {
		v.Event, v.Why = EventReported, "it was heard of"
	}
	return v
}

// because adds the provider's reason to what was found, if it gave one.
func because(found, said string) string {
	if said == "" {
		return found
	}
	return found + ": " + said
}

// unhealthyVerdict is the verdict that an instance is unhealthy.
func unhealthyVerdict(r Reason, p Power, why string) Verdict {
	return Verdict{Event: EventFoundSick, Reason: r, Power: p, Why: why}
}

// earlier is the sooner of two times, of which a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// after is t if it is still to come, else zero.
func after(t, now time.Time) time.Time {
	if t.After(now) {
		return t
	}
	return time.Time{}
}
