package demandloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	agentbinding "nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// settled is a cluster with two machines that serve it.
func (w *world) settled() {
	w.t.Helper()
	w.connect()
	w.ask(8)
	pass(time.Minute)
	w.want("eight cores", map[string]int{"bound": 2})
}

// TestE1_E3_WhatIsNeededIsBoughtOnce, joins, and nothing more happens however long it takes.
func TestE1_E3_WhatIsNeededIsBoughtOnce(t *testing.T) {
	for _, boot := range []time.Duration{0, 30 * time.Second, 5 * time.Minute} {
		inWorld(t, func(t *testing.T, w *world) {
			w.boot = boot
			w.connect()
			w.ask(8)
			pass(boot + 20*time.Second)
			w.want("eight cores", map[string]int{"bound": 2})
			pass(time.Hour)
			if n := w.purchases(); n != 2 {
				t.Errorf("boot of %v: %d machines were bought, want 2", boot, n)
			}
			for id, states := range w.op.states {
				want := []MachineState{Creating, Idle, Configuring, Configured}
				if boot == 0 {
					states, want = states[len(states)-1:], want[3:]
				}
				if !slices.Equal(states, want) {
					t.Errorf("the operator was told %v of %s, want %v", states, id, want)
				}
			}
			rec := w.launched[0]
			if rec.Binding == nil || rec.Binding.State != layout.BindingIntent || rec.Binding.Cluster != "acme" || rec.Binding.Price != 100_000 {
				t.Errorf("S3: it was launched with the binding %+v", rec.Binding)
			}
			if len(w.op.answers) != 1 || w.op.answers[0] != (RollupAnswer{Sequence: 1}) {
				t.Errorf("the roll-up was answered by %+v", w.op.answers)
			}
		})
	}
}

// TestWhatIsNotNeededIsGivenBack, kept for a while, used again, and then released.
func TestWhatIsNotNeededIsGivenBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settled()
		pass(5 * time.Minute)
		w.ask(3)
		pass(2 * time.Minute)
		w.want("three cores", map[string]int{"bound": 1, "idle": 1})
		if w.leaves != 1 || len(w.op.drains) != 1 {
			t.Errorf("%d machines were told to leave, instructions %v", w.leaves, w.op.drains)
		}
		w.ask(8)
		pass(time.Minute)
		w.want("eight cores again", map[string]int{"bound": 2})
		if w.purchases() != 2 {
			t.Errorf("%d machines were bought, want 2", w.purchases())
		}
		for id, names := range w.joins {
			if len(names) == 2 && names[0] == names[1] {
				t.Errorf("%s joined twice as %s", id, names[0])
			}
		}
		pass(5 * time.Minute)
		w.ask(3)
		pass(20 * time.Minute)
		w.want("three cores for long", map[string]int{"bound": 1})
		if got := w.reasons(); !slices.Equal(got, []fleet.Reason{fleet.ReasonReleased}) {
			t.Errorf("deleted for %v", got)
		}
	})
}

// TestE11_ARefusalIsKept: the machine serves its cluster as before, and is not asked for in its hold.
func TestE11_ARefusalIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*operator)
		within time.Duration
	}{
		"refused":         {func(o *operator) { o.refusal = "a Pod finds no place" }, 9 * time.Minute},
		"it does not end": {func(o *operator) { o.stuck = true }, 13 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.settled()
				c.set(w.op)
				pass(5 * time.Minute)
				w.ask(3)
				pass(c.within)
				w.want("a refused drain", map[string]int{"bound": 2})
				if len(w.op.drains) != 1 || w.op.cancels != 1 {
					t.Errorf("%d instructions and %d cancels", len(w.op.drains), w.op.cancels)
				}
				w.op.mu.Lock()
				w.op.refusal, w.op.stuck = "", false
				w.op.mu.Unlock()
				pass(11 * time.Minute)
				w.want("after the hold", map[string]int{"bound": 1, "idle": 1})
			})
		})
	}
}

// TestE11_ARefusalOutlivesAVerdictThatIsTakenBack: a machine that was found sick, and is not after all, is on hold as
// before.
func TestE11_ARefusalOutlivesAVerdictThatIsTakenBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settled()
		w.op.refusal = "a Pod finds no place"
		pass(5 * time.Minute)
		w.ask(3)
		pass(3 * time.Minute)
		if len(w.op.drains) != 1 {
			t.Fatalf("%d instructions", len(w.op.drains))
		}
		name, _ := strings.CutPrefix(w.op.drains[0], "rcl-")
		name, _, _ = strings.Cut(name, "-")
		sick := identity.ID(name)
		for _, state := range []fleet.State{fleet.Unhealthy, fleet.Running} {
			w.mu.Lock()
			row := w.rows[sick]
			row.State = state
			w.rows[sick] = row
			w.loop.Changed(sick)
			w.mu.Unlock()
			pass(time.Second)
		}
		pass(4 * time.Minute)
		for _, drain := range w.op.drains[1:] {
			if strings.Contains(drain, name) {
				t.Errorf("it is asked for again within the hold: %s", drain)
			}
		}
	})
}

// TestPolicyOfTheConfiguration: what tenants may spend can change while machines are bought.
func TestPolicyOfTheConfiguration(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.change(func(s *shop) { s.policy.HourlySpend = map[string]int64{"acme": 150_000} })
		w.connect()
		w.ask(8)
		pass(time.Minute)
		w.want("0.15 an hour", map[string]int{"bound": 1})
		w.change(func(s *shop) { s.policy = demand.Policy{} })
		pass(time.Minute)
		w.want("as much as is needed", map[string]int{"bound": 2})
	})
}

// TestE4_NothingIsGivenBackBeforeTheFirstRollup of a term, nor without a session.
func TestE4_NothingIsGivenBackBeforeTheFirstRollup(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settled()
		pass(10 * time.Minute)
		w.restart()
		pass(time.Hour)
		w.want("no session", map[string]int{"bound": 2})
		if snapshot := w.connect(); len(snapshot.Nodes) != 2 || snapshot.Nodes[0].State != Configured || snapshot.Epoch != 2 {
			t.Errorf("snapshot %+v", snapshot)
		}
		pass(time.Hour)
		w.want("no roll-up", map[string]int{"bound": 2})
		w.ask(3)
		pass(20 * time.Minute)
		w.want("after a roll-up", map[string]int{"bound": 1})
		if w.purchases() != 2 {
			t.Errorf("%d machines were bought, want 2", w.purchases())
		}
	})
}

// TestE2_RestartAtEveryMoment: a term ends at each second of a purchase and of a return; the next one
// goes on, buys nothing twice and loses nothing.
func TestE2_RestartAtEveryMoment(t *testing.T) {
	for at := time.Duration(0); at < 40*time.Second; at += time.Second {
		inWorld(t, func(t *testing.T, w *world) {
			w.step = 300 * time.Millisecond
			w.connect()
			w.ask(8)
			pass(at)
			w.restart()
			w.connect()
			w.ask(8)
			pass(2 * time.Minute)
			w.want("restarted while buying", map[string]int{"bound": 2})
			pass(5 * time.Minute)
			w.ask(3)
			pass(time.Minute + at)
			w.restart()
			w.connect()
			w.ask(3)
			pass(8 * time.Minute)
			w.want("restarted while giving back", map[string]int{"bound": 1, "idle": 1})
			if n := w.purchases(); n != 2 {
				t.Errorf("restart after %v: %d machines were bought, want 2", at, n)
			}
		})
	}
}

// TestOperatorThatDoesNotAnswerIsAskedAgain, a late answer is dropped, and after five tries the machine
// is given up.
func TestOperatorThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.op.silent = true
		w.connect()
		w.ask(4)
		pass(w.boot + 35*time.Second)
		if w.op.blobs != 2 || w.op.requests[0] == w.op.requests[1] {
			t.Fatalf("requests %v, want two", w.op.requests)
		}
		late := Blob{Request: w.op.requests[0], UserData: blob("")}
		if err := w.loop.Post(t.Context(), "acme", w.op.session, late); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		w.want("a late answer", map[string]int{"intent": 1})
		pass(3 * time.Minute)
		if w.op.blobs < 5 || w.bindings()["failed"] != 1 {
			t.Errorf("%d requests, machines %v", w.op.blobs, w.bindings())
		}
		if got := w.failures(); !slices.Equal(got, []string{"BootstrapTimeout"}) {
			t.Errorf("failed for %v", got)
		}
	})
}

// TestWhatAnAgentSaidBeforeItWasToldIsNoReasonToAskAgain: its first report on a stream, which names no binding or that
// before, arrives when it was told to join on that stream already. After another stream it does not know of it.
func TestWhatAnAgentSaidBeforeItWasToldIsNoReasonToAskAgain(t *testing.T) {
	for name, first := range map[string]agentbinding.Report{
		"no binding":         {},
		"the binding before": {Binding: "n0000", Action: agentbinding.Leaving, State: agentbinding.Done},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.boot = 10 * time.Second
				w.connect()
				w.ask(4)
				for w.toldToJoin() == 0 {
					pass(time.Millisecond)
				}
				id := w.only().ID
				w.loop.Binding(id, first)
				pass(time.Second)
				if n := w.op.asked(); n != 1 {
					t.Fatalf("%d requests for what it takes to join, want 1", n)
				}
				w.loop.Greeted(id, true)
				w.loop.Binding(id, first)
				pass(500 * time.Millisecond)
				if n := w.op.asked(); n != 2 {
					t.Errorf("%d requests after another stream on which the agent knows of nothing, want 2", n)
				}
				pass(time.Minute)
				w.want("joined", map[string]int{"bound": 1})
			})
		})
	}
}

// TestClusterThatCannotBeJoined leaves the machine idle, and buys no other one for a while.
func TestClusterThatCannotBeJoined(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.op.excuse = "no template"
		w.connect()
		w.ask(4)
		pass(time.Minute)
		w.want("an error instead of a blob", map[string]int{"idle": 1})
		if w.purchases() != 1 {
			t.Errorf("%d machines were bought", w.purchases())
		}
		w.op.mu.Lock()
		w.op.excuse = ""
		w.op.mu.Unlock()
		pass(5 * time.Minute)
		w.want("it works again", map[string]int{"bound": 1})
	})
}

// TestMachinesThatDoNotJoin are given up, and deleted after a while.
func TestMachinesThatDoNotJoin(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*world)
		reason string
		after  time.Duration
	}{
		"no Node":       {func(w *world) { w.op.muted = true }, "JoinTimeout", 11 * time.Minute},
		"it fails":      {func(w *world) { w.broken = true }, "ConfigureFailed", time.Minute},
		"no capability": {func(w *world) { w.unable = true }, "NoClusterCapability", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				c.set(w)
				w.connect()
				w.ask(4)
				pass(c.after)
				if got := w.failures(); len(slices.Compact(got)) != 1 || got[0] != c.reason {
					t.Fatalf("failed for %v, want %s", got, c.reason)
				}
				pass(80 * time.Minute)
				if got := w.reasons(); len(got) == 0 || slices.ContainsFunc(got, func(r fleet.Reason) bool { return r != fleet.ReasonFailed }) {
					t.Errorf("deleted for %v", got)
				}
			})
		})
	}
}

// TestJoinTimeoutNamesWhatTheNodeLacks, as its operator has said last; one of an earlier version does not say it.
func TestJoinTimeoutNamesWhatTheNodeLacks(t *testing.T) {
	for name, c := range map[string]struct {
		reports []NodeReport
		want    string
	}{
		"a startup taint": {
			[]NodeReport{{Node: "n", NotReady: "its condition Ready is False: KubeletNotReady"}, {Node: "n", NotReady: "its taint cni:NoExecute is left"}},
			"its Node n was not ready in time: its taint cni:NoExecute is left",
		},
		"not said": {[]NodeReport{{Node: "n"}}, "its Node n was not ready in time"},
		"no Node":  {nil, "its operator has reported no Node of it"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.op.muted = true
				w.connect()
				w.ask(4)
				pass(time.Minute)
				for _, r := range c.reports {
					r.Machine = w.only().ID.String()
					if err := w.loop.Post(t.Context(), "acme", w.op.session, NodeReports{r}); err != nil {
						t.Fatal(err)
					}
				}
				pass(10 * time.Minute)
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, rec := range w.recs {
					if f := rec.Failed; f != nil && (f.Reason != "JoinTimeout" || f.Detail != c.want) {
						t.Errorf("failed: %+v, want %q", f, c.want)
					} else if f != nil {
						return
					}
				}
				t.Error("no machine was given up")
			})
		})
	}
}

// TestRefusedCreatesCoolTheirOfferDown, whether that shows at once or later.
func TestRefusedCreatesCoolTheirOfferDown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var tries atomic.Int32
		w.refuse = func(p Purchase) error {
			if tries.Add(1) == 1 {
				return &LaunchError{Failure: demand.NoCapacity, Err: errors.New("no room")}
			}
			w.loop.CreateRefused(p.ID, demand.NoCapacity)
			w.rows[p.ID] = w.rowOf(p.ID, fleet.Pending)
			w.recs[p.ID] = layout.InstanceRecord{ID: p.ID, Tenant: "acme", Group: "web", InstanceType: "m", Binding: p.Binding}
			w.after(time.Second, func() {
				delete(w.recs, p.ID)
				w.rows[p.ID] = w.rowOf(p.ID, fleet.Deleted)
				w.loop.Changed(p.ID)
			})
			return errTaken
		}
		w.connect()
		w.ask(4)
		pass(2 * time.Minute)
		if tries.Load() != 1 {
			t.Fatalf("%d tries while it cools down, want 1", tries.Load())
		}
		pass(2 * time.Minute)
		if tries.Load() != 2 {
			t.Fatalf("%d tries, want 2", tries.Load())
		}
		pass(4 * time.Minute)
		if tries.Load() != 2 {
			t.Fatalf("%d tries while it cools down for twice as long, want 2", tries.Load())
		}
	})
}

// TestMachinesThatNeverCame are bought again at once where their creates ended with the leader that made them, and
// let their offer cool down where they had their time and did not register.
func TestMachinesThatNeverCame(t *testing.T) {
	for reason, want := range map[fleet.Reason]int{fleet.ReasonAbandoned: 8, fleet.ReasonRegistrationTimeout: 4} {
		t.Run(string(reason), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.boot = time.Hour
				w.connect()
				w.ask(16)
				pass(10 * time.Second)
				if n := w.purchases(); n != 4 {
					t.Fatalf("%d machines were bought, want 4", n)
				}
				w.mu.Lock()
				w.boot = time.Second
				for id := range w.recs {
					w.condemn(id, reason)
				}
				w.mu.Unlock()
				pass(time.Minute)
				if n := w.purchases(); n != want {
					t.Errorf("%d machines were bought after a minute, want %d", n, want)
				}
			})
		})
	}
}

// TestStorageThatIsAway delays what needs it, and nothing is done without its record.
func TestStorageThatIsAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settled()
		pass(5 * time.Minute)
		w.mu.Lock()
		w.storage = func(identity.ID) error { return errors.New("storage is away") }
		w.mu.Unlock()
		w.ask(3)
		pass(10 * time.Minute)
		w.want("storage is away", map[string]int{"bound": 2})
		if len(w.op.drains) != 0 {
			t.Errorf("instructions %v without a record", w.op.drains)
		}
		w.mu.Lock()
		w.storage = nil
		w.mu.Unlock()
		pass(5 * time.Minute)
		w.want("storage is back", map[string]int{"bound": 1, "idle": 1})
	})
}

// TestS6_MachinesThatGoForOtherReasonsAreReplaced, and are not asked back.
func TestS6_MachinesThatGoForOtherReasonsAreReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settled()
		w.mu.Lock()
		for id := range w.recs {
			w.condemn(id, fleet.ReasonUnhealthy)
			break
		}
		w.mu.Unlock()
		pass(time.Minute)
		w.want("one was sick", map[string]int{"bound": 2})
		if w.purchases() != 3 || len(w.op.drains) != 0 {
			t.Errorf("%d machines were bought, instructions %v", w.purchases(), w.op.drains)
		}
		gone := 0
		for _, states := range w.op.states {
			if n := len(states); n > 1 && states[n-1] == Deleted && states[n-2] == Draining {
				gone++
			}
		}
		if gone != 1 {
			t.Errorf("the operator was told %v", w.op.states)
		}
	})
}

// TestOutdatedMachinesAreReplaced one after the other, and never before another one serves in the place of each; the cluster
// never has less than it needs.
func TestOutdatedMachinesAreReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settled()
		w.change(func(s *shop) { s.making, s.made = "another", time.Now() })
		pass(time.Second)
		p, err := w.loop.Inspect(t.Context(), "acme", "")
		if err != nil || len(p.Replacements) != 1 || p.Replacements[0].Reason != demand.ReasonDrift || len(p.Replacements[0].Bought) != 1 {
			t.Errorf("under way are %+v, %v", p.Replacements, err)
		}
		if u, ok := w.loop.Usage(p.Machines[0].Group); !ok || u.Machines != 3 {
			t.Errorf("the group takes %+v, %t, want two machines and the one that takes the place of one", u, ok)
		}
		if _, ok := w.loop.Usage("acme/nothing"); ok {
			t.Error("a group that does not exist takes something")
		}
		replaced := 0
		for range 60 {
			pass(5 * time.Second)
			w.mu.Lock()
			serving := 0
			for id, rec := range w.recs {
				if b := rec.Binding; rec.Deletion == nil && b != nil && b.State == layout.BindingBound {
					serving++
				}
				if rec.Deletion != nil && w.ended[id] != fleet.ReasonConfigDrift {
					t.Errorf("%s goes for %s", id, w.ended[id])
				}
			}
			replaced = len(w.ended)
			w.mu.Unlock()
			if serving < 2 {
				t.Fatalf("%d machines serve after %d were replaced", serving, replaced)
			}
		}
		w.want("both are of the new making", map[string]int{"bound": 2})
		if replaced != 2 || w.purchases() != 4 || len(w.op.drains) != 0 {
			t.Errorf("%d were replaced, %d bought, instructions %v", replaced, w.purchases(), w.op.drains)
		}
		pass(time.Hour)
		if w.purchases() != 4 {
			t.Errorf("%d were bought", w.purchases())
		}
	})
}

// TestMachinesThatAreNotUsedAgain are deleted once drained, and those that do not leave.
func TestMachinesThatAreNotUsedAgain(t *testing.T) {
	for name, set := range map[string]func(*world){
		"by the group's setting": func(w *world) { w.change(func(s *shop) { s.settings.AfterDrain = DeleteAfterDrain }) },
		"they do not leave":      func(w *world) { w.deaf = true },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.settled()
				set(w)
				pass(5 * time.Minute)
				w.ask(3)
				pass(5 * time.Minute)
				w.want("given back", map[string]int{"bound": 1})
				if got := w.reasons(); !slices.Equal(got, []fleet.Reason{fleet.ReasonSurplus}) {
					t.Errorf("deleted for %v", got)
				}
				pass(time.Hour)
				if w.purchases() != 2 {
					t.Errorf("%d machines were bought, want 2", w.purchases())
				}
			})
		})
	}
}

// TestE8_ANodeThatIsNotFound may be one that the operator has not heard of yet: it is asked once more, before the
// machine leaves without a drain.
func TestE8_ANodeThatIsNotFound(t *testing.T) {
	for blind, vacated := range map[int]bool{1: false, 100: true} {
		t.Run(fmt.Sprint(blind), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.settled()
				pass(5 * time.Minute)
				w.op.mu.Lock()
				w.op.blind = blind
				w.op.mu.Unlock()
				w.ask(3)
				for asked := 0; asked == 0; {
					pass(time.Second)
					w.op.mu.Lock()
					asked = len(w.op.drains)
					w.op.mu.Unlock()
				}
				pass(25 * time.Second)
				if n := w.bindings()["idle"]; n > 0 {
					t.Fatalf("%d machines have left before the operator was asked twice", n)
				}
				pass(30 * time.Second)
				w.want("asked twice", map[string]int{"bound": 1, "idle": 1})
				if n := len(w.op.drains); n != 2 {
					t.Errorf("%d instructions, want 2", n)
				}
				if ended := w.op.ended > 0; ended == vacated {
					t.Errorf("a drain has ended: %v", ended)
				}
			})
		})
	}
}

// TestForcedDrainsGoOnAfterTheirTime where the group says so.
func TestForcedDrainsGoOnAfterTheirTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.change(func(s *shop) { s.settings.ForceDrain = true })
		w.settled()
		w.op.stuck = true
		pass(5 * time.Minute)
		w.ask(3)
		pass(13 * time.Minute)
		w.want("forced", map[string]int{"bound": 1, "idle": 1})
	})
}

// TestInstructionsAreRepeatedUntilTheyAreAnswered, with one name.
func TestInstructionsAreRepeatedUntilTheyAreAnswered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settled()
		pass(5 * time.Minute)
		w.op.mu.Lock()
		w.op.deaf = true
		w.op.mu.Unlock()
		w.ask(3)
		pass(2*time.Minute + 5*time.Second)
		if n := len(w.op.drains); n < 2 || len(slices.Compact(slices.Clone(w.op.drains))) != 1 {
			t.Fatalf("instructions %v, want the same one twice at least", w.op.drains)
		}
	})
}

// TestUserDataHoldsWhatItTakesToJoin: it is asked for before the machine is made, and the machine is
// never used again.
func TestUserDataHoldsWhatItTakesToJoin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.change(func(s *shop) { s.settings.UserData, s.group.UserData = true, true })
		w.unable = true
		w.connect()
		w.ask(4)
		pass(10 * time.Second)
		if w.purchases() != 1 || len(w.launched[0].UserData) == 0 {
			t.Fatalf("%d machines were bought", w.purchases())
		}
		pass(time.Minute)
		w.want("registered", map[string]int{"configuring": 1})
		w.op.ready(w.only().ID)
		pass(5 * time.Minute)
		w.want("ready", map[string]int{"bound": 1})
		w.ask(0)
		pass(5 * time.Minute)
		w.want("given back", map[string]int{})
	})
}

// TestAPurchaseOutlivesASession: a machine that is not made before its operator says what it takes to join is asked
// for again when the operator is back, however long that takes. Nobody else would: it has no record yet.
func TestAPurchaseOutlivesASession(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.change(func(s *shop) { s.settings.UserData, s.group.UserData = true, true })
		w.unable, w.op.silent = true, true
		w.connect()
		w.ask(4)
		pass(10 * time.Second) // asked, and not answered
		w.loop.Disconnect("acme", w.op.session)
		pass(10 * time.Minute)
		w.op.mu.Lock()
		asked := w.op.blobs
		w.op.silent = false
		w.op.mu.Unlock()
		if asked == 0 || w.purchases() != 0 {
			t.Fatalf("asked %d times, and %d machines were bought without an answer", asked, w.purchases())
		}
		w.connect()
		pass(10 * time.Second)
		if w.purchases() != 1 {
			t.Errorf("%d machines were bought when the operator was back, want 1", w.purchases())
		}
	})
}

// TestOperatorsThatDoNotReportNodes: what the agent says has to do.
func TestOperatorsThatDoNotReportNodes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.op.reports = false
		w.settled()
	})
}

// TestMachinesOfAGroupWithASizeServeToo once their Node was seen, and are never given back.
func TestMachinesOfAGroupWithASizeServeToo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id, err := w.newID("knc")
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.add(id, fixed, nil)
		w.register(id)
		w.mu.Unlock()
		w.connect()
		w.op.ready(id)
		pass(time.Second)
		w.ask(4)
		pass(time.Minute)
		if w.purchases() != 0 {
			t.Errorf("%d machines were bought beside one that serves", w.purchases())
		}
		w.restart()
		w.connect()
		w.ask(4)
		pass(time.Minute)
		if w.purchases() != 0 {
			t.Errorf("%d machines were bought after a restart", w.purchases())
		}
		w.ask(0)
		pass(time.Hour)
		w.want("nothing is needed", map[string]int{"bound": 1})
	})
}

// TestE8_MachinesThatAGroupHandsOver: nothing is done about machines of a group that had a size, before their agents
// say that they can join, or a cluster that they are its Nodes.
func TestE8_MachinesThatAGroupHandsOver(t *testing.T) {
	for name, unable := range map[string]bool{"agents that cannot join": true, "agents that can": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.change(func(s *shop) { s.ofDemand = false })
				w.unable = unable
				node, other := w.made(), w.made()
				w.change(func(s *shop) { s.ofDemand = true })
				w.restart()
				w.connect()
				w.ask(4)
				w.op.ready(node)
				pass(time.Minute)
				if n := w.purchases(); n != 0 {
					t.Errorf("%d machines were bought beside one that serves", n)
				}
				w.want("one is a Node", map[string]int{"bound": 1, "idle": 1})
				pass(time.Hour)
				if _, ended := w.ended[node]; ended {
					t.Error("the Node is gone, and is needed")
				}
				if _, ended := w.ended[other]; ended == unable {
					t.Errorf("the other machine is gone: %t", ended)
				}
				w.ask(0)
				pass(30 * time.Minute)
				if _, ended := w.ended[node]; !ended {
					t.Error("the Node is there, and nothing needs it")
				}
				if failures := w.failures(); len(failures) > 0 {
					t.Errorf("given up: %v", failures)
				}
			})
		})
	}
}

// TestS23_E12_PausedMeansPaused, and what was decided then is done afterwards.
func TestS23_E12_PausedMeansPaused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.change(func(s *shop) { s.suspended = []demand.Suspended{{Paused: true}} })
		w.connect()
		w.ask(8)
		pass(time.Hour)
		w.want("paused", map[string]int{})
		w.change(func(s *shop) { s.suspended = nil })
		pass(time.Minute)
		w.want("not paused any more", map[string]int{"bound": 2})
	})
}

// TestSessionIsReplaced: what the old one says counts no more, and it is told nothing.
func TestSessionIsReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.connect()
		old := w.op.session
		w.connect()
		if err := w.loop.Post(t.Context(), "acme", old, RollupReceived{Sequence: 1, Rows: need(8)}); err != nil {
			t.Fatal(err)
		}
		w.loop.Disconnect("acme", old)
		pass(time.Minute)
		w.want("a roll-up of the old session", map[string]int{})
		w.ask(4)
		pass(time.Minute)
		w.want("one of the new session", map[string]int{"bound": 1})
	})
}

// TestS22_TheMailboxIsBounded: who says more waits, and no longer than it wants to or the loop lasts.
func TestS22_TheMailboxIsBounded(t *testing.T) {
	w := newWorld(t)
	loop, err := New(Options{Supply: w.supply, Records: w, Machines: w, NewID: w.newID, Random: w.name, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for range mailboxRoom {
		if err := loop.Post(t.Context(), "acme", nil, NodeReports{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := loop.Post(ctx, "acme", nil, NodeReports{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if err := loop.Run(over); err != nil {
		t.Fatal(err)
	}
	<-loop.Done()
	if err := loop.Post(t.Context(), "acme", nil, NodeReports{}); !errors.Is(err, errTermOver) {
		t.Errorf("error %v after the end", err)
	}
	if _, err := loop.Connect(t.Context(), "acme", Hello{}, &session{}); !errors.Is(err, errTermOver) {
		t.Errorf("error %v after the end", err)
	}
}

// M84: a machine that is on hold is not given back although its cluster needs it no longer; when the hold has ended it is.
func TestM84_MachinesOnHoldAreNotGivenBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settled()
		w.mu.Lock()
		var all []identity.ID
		for id, row := range w.rows {
			row.Hold = fleet.Hold{Reason: fleet.HoldPower, Since: time.Now(), Until: time.Now().Add(time.Hour)}
			w.rows[id] = row
			all = append(all, id)
		}
		w.mu.Unlock()
		for _, id := range all {
			w.loop.Changed(id)
		}
		w.ask(3)
		pass(45 * time.Minute)
		w.want("both are on hold", map[string]int{"bound": 2})
		pass(30 * time.Minute)
		if bound := w.bindings()["bound"]; bound != 1 {
			t.Errorf("the hold has ended, and %d serve, want 1", bound)
		}
	})
}
