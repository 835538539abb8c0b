package demandloop

import (
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
)

// inHostWorld runs a test where nodes run in node machines. Agents need no capability of theirs.
func inHostWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		w.hosts, w.unable = true, true
		w.connect()
		test(t, w)
	})
}

// quiet checks that nothing was bought beside what is there, that nobody was asked for what it takes to join, and
// that nothing was given up.
func (w *world) quiet(when string, purchases int) {
	w.t.Helper()
	if n := w.purchases(); n != purchases {
		w.t.Errorf("%s: %d machines were bought, want %d", when, n, purchases)
	}
	if n := w.op.asked(); n > 0 {
		w.t.Errorf("%s: the operator was asked %d times for what it takes to join", when, n)
	}
	if got := w.failures(); len(got) > 0 {
		w.t.Errorf("%s: given up for %v", when, got)
	}
}

// M3, M12: a machine that is bound waits for its configuration for as long as it takes. Its need says so once the
// join deadline is over, and buys nothing more; a leader that comes later goes on waiting.
func TestM3M12_AMachineWaitsForItsConfiguration(t *testing.T) {
	inHostWorld(t, func(t *testing.T, w *world) {
		w.ask(8)
		pass(time.Minute)
		w.want("bound", map[string]int{"configuring": 2})
		if c := w.op.told("f"); c.Reason != "" || len(c.Shortfall) > 0 {
			t.Errorf("before the deadline the need is short: %+v", c)
		}
		pass(11 * time.Minute)
		c := w.op.told("f")
		if c.Reason != demand.ConfigurationPending || len(c.Shortfall) == 0 || c.Shortfall[0].Name != "cpu" || c.Shortfall[0].Amount != 8000 {
			t.Errorf("after the deadline: %+v", c)
		}
		pass(24 * time.Hour)
		w.want("a day later", map[string]int{"configuring": 2})
		w.quiet("a day later", 2)
		w.restart()
		w.connect()
		w.ask(8)
		pass(24 * time.Hour)
		w.want("under another leader", map[string]int{"configuring": 2})
		w.quiet("under another leader", 2)
		if c := w.op.told("f"); c.Reason != demand.ConfigurationPending {
			t.Errorf("under another leader: %+v", c)
		}
		for _, row := range w.All() {
			w.op.ready(row.ID)
		}
		pass(time.Minute)
		w.want("the nodes have joined", map[string]int{"bound": 2})
		if c := w.op.told("f"); c.Reason != "" || len(c.Shortfall) > 0 {
			t.Errorf("the need is still short: %+v", c)
		}
		w.quiet("at the end", 2)
	})
}

// M3: what waits for its configuration and is needed no longer is taken back, without a drain: it serves nobody.
func TestM3_AMachineThatIsNotNeededWaitsNoLonger(t *testing.T) {
	inHostWorld(t, func(t *testing.T, w *world) {
		w.ask(4)
		pass(time.Hour)
		w.want("bound", map[string]int{"configuring": 1})
		w.ask(0)
		pass(3 * time.Minute)
		w.want("not needed", map[string]int{"idle": 1})
		w.ask(4)
		pass(time.Minute)
		w.want("needed again", map[string]int{"configuring": 1})
		w.quiet("needed again", 1)
		w.ask(0)
		pass(time.Hour)
		w.want("released", map[string]int{})
		if len(w.op.drains) > 0 {
			t.Errorf("the operator was asked to drain %v", w.op.drains)
		}
		w.quiet("at the end", 1)
	})
}

// M3: a machine that nobody needs yet is warm and bound to nobody; the need binds it, and its node's drain ends it:
// nothing takes a node machine off a host yet.
func TestM3_AWarmMachineIsBoundByANeed(t *testing.T) {
	inHostWorld(t, func(t *testing.T, w *world) {
		w.change(func(s *shop) { s.group.MinIdle = 1 })
		pass(time.Minute)
		w.want("warm", map[string]int{"idle": 1})
		w.change(func(s *shop) { s.group.MinIdle = 0 })
		w.ask(4)
		pass(time.Minute)
		w.want("needed", map[string]int{"configuring": 1})
		w.op.ready(w.only().ID)
		pass(time.Minute)
		w.want("joined", map[string]int{"bound": 1})
		w.quiet("joined", 1)
		w.ask(0)
		pass(30 * time.Minute)
		w.want("given back", map[string]int{})
		if got := w.reasons(); len(got) != 1 || got[0] != fleet.ReasonSurplus {
			t.Errorf("deleted for %v", got)
		}
	})
}

// M3: how long a configuration takes to come says nothing of what was bought: the offer is not cooled down, and a
// second need buys from it.
func TestM3_WaitingIsNoFailureOfTheOffer(t *testing.T) {
	inHostWorld(t, func(t *testing.T, w *world) {
		w.ask(4)
		pass(2 * time.Hour)
		w.ask(8)
		pass(time.Minute)
		w.want("another machine", map[string]int{"configuring": 2})
		w.quiet("another machine", 2)
	})
}

// M3: a machine that is repaved counts all the time, as long as that takes: its Node is gone, not ready, there again.
func TestM3_AMachineThatIsRepavedCounts(t *testing.T) {
	inHostWorld(t, func(t *testing.T, w *world) {
		w.ask(4)
		pass(time.Minute)
		id := w.only().ID
		w.pave(id, Host{Assigned: true})
		w.op.ready(id)
		pass(time.Minute)
		w.want("joined", map[string]int{"bound": 1})
		for range 3 {
			w.op.report(NodeReport{Machine: id.String(), NotReady: "its Node was deleted"})
			pass(40 * time.Minute)
			w.want("repaved", map[string]int{"bound": 1})
			w.quiet("repaved", 1)
			w.op.ready(id)
			pass(time.Minute)
		}
		if c := w.op.told("f"); c.Reason != "" || len(c.Shortfall) > 0 {
			t.Errorf("the need is short: %+v", c)
		}
	})
}

// M3: a machine whose repave failed, and which is left as it is for somebody to look at, counts no longer: another one is
// bought, and it is not deleted. It counts again when its Node is back.
func TestM3_AMachineThatFailedCountsNoLonger(t *testing.T) {
	inHostWorld(t, func(t *testing.T, w *world) {
		w.ask(4)
		pass(time.Minute)
		id := w.only().ID
		w.pave(id, Host{Assigned: true})
		w.op.ready(id)
		pass(time.Minute)
		w.pave(id, Host{Assigned: true, Failed: "JoinTimeout: no Node"})
		pass(time.Minute)
		w.want("failed", map[string]int{"bound": 1, "configuring": 1})
		var next identity.ID
		for _, row := range w.All() {
			if row.ID != id {
				next = row.ID
			}
		}
		w.pave(next, Host{Assigned: true})
		w.op.ready(next)
		pass(24 * time.Hour)
		w.want("a day later", map[string]int{"bound": 2})
		w.quiet("a day later", 2)
		w.restart()
		w.connect()
		w.ask(4)
		pass(time.Hour)
		w.want("under another leader", map[string]int{"bound": 2})
		w.quiet("under another leader", 2)
		w.pave(id, Host{Assigned: true}) // somebody has it tried again
		w.op.ready(id)
		pass(time.Hour)
		w.want("it serves again, and one is too many", map[string]int{"bound": 1})
		w.quiet("it serves again", 2)
	})
}

// M3: once its host was told what to build a machine has to join in time, as any other: one that does not counts no longer,
// is given up and replaced.
func TestM3_AMachineThatNeverJoinsIsGivenUp(t *testing.T) {
	inHostWorld(t, func(t *testing.T, w *world) {
		w.ask(4)
		pass(time.Hour)
		id := w.only().ID
		w.pave(id, Host{Assigned: true})
		pass(9 * time.Minute)
		w.want("within the join deadline", map[string]int{"configuring": 1})
		w.quiet("within the join deadline", 1)
		pass(2 * time.Minute)
		if n := w.purchases(); n != 2 {
			t.Errorf("%d machines were bought, want 2", n)
		}
		pass(2 * time.Hour) // it is kept for an hour, for somebody to look at
		if why := w.ended[id]; why == "" {
			t.Error("the machine that never joined is still there")
		}
	})
}

// report says what the operator sees of a Node.
func (o *operator) report(n NodeReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.post(o.session, 0, NodeReports{n})
}
