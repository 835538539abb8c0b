package demand_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/demandoperator"
)

var (
	fleet = flag.Int("fleet", 10, "how many machines the cluster has whose roll-up is forged; at least 10")
	held  = flag.Duration("held", 3*time.Second, "how long the forged roll-up goes on; from 20s on it counts in the end, and all that is not needed is waited for")
)

// quarantine is how long a roll-up is held that takes most of a cluster away.
const quarantine = 20 * time.Second

// A cluster keeps its machines while its roll-up is forged, while the shard is paused or rehearses, and until a server
// that has just started has heard of its needs. After that the empty ones go together, and no others.
func TestE4_E5_E6_E12_MachinesAreGivenBackOnlyForGoodReasons(t *testing.T) {
	w := start(t, "10m")
	all, _ := list(*fleet, 1) // a row for each Pod: sums of many would count the rests of machines
	w.operator.Need(all...)
	w.fleetSettled("every Pod runs", *fleet)

	w.nothingNeeded(all)
	half := all[:*fleet/2]
	w.suspended(half)
	w.restarted(half)
	for _, wrong := range w.operator.Seen().Wrong {
		t.Error(wrong)
	}
}

// nothingNeeded forges a roll-up without needs.
func (w *world) nothingNeeded(all []demandoperator.Need) {
	w.t.Helper()
	w.inForce()
	begun, before := time.Now(), w.asked()
	w.operator.Forge()
	w.await("the roll-up is held", func(s demandoperator.Seen) error { return least(s.Frames["shard: ack ROLLUP_HELD"], 1) })
	w.await("an alarm is raised", func(demandoperator.Seen) error {
		return least(int(w.metric(`nstance_demand_rollup_quarantined{tenant="default"}`)), 1)
	})
	w.undisturbed("a forged roll-up", min(*held, quarantine-time.Second)-time.Since(begun), before)
	if *held >= quarantine {
		// It is believed now. The Nodes have Pods, so that a twentieth of them goes in ten seconds.
		w.await("the roll-up counts", func(demandoperator.Seen) error { return least(w.asked(), before+1) })
		if took := time.Since(begun); took < quarantine {
			w.t.Errorf("a machine was asked back %v after the roll-up was forged", took)
		}
		w.during(5*time.Second, "the limit holds", func() {
			if n := w.asked() - before; n > max(1, *fleet/20) {
				w.t.Fatalf("%d machines with Pods were asked back at once", n)
			}
		})
	}
	w.operator.Forge(all...)
	w.inForce()
	w.fleetSettled("all are needed again", *fleet)
}

// suspended lets Pods end while the shard is paused, and then while it rehearses: all is decided, and nothing done.
func (w *world) suspended(half []demandoperator.Need) {
	w.t.Helper()
	w.AdminOK("pause", "shard", "--reason", "a test")
	before, empty := w.asked(), *fleet-len(half)
	w.operator.Need(half...)
	planned := func() error {
		if n := len(w.AdminList("demand", "plan")); n != empty {
			return fmt.Errorf("%d of %d in the plan", n, empty)
		}
		return nil
	}
	w.patiently("the paused shard has decided", planned)
	w.undisturbed("the pause", time.Second, before)

	w.SetConfig(strings.Replace(w.Config(), `"prices"`, `"dry_run": true, "prices"`, 1))
	w.AdminOK("config", "refresh")
	w.AdminOK("resume", "shard")
	w.patiently("the rehearsing shard has decided", planned)
	w.undisturbed("the dry run", time.Second, before)
	for _, disposition := range []string{"suppressed", "dry-run"} {
		series := fmt.Sprintf(`nstance_demand_actions_suppressed_total{disposition=%q,kind="reclaim"}`, disposition)
		if n := int(w.metric(series)); n < empty {
			w.t.Errorf("%s is %d, want at least %d", series, n, empty)
		}
	}
}

// restarted starts another server, which does what it decides, and keeps the needs from it at first.
func (w *world) restarted(half []demandoperator.Need) {
	w.t.Helper()
	w.operator.Mute(true)
	w.SetConfig(strings.Replace(w.Config(), `"dry_run": true, `, ``, 1))
	seen := w.operator.Seen()
	before, sessions, short := w.asked(), seen.Sessions, seen.Short // the forged roll-up that counted has taken some
	w.operator.ForgetDrains()
	w.kill()
	w.await("the new server has a session", func(s demandoperator.Seen) error { return least(s.Sessions, sessions+1) })
	w.undisturbed("the first roll-up's absence", 4*time.Second, before) // the delay of the group is over then

	w.operator.Mute(false)
	took := w.AwaitFor(box.Patience, "the first empty machine is asked back", func() error { return least(w.asked(), before+1) })
	w.t.Logf("%v after the first roll-up", took)
	went := 0
	w.during(3*time.Second, "the limit holds for those with Pods", func() {
		gone, busy := w.drained()
		if most := max(1, *fleet/20); busy > most {
			w.t.Fatalf("%d machines with Pods were asked back at once, not %d", busy, most)
		}
		went = gone
	})
	if *held >= quarantine { // those with Pods take their time
		w.fleetSettled("what is needed is left", len(half))
		gone, busy := w.drained()
		w.t.Logf("%d empty machines were given back, %d of them at once, and %d with Pods", gone, went, busy)
		if gone != went || gone == 0 || gone+busy != *fleet-len(half) {
			w.t.Errorf("of %d machines %d empty ones were given back, %d of them at once, and %d with Pods", *fleet-len(half), gone, went, busy)
		}
	}
	if n := w.operator.Seen().Short - short; n > 0 {
		w.t.Errorf("a Node that was needed was taken away, %d times", n)
	}
}

// drained counts the machines that drain or have drained: those that were empty, and those with Pods.
func (w *world) drained() (empty, busy int) {
	for _, d := range w.operator.Seen().Drains {
		if d.Busy {
			busy++
		} else {
			empty++
		}
	}
	return empty, busy
}

// asked is how many machines were asked back.
func (w *world) asked() int { return w.operator.Seen().Frames["shard: reclaim_instruction"] }

// undisturbed fails when a machine is asked back in the next d.
func (w *world) undisturbed(why string, d time.Duration, before int) {
	w.t.Helper()
	w.during(d, "nothing is given back in "+why, func() {
		if n := w.asked() - before; n > 0 {
			w.t.Fatalf("%d machines were asked back in %s", n, why)
		}
	})
}

// during calls check over and over for d.
func (w *world) during(d time.Duration, what string, check func()) {
	w.t.Helper()
	end := time.Now().Add(d)
	w.AwaitFor(d+box.Patience, what, func() error {
		check()
		if left := time.Until(end); left > 0 {
			return fmt.Errorf("%v left", left)
		}
		return nil
	})
}

// fleetSettled is settled, with a patience for the machines of this test.
func (w *world) fleetSettled(what string, machines int) {
	w.t.Helper()
	w.AwaitFor(box.Patience+time.Duration(*fleet)*time.Second, what, func() error { return w.agrees(machines) })
}
