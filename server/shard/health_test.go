package shard

import (
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
)

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

// TestF28_StoppedBeforeItsAgentCame is the case in which no stream breaks: only the
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
			row, _ := w.term().planner.cache.Instance(quiet.ID)
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

// TestF32_S8_MostAgentsFallSilentAtOnce: it is the server that is cut off. Nobody is
// replaced for it, but for the machines that the provider knows to be dead; when
// they come back all is as before.
func TestF32_S8_MostAgentsFallSilentAtOnce(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 10)
		w.settle(time.Minute)
		vms := w.vms(web)
		for _, vm := range vms[:7] {
			w.machine(vm.InstanceID).silence()
		}
		w.settle(5 * time.Minute)
		if made := w.cloud.Created(); made != 10 {
			t.Errorf("%d machines were made while most agents were silent, want 10", made)
		}
		if got := w.gauges("nstance_verdicts_suspended"); got[""] != 1 {
			t.Errorf("while most agents are silent nstance_verdicts_suspended is %v", got)
		}
		w.cloud.Kill(vms[0].InstanceID)
		w.settle(time.Minute)
		if made := w.cloud.Created(); made != 11 {
			t.Errorf("%d machines were made after one of the silent ones had died, want 11", made)
		}
		for _, vm := range vms[1:6] {
			w.machine(vm.InstanceID).speak()
		}
		w.settle(5 * time.Minute) // the seventh stays silent, alone
		w.converged(10)
		if made := w.cloud.Created(); made != 12 {
			t.Errorf("%d machines were made in the end, want 12", made)
		}
		if got := w.gauges("nstance_verdicts_suspended"); len(got) != 0 {
			t.Errorf("when they have come back nstance_verdicts_suspended is %v", got)
		}
	})
}

// TestVerdictsAreTheLeaders: a server that leads no more suspends nothing, though it did when it lost the lease.
func TestVerdictsAreTheLeaders(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 10)
		w.settle(time.Minute)
		for _, vm := range w.vms(web)[:7] {
			w.machine(vm.InstanceID).silence()
		}
		w.settle(2 * time.Minute)
		if got := w.gauges("nstance_verdicts_suspended"); got[""] != 1 {
			t.Fatalf("the leader says %v", got)
		}
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		if got := w.gauges("nstance_verdicts_suspended"); len(got) != 0 {
			t.Errorf("a server that does not lead says %v", got)
		}
		w.lead()
	})
}

// TestF32_S8_SilenceThatLasts: after half an hour the silent ones are replaced all
// the same, a few at a time.
func TestF32_S8_SilenceThatLasts(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Minute)
		for _, vm := range w.vms(web) {
			w.machine(vm.InstanceID).silence()
		}
		w.settle(30 * time.Minute)
		if made := w.cloud.Created(); made != 4 {
			t.Errorf("%d machines were made within half an hour, want 4", made)
		}
		w.settle(15 * time.Minute)
		w.converged(4)
		if made := w.cloud.Created(); made != 8 {
			t.Errorf("%d machines were made in the end, want 8", made)
		}
	})
}

// TestF32_NewLeaderThatNobodyReaches: its first look finds everybody late at once.
func TestF32_NewLeaderThatNobodyReaches(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 10)
		w.settle(time.Minute)
		w.stop()
		for _, vm := range w.vms(web) {
			w.machine(vm.InstanceID).off()
		}
		w.lead()
		w.settle(10 * time.Minute)
		if made := w.cloud.Created(); made != 10 {
			t.Errorf("%d machines were made by a leader that no agent reached, want 10", made)
		}
		for _, vm := range w.vms(web) {
			w.reconnect(vm.InstanceID)
		}
		w.settle(10 * time.Minute)
		w.converged(10)
		if made := w.cloud.Created(); made != 10 {
			t.Errorf("%d machines were made in the end, want 10", made)
		}
	})
}

// TestF31_BrokenStreamAsksTheProviderFirst: a stream that ends without a goodbye, as
// keepalive ends one whose other end is gone, is a question and no verdict.
func TestF31_BrokenStreamAsksTheProviderFirst(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(65 * time.Second)
		lonely := w.vms(web)[0].InstanceID
		asked := w.count(drivertest.OpGet)
		w.machine(lonely).off()
		w.settle(100 * time.Millisecond)
		if n := w.count(drivertest.OpGet) - asked; n != 1 {
			t.Errorf("the provider was asked %d times, want once and at once", n)
		}
		w.settle(15 * time.Second)
		if made := w.cloud.Created(); made != 3 {
			t.Errorf("%d machines were made for a broken stream of one that runs, want 3", made)
		}
		w.settle(time.Minute)
		w.converged(3)
		if _, there := w.cloud.Machine(lonely); there || w.cloud.Created() != 4 {
			t.Errorf("after three reports are missing it is there: %v; %d were made, want 4", there, w.cloud.Created())
		}
	})
}
