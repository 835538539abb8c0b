package power_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nstance.dev/server/driver"
	"nstance.dev/server/power"
)

var epoch = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func marks(all ...power.Entry) []power.Entry { return all }

func mark(m power.Mark, d time.Duration) power.Entry {
	return power.Entry{Mark: m, At: at(d), Times: 1}
}

// taken is something that was sent and that the provider took at once.
func taken(m power.Mark, action driver.PowerAction, d time.Duration) power.Entry {
	return power.Entry{Mark: m, Action: action, At: at(d), Times: 1, Accepted: at(d)}
}

// sure is a machine that two answers have shown in a status.
func sure(status driver.Status) power.Sight {
	return power.Sight{Status: status, First: at(-time.Minute), Last: at(-time.Second)}
}

func once(status driver.Status) power.Sight {
	return power.Sight{Status: status, First: at(0), Last: at(0)}
}

// late is a cycle whose deadline has passed, with the marks that it has left.
func late(all ...power.Entry) power.Operation {
	return power.Operation{Name: power.Cycle, Marks: append(marks(mark(power.Intent, -2*time.Hour)), all...), Deadline: at(-time.Second)}
}

// TestM85_Next has each row of the tables of operations.
func TestM85_Next(t *testing.T) {
	all, google := driver.PowerActions(), []driver.PowerAction{driver.PowerOn, driver.PowerOff, driver.PowerCycle}
	const running, stopped = driver.Running, driver.Stopped
	intent := mark(power.Intent, -time.Hour)
	for _, c := range []struct {
		name string
		op   power.Operation
		v    power.View
		want power.Step
	}{
		{"the intent comes first", power.Operation{Name: power.Off}, power.View{Sight: sure(running), Offers: all}, power.Step{Mark: power.Intent}},
		{"off asks the system", power.Operation{Name: power.Off, Marks: marks(intent)}, power.View{Sight: sure(running), Offers: all},
			power.Step{Mark: power.OffSent, Send: driver.PowerOff}},
		{"off, hard", power.Operation{Name: power.Off, Hard: true, Marks: marks(intent)}, power.View{Sight: sure(running), Offers: all},
			power.Step{Mark: power.OffSent, Send: driver.PowerOffHard}},
		{"off, hard, where there is none", power.Operation{Name: power.Off, Hard: true, Marks: marks(intent)}, power.View{Sight: sure(running), Offers: google},
			power.Step{State: power.Failed, Reason: power.Unsupported, Message: "the machine offers no power off-hard; it offers [on off cycle]"}},
		{"off waits for its effect", power.Operation{Name: power.Off, Marks: marks(intent, mark(power.OffSent, -59*time.Second))}, power.View{Sight: sure(running), Offers: all}, power.Step{}},
		{"a minute later the system is not asked", power.Operation{Name: power.Off, Marks: marks(intent, taken(power.OffSent, driver.PowerOff, -time.Minute))}, power.View{Sight: sure(running), Offers: all},
			power.Step{Mark: power.OffSent, Send: driver.PowerOffHard}},
		{"it is asked once more where the provider did not take that", power.Operation{Name: power.Off, Marks: marks(intent, mark(power.OffSent, -time.Minute))}, power.View{Sight: sure(running), Offers: all},
			power.Step{Mark: power.OffSent, Send: driver.PowerOff}},
		{"it has its minute from when the provider took it", power.Operation{Name: power.Off, Marks: marks(intent,
			power.Entry{Mark: power.OffSent, Action: driver.PowerOff, At: at(-3 * time.Minute), Times: 1, Accepted: at(-59 * time.Second)})}, power.View{Sight: sure(running), Offers: all}, power.Step{}},
		{"off, hard, stays so", power.Operation{Name: power.Off, Marks: marks(intent, power.Entry{Mark: power.OffSent, Action: driver.PowerOffHard, At: at(-time.Minute), Times: 2})}, power.View{Sight: sure(running), Offers: all},
			power.Step{Mark: power.OffSent, Send: driver.PowerOffHard}},
		{"or asked again", power.Operation{Name: power.Off, Marks: marks(intent, mark(power.OffSent, -time.Minute))}, power.View{Sight: sure(running), Offers: google},
			power.Step{Mark: power.OffSent, Send: driver.PowerOff}},
		{"seen off once", power.Operation{Name: power.Off, Marks: marks(intent, mark(power.OffSent, -time.Minute))}, power.View{Sight: once(stopped), Offers: all}, power.Step{}},
		{"seen off", power.Operation{Name: power.Off, Marks: marks(intent, mark(power.OffSent, -time.Minute))}, power.View{Sight: sure(stopped), Offers: all},
			power.Step{Mark: power.OffSeen, State: power.Complete, Message: "the machine is off"}},
		{"off already", power.Operation{Name: power.Off, Marks: marks(intent)}, power.View{Sight: sure(stopped), Offers: all},
			power.Step{Mark: power.OffSeen, State: power.Complete, Message: "the machine is off"}},

		{"on", power.Operation{Name: power.On, Marks: marks(intent)}, power.View{Sight: sure(stopped), Offers: all}, power.Step{Mark: power.OnSent, Send: driver.PowerOn}},
		{"it runs, and its agent is silent", power.Operation{Name: power.On, Marks: marks(intent, mark(power.OnSent, -time.Minute))}, power.View{Sight: sure(running), Offers: all, Heard: at(-time.Hour)}, power.Step{}},
		{"it runs, and its agent reports", power.Operation{Name: power.On, Marks: marks(intent, mark(power.OnSent, -time.Minute))}, power.View{Sight: sure(running), Offers: all, Heard: at(-time.Second)},
			power.Step{Mark: power.OnSeen, State: power.Complete, Message: "the machine runs, and its agent has reported"}},
		{"it ran already", power.Operation{Name: power.On, Marks: marks(intent)}, power.View{Sight: sure(running), Offers: all, Heard: at(-time.Second)},
			power.Step{Mark: power.OnSeen, State: power.Complete, Message: "the machine runs, and its agent has reported"}},
		{"on, again", power.Operation{Name: power.On, Marks: marks(intent, mark(power.OnSent, -time.Minute))}, power.View{Sight: sure(stopped), Offers: all}, power.Step{Mark: power.OnSent, Send: driver.PowerOn}},

		{"a cycle begins with off", power.Operation{Name: power.Cycle, Marks: marks(intent)}, power.View{Sight: sure(running), Offers: all}, power.Step{Mark: power.OffSent, Send: driver.PowerOffHard}},
		{"seen off in a cycle", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, -time.Minute))}, power.View{Sight: sure(stopped), Offers: all}, power.Step{Mark: power.OffSeen}},
		{"a cycle of what is off", power.Operation{Name: power.Cycle, Marks: marks(intent)}, power.View{Sight: sure(stopped), Offers: all}, power.Step{Mark: power.OffSeen}},
		{"a cycle goes on with on", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, -time.Minute), mark(power.OffSeen, 0))}, power.View{Sight: sure(stopped), Offers: all},
			power.Step{Mark: power.OnSent, Send: driver.PowerOn}},
		{"somebody else has switched it on", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, -time.Minute), mark(power.OffSeen, 0), mark(power.OnSent, 0))}, power.View{Sight: sure(running), Offers: all},
			power.Step{Mark: power.OnSeen, State: power.Complete, Message: "the machine was switched off and on"}},
		{"the cloud's own cycle", power.Operation{Name: power.Cycle, Marks: marks(intent)}, power.View{Sight: sure(running), Offers: google}, power.Step{Mark: power.CycleSent, Send: driver.PowerCycle}},
		{"which is not sent twice", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.CycleSent, -time.Hour))}, power.View{Sight: sure(running), Offers: google, Booted: at(-2 * time.Hour)}, power.Step{}},
		{"and is over when the agent says so", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.CycleSent, -time.Hour))}, power.View{Sight: sure(running), Offers: google, Booted: at(-time.Minute)},
			power.Step{State: power.Complete, Message: "the machine has booted since the power cycle was sent"}},
		{"no cycle", power.Operation{Name: power.Cycle, Marks: marks(intent)}, power.View{Sight: sure(running), Offers: []driver.PowerAction{driver.PowerReboot}},
			power.Step{State: power.Failed, Reason: power.Unsupported, Message: "the machine offers no power cycle; it offers [reboot]"}},

		{"leaving", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, 0), mark(power.OffSeen, 0))}, power.View{Leaving: true, Sight: sure(stopped), Offers: all},
			power.Step{State: power.Failed, Reason: power.InstanceLeaving, Message: "the instance is to be deleted: the machine is off"}},
		{"cancelled", power.Operation{Name: power.Off, Barred: power.Bar{Reason: power.Cancelled, Message: "it was cancelled before anything was sent"}, Marks: marks(intent)}, power.View{Sight: sure(running), Offers: all},
			power.Step{State: power.Failed, Reason: power.Cancelled, Message: "it was cancelled before anything was sent"}},
		{"cancelled too late", power.Operation{Name: power.Cycle, Barred: power.Bar{Reason: power.NoHold, Message: "no"}, Marks: marks(intent, mark(power.OffSent, 0), mark(power.OffSeen, 0))}, power.View{Sight: sure(stopped), Offers: all},
			power.Step{Mark: power.OnSent, Send: driver.PowerOn}},
		{"late before it began", power.Operation{Name: power.Off, Marks: marks(intent), Deadline: at(-time.Second)}, power.View{Sight: sure(running), Offers: all},
			power.Step{State: power.Failed, Reason: power.Timeout, Message: "its deadline has passed: nothing was sent"}},
		{"late in a cycle: it is not left off", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, 0), mark(power.OffSeen, 0)), Deadline: at(-time.Second)}, power.View{Sight: sure(stopped), Offers: all},
			power.Step{Mark: power.OnSent, Send: driver.PowerOn}},
		{"late after that", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, 0), mark(power.OffSeen, 0), taken(power.OnSent, driver.PowerOn, -time.Hour)), Deadline: at(-time.Second)}, power.View{Sight: sure(stopped), Offers: all},
			power.Step{State: power.Failed, Reason: power.Timeout, Message: "its deadline has passed: on was sent, and the machine was not seen to run with its agent"}},
		{"late after an on that the provider did not take", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, 0), mark(power.OffSeen, 0), mark(power.OnSent, -time.Minute)), Deadline: at(-time.Second)}, power.View{Sight: sure(stopped), Offers: all},
			power.Step{Mark: power.OnSent, Send: driver.PowerOn}},
		{"late in a cycle, and seen off once", late(taken(power.OffSent, driver.PowerOffHard, -time.Hour)), power.View{Sight: once(stopped), Offers: all}, power.Step{}},
		{"late in a cycle, and seen off", late(taken(power.OffSent, driver.PowerOffHard, -time.Hour)), power.View{Sight: sure(stopped), Offers: all}, power.Step{Mark: power.OffSeen}},
		{"late in a cycle, and stopping", late(taken(power.OffSent, driver.PowerOffHard, -time.Hour)), power.View{Sight: sure(driver.Stopping), Offers: all}, power.Step{}},
		{"late in a cycle, and not seen", late(taken(power.OffSent, driver.PowerOffHard, -time.Hour)), power.View{}, power.Step{}},
		{"late in a cycle, and off may take effect yet", late(taken(power.OffSent, driver.PowerOffHard, -4*time.Minute)), power.View{Sight: sure(running), Offers: all}, power.Step{}},
		{"late in a cycle, and off had no effect", late(taken(power.OffSent, driver.PowerOffHard, -6*time.Minute)), power.View{Sight: sure(running), Offers: all},
			power.Step{State: power.Failed, Reason: power.Timeout, Message: "its deadline has passed: it was to be switched off and on, and is running"}},
		{"late, and nothing is known", power.Operation{Name: power.Off, Marks: marks(intent), Deadline: at(-time.Second)}, power.View{},
			power.Step{State: power.Failed, Reason: power.Timeout, Message: "its deadline has passed: nothing was sent"}},
		{"nothing is known", power.Operation{Name: power.Off, Marks: marks(intent)}, power.View{Sight: sure(running)}, power.Step{}},
		{"a machine of a cycle that came back by itself", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, -10*time.Minute), mark(power.OffSeen, -5*time.Minute))}, power.View{Sight: sure(running), Offers: all},
			power.Step{Mark: power.OnSeen, State: power.Complete, Message: "the machine was switched off, and runs again by itself"}},
		{"what was seen before it was off does not count", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.OffSent, -10*time.Minute), mark(power.OffSeen, -time.Second))}, power.View{Sight: sure(running), Offers: all}, power.Step{}},
		{"late, and whether it happened is not known", power.Operation{Name: power.Cycle, Marks: marks(intent, mark(power.CycleSent, -time.Hour)), Deadline: at(-time.Second)}, power.View{Sight: sure(running), Offers: google},
			power.Step{State: power.Failed, Reason: power.Interrupted, Message: "a power cycle was sent, and the agent has not reported a new boot; it is not sent twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.op.Deadline.IsZero() {
				c.op.Deadline = at(time.Hour)
			}
			if got := power.Next(c.op, c.v, epoch); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// TestM85_CrashesBetweenTheMarks has an operation carried out by leaders that die at every write and
// every call, on a machine that obeys at once or late: it happens once.
func TestM85_CrashesBetweenTheMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		op := power.Operation{Name: rapid.SampledFrom(power.Names()).Draw(t, "name"), Hard: rapid.Bool().Draw(t, "hard"), Deadline: at(time.Duration(rapid.SampledFrom([]int{1, 20, 60, 120, 3600}).Draw(t, "deadline")) * time.Second)}
		offers := rapid.SampledFrom([][]driver.PowerAction{driver.PowerActions(), {driver.PowerOn, driver.PowerOff, driver.PowerCycle}}).Draw(t, "offers")
		m := &machine{status: rapid.SampledFrom([]driver.Status{driver.Running, driver.Stopped}).Draw(t, "status"), takes: time.Duration(rapid.IntRange(0, 90).Draw(t, "takes")) * time.Second}
		was := m.status
		now, sight := epoch, power.Sight{}
		crashes, refusals := rapid.IntRange(0, 5).Draw(t, "crashes"), rapid.IntRange(0, 3).Draw(t, "refusals")
		var asked time.Time // when the system was asked to stop, and the provider took it
		var last power.Step
		for range 4000 {
			now = now.Add(5 * time.Second)
			sight = sight.Saw(m.at(now), now)
			last = power.Next(op, power.View{Sight: sight, Offers: offers, Heard: m.heard(now), Booted: m.booted}, now)
			crash := ""
			if crashes > 0 && (last.Mark != "" || last.Send != "") {
				crash = rapid.SampledFrom([]string{"", "before the mark", "after the mark", "after the call"}).Draw(t, "crash")
			}
			if crash != "" {
				crashes--
				sight = power.Sight{}
			}
			if crash == "before the mark" {
				continue
			}
			if last.Mark != "" {
				op.Marks = power.Set(op.Marks, last.Mark, last.Send, now)
			}
			if crash == "after the mark" {
				continue
			}
			if last.Send != "" && refusals > 0 && rapid.Bool().Draw(t, "throttled") {
				refusals--
				continue
			}
			if last.Send == driver.PowerOffHard && op.Name == power.Off && !op.Hard && (asked.IsZero() || now.Before(asked.Add(time.Minute))) {
				t.Fatalf("the machine is switched off, and its system was asked at %v", asked)
			}
			if last.Send == driver.PowerOff {
				asked = now
			}
			if last.Send != "" {
				m.send(last.Send, now)
			}
			if last.Send != "" && crash == "" {
				op.Marks = power.Accept(op.Marks, last.Mark, now)
			}
			if last.State != "" && crash == "" {
				break
			}
		}
		ends := map[power.Name]driver.Status{power.On: driver.Running, power.Cycle: driver.Running, power.Off: driver.Stopped}[op.Name]
		switch {
		case last.State == "":
			t.Fatalf("it does not end: %+v", op.Marks)
		case m.offs > 1 || m.ons > 1 || m.cycles > 1:
			t.Fatalf("the machine went off %d times, on %d times, and was cycled %d times", m.offs, m.ons, m.cycles)
		case last.State == power.Complete && m.at(now) != ends:
			t.Fatalf("%s is complete, and the machine is %s", op.Name, m.at(now))
		case last.State == power.Complete && op.Name == power.Cycle && was == driver.Running && m.cycles == 0 && (m.offs != 1 || m.ons != 1):
			t.Fatalf("a cycle is complete after %d offs and %d ons", m.offs, m.ons)
		case last.State == power.Failed && op.Name == power.Cycle && (m.at(now) == driver.Stopped && m.becomes != driver.Running || m.becomes == driver.Stopped) && was == driver.Running:
			t.Fatalf("a cycle left the machine off: %+v", last)
		}
	})
}

// machine obeys, after a while.
type machine struct {
	status            driver.Status
	takes             time.Duration
	becomes           driver.Status // at due; empty: nothing is under way
	due               time.Time
	offs, ons, cycles int // that had an effect
	booted            time.Time
}

func (m *machine) at(now time.Time) driver.Status {
	if m.becomes == "" || now.Before(m.due) {
		return m.status
	}
	if m.becomes == driver.Running && m.status != driver.Running {
		m.booted = now
	}
	m.status, m.becomes = m.becomes, ""
	return m.status
}

func (m *machine) heard(now time.Time) time.Time {
	if m.at(now) == driver.Running {
		return now
	}
	return time.Time{}
}

func (m *machine) send(action driver.PowerAction, now time.Time) {
	goal := m.at(now)
	if m.becomes != "" {
		goal = m.becomes
	}
	switch {
	case action == driver.PowerCycle:
		m.cycles++
		m.status, m.becomes, m.booted = driver.Running, "", now.Add(time.Second)
	case slices.Contains([]driver.PowerAction{driver.PowerOff, driver.PowerOffHard}, action) && goal != driver.Stopped:
		m.offs++
		m.becomes, m.due = driver.Stopped, now.Add(m.takes)
	case action == driver.PowerOn && goal != driver.Running:
		m.ons++
		m.becomes, m.due = driver.Running, now.Add(m.takes)
	}
}
