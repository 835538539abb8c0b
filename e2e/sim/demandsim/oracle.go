package demandsim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim/cloud"
	"nstance.dev/e2e/sim/demandsim/leader"
	"nstance.dev/server/demand"
)

// oracle holds what was decided and done against the promises. It believes the records, the provider
// and the roll-ups, and never the engine.
type oracle struct {
	w        *world
	parties  map[string]*account
	ids      map[string]string    // offer of each machine that was ever provisioned
	paused   time.Time            // until when nothing may be done
	started  time.Time            // when this leader took over
	moved    map[string]time.Time // when a machine of a cluster came or went; of "", one that served none
	failed   time.Time            // one could not be made, or broke
	refusals map[string]time.Time // until when a machine is not asked for
	short    map[demand.Key]bool  // needs that the last cycle has left short
}

// ForStuckPods begins what a run counts of the machines of an offer that were bought for Pods that found no room where
// sums say that there is enough.
const ForStuckPods = "bought for stuck Pods: "

func newOracle(w *world) oracle {
	return oracle{
		w: w, parties: map[string]*account{}, moved: map[string]time.Time{}, ids: map[string]string{}, refusals: map[string]time.Time{}, short: map[demand.Key]bool{},
	}
}

// violate notes a broken promise.
func (w *world) violate(promise, format string, args ...any) {
	v := sim.Violation{Promise: promise, At: w.now.Sub(epoch), What: fmt.Sprintf(format, args...)}
	if w.opts.FailFast {
		panic(v.String())
	}
	w.note(line{Kind: "violation", Need: promise, Reason: v.What})
	if len(w.violated) < 100 {
		w.violated = append(w.violated, v)
	}
}

func (o *oracle) of(name string) *account {
	if o.parties[name] == nil {
		o.parties[name] = &account{returned: map[string]time.Time{}}
	}
	return o.parties[name]
}

// began says that a leader with an empty memory leads.
func (o *oracle) began(now time.Time) {
	o.started = now
	for _, a := range o.parties {
		*a = account{returned: map[string]time.Time{}}
	}
	clear(o.refusals) // a hold is process-local
}

// decided looks at what the engine wants before it is done.
func (o *oracle) decided(r demand.Result) {
	w := o.w
	for _, err := range r.Rejected {
		w.note(line{Kind: "rejected", Reason: err.Error()})
		w.fired["event rejected"]++
	}
	for _, answer := range r.Answers {
		c := o.of(answer.Cluster)
		if !answer.Quarantined {
			c.accept()
		}
		if c.hold && !answer.Quarantined {
			w.violate("E5", "a roll-up of %s is in force that keeps %d of %d rows and came %d times since %s", answer.Cluster, c.rows, c.baseline, len(c.held), c.held[0].Sub(epoch))
		}
	}
	o.unmoved(r)
	clear(o.short)
	for _, s := range r.Shortfalls {
		o.short[s.Need] = true
	}
	seen := map[string]bool{}
	for _, a := range r.Actions {
		if seen[a.Machine] {
			w.violate("E2", "two actions for %s in one cycle: %s", a.Machine, a)
		}
		seen[a.Machine] = true
		if a.Disposition != demand.Execute {
			w.fired[a.Disposition.String()+" "+a.Kind.String()]++
			continue
		}
		w.fired["act "+a.Kind.String()]++
		if w.now.Before(o.paused) {
			w.violate("E12", "carried out in a pause: %s", a)
		}
		o.action(a)
	}
	o.remember(r)
}

func (o *oracle) action(a demand.Action) {
	w := o.w
	r := w.store.Get(a.Machine)
	switch a.Kind {
	case demand.Provision:
		if _, used := o.ids[a.Machine]; used {
			w.violate("E2", "an id is used a second time: %s", a)
		}
		if a.Reason == demand.ReasonConsolidation {
			o.substitutes(a)
		}
		if row := o.of(a.Cluster).row(a.Need); row != nil && row.Stuck > 0 {
			w.fired[ForStuckPods+a.Offer]++
		}
		return
	case demand.Fail, demand.Cancel:
		return
	}
	if r == nil {
		return // it is gone since, and the engine will be told
	}
	switch a.Kind {
	case demand.Bootstrap:
		if r.Cluster != "" && r.Cluster != a.Cluster {
			w.violate("E2", "%s is bound to %s: %s", r.ID, r.Cluster, a)
		}
		if r.Tenant != "" && r.Tenant != a.Cluster {
			w.violate("E7", "%s ran %s: %s", r.ID, r.Tenant, a)
		}
	case demand.Delete:
		if a.Reason == demand.ReasonDrift && a.Cluster != "" {
			o.outdated(a, r)
			return
		}
		if r.Bound() {
			w.violate("E8", "%s is bound to %s and %s: %s", r.ID, r.Cluster, r.State, a)
		}
	case demand.Reclaim:
		o.reclaim(a, r)
	case demand.Preempt:
		o.preempt(a, r)
	}
}

// reclaim checks a surplus machine that is to be given back.
func (o *oracle) reclaim(a demand.Action, r *leader.Record) {
	w, c := o.w, o.of(a.Cluster)
	if !c.reported {
		w.violate("E4", "%s before a roll-up of %s came to this leader", a, a.Cluster)
	}
	if p := w.party(a.Cluster); p == nil || !p.operator.Connected() {
		w.violate("E4", "%s while %s has no session", a, a.Cluster)
	}
	if len(c.held) > 0 {
		w.violate("E5", "%s while a roll-up with %d of %d rows is held", a, c.rows, c.baseline)
	}
	if w.now.Before(o.refusals[r.ID]) && a.Reason != demand.ReasonEmpty {
		w.violate("E11", "%s, which was refused and is on hold until %s", a, o.refusals[r.ID].Sub(epoch))
	}
	configured := 0
	for _, other := range w.store.Records {
		if other.Cluster == a.Cluster && (other.State == demand.Configured || other.State == demand.Draining) && !other.Condemned {
			configured++
		}
	}
	c.returned[r.Offer] = w.now
	if a.Reason == demand.ReasonConsolidation {
		o.substituted(a)
	}
	if a.Reason == demand.ReasonEmpty {
		c.empties = within(append(c.empties, w.now), w.now)
		if most := max(200, configured/10); len(c.empties) > most {
			w.violate("E6", "%d empty machines of %d in ten seconds: %s", len(c.empties), configured, a)
		}
		return
	}
	c.reclaims = within(append(c.reclaims, w.now), w.now)
	if most := max(1, configured/20); len(c.reclaims) > most {
		w.violate("E6", "%d machines of %d in ten seconds: %s", len(c.reclaims), configured, a)
	}
}

// within keeps the times of the last ten seconds.
func within(all []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(all, func(t time.Time) bool { return now.Sub(t) >= 10*time.Second })
}

// preempt checks a machine that is taken by force.
func (o *oracle) preempt(a demand.Action, r *leader.Record) {
	w := o.w
	if p := w.party(a.Cluster); p == nil || !p.operator.Connected() {
		w.violate("E4", "%s while %s has no session", a, a.Cluster)
	}
	if r.Stamp.Interruption == demand.Pinned {
		w.violate("E9", "%s: what runs there must not be disturbed", a)
	}
	if w.setting("domain") != "shared" {
		w.violate("E9", "%s, and no two clusters of this world share a priority domain", a)
	}
	o.robs(a, r)
}

// acted is called for each thing that is done to a machine.
func (o *oracle) acted(what string, r *leader.Record) {
	w := o.w
	switch what {
	case "provision", "bootstrap", "left", "gone":
		o.moved[cmp.Or(r.Cluster, r.Tenant)] = w.now // a machine that is asked for and refused, again and again, is at rest
	}
	switch what {
	case "failed":
		o.failed = w.now
	case "provision":
		if was, used := o.ids[r.ID]; used {
			w.violate("E2", "%s was provisioned as %s before", r.ID, was)
		}
		o.ids[r.ID] = r.Offer
	case "kept":
		o.refusals[r.ID] = w.now.Add(10 * time.Minute)
	case "configured", "left":
		delete(o.refusals, r.ID)
	}
}

// look compares the records with the provider after each tick.
func (o *oracle) look() {
	w := o.w
	known := 0
	for _, vm := range w.cloud.Live() {
		r := w.store.Get(vm.ID)
		switch {
		case r == nil && vm.Stage != cloud.Deleting:
			w.violate("E2", "the machine %s is %s and has no record", vm.ID, vm.Stage)
			continue
		case r == nil:
			continue
		}
		known++
		if r.Offer != vm.Type {
			w.violate("E2", "%s was decided as %s and is %s", vm.ID, r.Offer, vm.Type)
		}
		for _, c := range vm.Clusters {
			if c != vm.Clusters[0] {
				w.violate("E7", "%s ran %s and then %s", vm.ID, vm.Clusters[0], c)
			}
		}
		if on := vm.Cluster(); on != "" && r.Cluster != on && r.State != demand.Failed && r.State != demand.Deleting {
			w.violate("E2", "%s is %s in %s, and its record says %q and %s", vm.ID, vm.Stage, on, r.Cluster, r.State)
		}
	}
}
