package demandsim

import (
	"fmt"
	"time"

	"nstance.dev/e2e/sim/demandsim/cluster"
	"nstance.dev/server/demand"
)

// patience is how long a world may take to come to rest once all faults have ended: the longest
// cooldown, hold and drain, one after another.
const patience = 3 * time.Hour

// calm is for how long nothing may be done in a world at rest.
const calm = 20 * time.Minute

// longestHold is how long a machine may be idle where others come and go.
const longestHold = 10 * time.Minute

// settle ends all faults, lets the world go on until it is at rest, and checks that every Pod that
// can run does, and that no machine is there without a reason.
func (w *world) settle() {
	w.notef("plan", "all faults end")
	for i := range offers {
		w.cloud.SetRoom(offers[i].name(), -1)
		w.cloud.Clear(offers[i].name())
		w.market[offers[i].name()] = offers[i].price
	}
	for _, p := range w.tenants {
		p.awayUntil, p.blobUntil, p.refuseUntil, p.forged = time.Time{}, time.Time{}, time.Time{}, false
		for _, load := range p.cluster.Workloads() {
			if load.MinAvailable >= load.Replicas {
				load.MinAvailable = max(0, load.Replicas-1)
			}
		}
	}
	if l := w.leading(); l != nil {
		l.SetOffers(w.offered())
		l.EndAfter(-1)
		w.resume(w.now)
	}
	until, least := w.now.Add(patience), w.now
	if w.setting("consolidate") == "on" { // one set at a time, once a price is known for an hour
		until, least = until.Add(12*time.Hour), w.now.Add(time.Hour+calm)
	}
	for w.now.Before(until) && !w.atRest(least) {
		w.tick()
	}
	for _, t := range w.tenants {
		if since := w.now.Sub(w.oracle.moved[t.name]); since < calm && !w.restless(t.name) {
			w.violate("E1", "%s after the last fault machines of %s still come and go, %s ago", patience, t.name, since)
		}
	}
	if p := w.waiting(); p != nil {
		w.violate("E3", "%s after the last fault the Pod %s is pending since %s", patience, p.Object.Name, p.Since.Sub(epoch))
	}
	w.surplus()
}

// waiting is a Pod that has no Node and would fit on one of a machine that is for sale.
func (w *world) waiting() *cluster.Pod {
	for _, t := range w.tenants {
		for _, p := range t.cluster.Pods() {
			if p.Pending() && sold(p) {
				return p
			}
		}
	}
	return nil
}

// atRest says whether no Pod waits and no machine has come or gone for a while, of a cluster that is restless for an hour
// at most. Prices are known from least on.
func (w *world) atRest(least time.Time) bool {
	if w.waiting() != nil {
		return false
	}
	all, others, restless := true, true, false
	for _, t := range w.tenants {
		still := w.now.Sub(w.oracle.moved[t.name]) >= calm
		all = all && still
		if w.restless(t.name) {
			restless = true
		} else {
			others = others && still
		}
	}
	if restless && others && w.now.Sub(epoch) > w.duration("length")+time.Hour {
		return true
	}
	return all && w.now.Sub(w.oracle.moved[""]) >= calm && !w.now.Before(least)
}

// restless says whether a cluster, without a name any, has Pods spread over racks. A domain goes with its last Node, so the check
// before a drain lets Nodes go one by one that the roll-up asks for as a whole, and machines may be bought
// for such Pods and given back again, at most once in the time that a row of stuck Pods is kept. Where clusters
// take machines from each other, or share what there is too little of, one of them moves all.
func (w *world) restless(name string) bool {
	shared := w.setting("domain") == "shared" || w.setting("cpus") != defaults["cpus"]
	for _, t := range w.tenants {
		if name != "" && t.name != name && !shared {
			continue
		}
		for _, load := range t.cluster.Workloads() {
			if load.Replicas > 0 && len(load.Template.Spec.TopologySpreadConstraints) > 0 {
				return true
			}
		}
	}
	return false
}

// sold says whether a machine of any offer would take the Pod.
func sold(p *cluster.Pod) bool {
	for i := range offers {
		o := &offers[i]
		if cluster.Tolerates(p.Object.Spec.Tolerations, o.taints()) && cluster.Selects(&p.Object.Spec, o.labels()) && p.Need().Fits(o.allocatable) {
			return true
		}
	}
	return false
}

// surplus checks that what is left after rest is not more than the demand can explain.
func (w *world) surplus() {
	for _, r := range w.store.Records {
		if w.restless(r.Tenant) && w.now.Sub(r.Since) < longestHold {
			continue
		}
		if r.State == demand.Idle && r.Cluster == "" {
			w.violate("E8", "%s is idle since %s and kept", r.ID, r.Since.Sub(epoch))
		}
	}
	for _, t := range w.tenants {
		var asked, have cluster.Vector
		machines := 0
		for _, p := range t.cluster.Pods() {
			if !p.Ended() && !p.Owner.Daemon {
				asked = asked.Plus(p.Need())
			}
		}
		for _, r := range w.store.Records {
			if r.Cluster == t.name && r.State == demand.Configured {
				have, machines = have.Plus(offerOf(r.Offer).allocatable), machines+1
			}
		}
		if machines > 0 && asked == (cluster.Vector{}) {
			w.violate("E3", "%s asks for nothing and has %d machines", t.name, machines)
		}
		w.notef("rest", "%s", fmt.Sprintf("%s asks for %v and has %v in %d machines", t.name, asked, have, machines))
	}
}

// rest notes the workloads that have Pods without a Node at the end.
func (w *world) rest() {
	for _, t := range w.tenants {
		for _, load := range t.cluster.Workloads() {
			waiting := 0
			for _, p := range t.cluster.Pods() {
				if p.Owner == load && p.Pending() {
					waiting++
				}
			}
			if waiting > 0 {
				w.note(line{Kind: "pending", Cluster: t.name, Need: load.Name, Reason: fmt.Sprint(waiting)})
			}
		}
	}
}
