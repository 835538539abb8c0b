// Package power decides how an operation switches a machine off or on: what is sent to the
// provider next, what is written down first, and when it is over.
//
// [Next] is pure: no clock, no I/O. An operation is what was asked for and the marks that it
// has left. Each mark of something that is sent is durable before it is sent, so whoever goes
// on with an operation after a crash knows what may have been sent. Off and on may be sent
// again, and are where their effect is not seen a minute after they were taken. A system that
// was asked to stop has that minute; one that cannot have been asked is asked, and not switched
// off. A cycle of the cloud, which happens as often as it is sent, is sent once.
//
// It leaves to others: who may ask, where marks are kept, calls to the provider, and looking at
// the machine. Whoever carries steps out must make the mark durable, then send, and stop at
// either's failure; what the provider took is noted with [Accept].
package power

import (
	"fmt"
	"slices"
	"time"

	"nstance.dev/server/driver"
)

// Name is that of an operation, in the words of the API.
type Name string

// The operations.
const (
	On    Name = "powerOn"    // it runs, and its agent has reported since
	Off   Name = "powerOff"   // it is off; its system is asked first, unless Hard
	Cycle Name = "powerCycle" // it was off without being asked, and runs
)

// Names returns every operation.
func Names() []Name { return []Name{On, Off, Cycle} }

// Mark is what an operation has done or seen, in the words of its record.
type Mark string

// The marks. What is sent may not have arrived; seen means twice, some seconds apart.
const (
	Intent    Mark = "intent" // nothing is sent yet
	OffSent   Mark = "off-sent"
	OffSeen   Mark = "off-seen"
	OnSent    Mark = "on-sent"
	OnSeen    Mark = "on-seen"
	CycleSent Mark = "cycle-sent"
)

// Marks returns every mark.
func Marks() []Mark { return []Mark{Intent, OffSent, OffSeen, OnSent, OnSeen, CycleSent} }

// Entry is a mark in the record of an operation.
type Entry struct {
	Mark   Mark
	Action driver.PowerAction // what was sent; empty: nothing
	At     time.Time          // when it was set last
	Times  int                // how often, from 1
	// Accepted is when the provider took what was sent last; zero: that is not known.
	Accepted time.Time
}

// since is when waiting for the effect of what was sent last began.
func (e *Entry) since() time.Time {
	if e.Accepted.After(e.At) {
		return e.Accepted
	}
	return e.At
}

// Operation is what was asked for, and what has come of it.
type Operation struct {
	Name     Name
	Hard     bool // of Off: the system is not asked
	Marks    []Entry
	Deadline time.Time
	// Barred says why nothing of it may begin any more. What was begun goes on to its end, so
	// that no machine stays off that was to be on.
	Barred Bar
}

// Bar is why an operation ends of which nothing was sent. The zero Bar is none.
type Bar struct {
	Reason  string // one of the reasons
	Message string // for people
}

// View is what is known of the machine.
type View struct {
	// Leaving: the instance is to be deleted, and its machine must not run again.
	Leaving bool
	Sight   Sight
	Offers  []driver.PowerAction // what the machine can be asked for; nil: that is not known
	Heard   time.Time            // when its agent last reported; zero: it has not
	Booted  time.Time            // when its system began, by its agent; zero: not known
}

// known reports whether the provider has answered.
func (v View) known() bool { return v.Sight.Status != "" && v.Offers != nil }

// notOff reports whether the machine is not off, nor will be by what was sent until since.
func (v View) notOff(since time.Time) bool {
	switch v.Sight.Status {
	case "", driver.Stopped, driver.Stopping, driver.Unknown:
		return false
	default:
		return v.Sight.is(v.Sight.Status) && v.Sight.Last.After(since.Add(noEffect))
	}
}

// Sight is a run of answers of the provider that all say the same.
type Sight struct {
	Status      driver.Status
	First, Last time.Time // when the provider was asked
}

// apart is how far apart two answers are of which the second confirms the first.
const apart = 5 * time.Second

// Saw adds an answer.
func (s Sight) Saw(status driver.Status, at time.Time) Sight {
	if status != s.Status {
		return Sight{Status: status, First: at, Last: at}
	}
	s.Last = at
	return s
}

// is reports whether the machine is surely in a status.
func (s Sight) is(status driver.Status) bool {
	return s.Status == status && s.Last.Sub(s.First) >= apart
}

// State is how far an operation is.
type State string

// The states, the last two of which are final.
const (
	InProgress State = "InProgress"
	Complete   State = "Complete"
	Failed     State = "Failed"
)

// Reasons for which operations fail.
const (
	Unsupported     = "Unsupported"     // the machine cannot be switched so
	Timeout         = "Timeout"         // its deadline passed
	Interrupted     = "Interrupted"     // whether it has happened is not known, and it must not happen twice
	InstanceLeaving = "InstanceLeaving" // the instance is to be deleted
	Refused         = "Refused"         // the provider does not take it in this form
	Cancelled       = "Cancelled"       // before anything was sent
	NoHold          = "NoHold"          // before anything was sent its instance was not on hold any more
)

// Step is what comes next. In this order: Mark is made durable, Send is sent, and with a final
// State the operation is over. The zero Step waits until something is seen.
type Step struct {
	Mark  Mark               // empty: none
	Send  driver.PowerAction // empty: nothing
	State State              // empty: it goes on

	Reason  string // with Failed: one of the reasons
	Message string // with a final state, for people
}

// again is how long the effect of something that was sent is waited for before it is sent again.
const again = time.Minute

// noEffect is how long after off was sent a machine that is not seen off, nor stopping, stays on.
const noEffect = 5 * time.Minute

// Next returns the next step of an operation. Equal arguments give equal steps.
func Next(op Operation, v View, now time.Time) Step {
	late := !now.Before(op.Deadline)
	switch {
	case v.Leaving:
		return fail(InstanceLeaving, "the instance is to be deleted: "+op.standing())
	case len(op.Marks) == 0:
		return Step{Mark: Intent}
	case op.Barred != (Bar{}) && !op.begun():
		return fail(op.Barred.Reason, op.Barred.Message)
	case !v.known() && late && !op.leavesOff():
		return op.overdue()
	case !v.known():
		return Step{}
	}
	step := op.next(v, now)
	switch {
	case !late || step.State != "", step.Mark == OffSeen:
		return step
	case op.leavesOff():
		return op.bringBack(step, v)
	default:
		return op.overdue()
	}
}

// overdue is the end of an operation whose deadline has passed.
func (op Operation) overdue() Step {
	if op.has(CycleSent) {
		return fail(Interrupted, "a power cycle was sent, and the agent has not reported a new boot; it is not sent twice")
	}
	return fail(Timeout, "its deadline has passed: "+op.standing())
}

// leavesOff reports whether a cycle would leave its machine off if it ended now: off was sent, and
// the provider has not taken an on since.
func (op Operation) leavesOff() bool {
	on := op.find(OnSent)
	return op.Name == Cycle && (op.has(OffSent) || op.has(OffSeen)) && (on == nil || on.Accepted.IsZero())
}

// bringBack is what is left of a cycle whose deadline has passed: its machine is switched on, as
// soon as it is off. Off is not sent any more, and it is over if that had no effect.
func (op Operation) bringBack(step Step, v View) Step {
	sent := op.find(OffSent)
	if sent == nil {
		sent = op.find(OffSeen)
	}
	switch {
	case v.notOff(sent.since()):
		return fail(Timeout, fmt.Sprintf("its deadline has passed: it was to be switched off and on, and is %s", v.Sight.Status))
	case step.Mark == OffSent:
		return Step{}
	default:
		return step
	}
}

func (op Operation) next(v View, now time.Time) Step {
	switch op.Name {
	case On:
		return op.turnOn(v, now)
	case Off:
		return op.turnOff(v, now, op.Hard)
	case Cycle:
		return op.cycle(v, now)
	default:
		return fail(Unsupported, fmt.Sprintf("operation %q is not known", op.Name))
	}
}

// turnOff ends when the machine is off, whoever has switched it off.
func (op Operation) turnOff(v View, now time.Time, hard bool) Step {
	sent := op.find(OffSent)
	switch {
	case v.Sight.is(driver.Stopped) && op.Name == Off:
		return Step{Mark: OffSeen, State: Complete, Message: "the machine is off"}
	case v.Sight.is(driver.Stopped):
		return Step{Mark: OffSeen}
	case v.Sight.Status == driver.Stopped, sent != nil && now.Before(sent.since().Add(again)):
		return Step{}
	}
	action := driver.PowerOff
	offers := func(a driver.PowerAction) bool { return slices.Contains(v.Offers, a) }
	// Its system was asked only where the provider has taken that.
	asked := sent != nil && (sent.Action == driver.PowerOffHard || !sent.Accepted.IsZero())
	if hard || offers(driver.PowerOffHard) && (asked || !offers(driver.PowerOff)) {
		action = driver.PowerOffHard
	}
	if !offers(action) {
		return fail(Unsupported, fmt.Sprintf("the machine offers no power %s; it offers %v", action, v.Offers))
	}
	return Step{Mark: OffSent, Send: action}
}

// turnOn ends when the machine runs and, where that was all that was asked for, when its agent
// has reported.
func (op Operation) turnOn(v View, now time.Time) Step {
	sent := op.find(OnSent)
	since := op.Marks[0].At
	if sent != nil {
		since = sent.At
	}
	runs := v.Sight.is(driver.Running)
	switch {
	case runs && op.Name == Cycle && sent != nil:
		return Step{Mark: OnSeen, State: Complete, Message: "the machine was switched off and on"}
	case runs && op.Name == Cycle && v.Sight.First.After(op.find(OffSeen).At):
		return Step{Mark: OnSeen, State: Complete, Message: "the machine was switched off, and runs again by itself"}
	case runs && op.Name == On && v.Heard.After(since):
		return Step{Mark: OnSeen, State: Complete, Message: "the machine runs, and its agent has reported"}
	case v.Sight.Status == driver.Running, v.Sight.Status == driver.Pending, sent != nil && now.Before(sent.since().Add(again)):
		return Step{}
	case !slices.Contains(v.Offers, driver.PowerOn):
		return fail(Unsupported, fmt.Sprintf("the machine offers no power %s; it offers %v", driver.PowerOn, v.Offers))
	}
	return Step{Mark: OnSent, Send: driver.PowerOn}
}

// cycle goes by two steps where the machine can be switched off without being asked, and else
// by the cloud's own cycle, which is sent once.
func (op Operation) cycle(v View, now time.Time) Step {
	sent := op.find(CycleSent)
	switch {
	case sent != nil && v.Booted.After(sent.At):
		return Step{State: Complete, Message: "the machine has booted since the power cycle was sent"}
	case sent != nil:
		return Step{}
	case op.has(OffSeen):
		return op.turnOn(v, now)
	case op.has(OffSent), slices.Contains(v.Offers, driver.PowerOffHard):
		return op.turnOff(v, now, true)
	case slices.Contains(v.Offers, driver.PowerCycle):
		return Step{Mark: CycleSent, Send: driver.PowerCycle}
	default:
		return fail(Unsupported, fmt.Sprintf("the machine offers no power %s; it offers %v", driver.PowerCycle, v.Offers))
	}
}

func fail(reason, message string) Step { return Step{State: Failed, Reason: reason, Message: message} }

// find returns the entry of a mark; nil: it is not set.
func (op Operation) find(mark Mark) *Entry {
	i := slices.IndexFunc(op.Marks, func(e Entry) bool { return e.Mark == mark })
	if i < 0 {
		return nil
	}
	return &op.Marks[i]
}

func (op Operation) has(mark Mark) bool { return op.find(mark) != nil }

// begun reports whether anything may have been sent.
func (op Operation) begun() bool { return op.has(OffSent) || op.has(OnSent) || op.has(CycleSent) }

// standing says how far the operation has come, for people.
func (op Operation) standing() string {
	if len(op.Marks) == 0 {
		return "nothing was sent"
	}
	switch last := op.Marks[len(op.Marks)-1]; last.Mark {
	case OffSent:
		return "off was sent, and the machine was not seen to be off"
	case OffSeen:
		return "the machine is off"
	case OnSent:
		return "on was sent, and the machine was not seen to run with its agent"
	case CycleSent:
		return "a power cycle was sent"
	default:
		return "nothing was sent"
	}
}

// Set returns marks with one more, or with one that was set again: then it counts from now on.
func Set(marks []Entry, mark Mark, action driver.PowerAction, now time.Time) []Entry {
	marks = slices.Clone(marks)
	for i := range marks {
		if marks[i].Mark == mark {
			marks[i].Action, marks[i].At, marks[i].Accepted = action, now, time.Time{}
			marks[i].Times++
			return marks
		}
	}
	return append(marks, Entry{Mark: mark, Action: action, At: now, Times: 1})
}

// Accept returns marks that say that the provider took what was sent last under one of them.
func Accept(marks []Entry, mark Mark, now time.Time) []Entry {
	marks = slices.Clone(marks)
	for i := range marks {
		if marks[i].Mark == mark {
			marks[i].Accepted = now
		}
	}
	return marks
}
