package demandsim

import (
	"slices"
	"strings"
	"time"

	"nstance.dev/e2e/sim/demandsim/leader"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/consolidation"
)

// substitutes checks a machine that is bought to replace others.
func (o *oracle) substitutes(a demand.Action) {
	w, c := o.w, o.of(a.Cluster)
	if w.setting("consolidate") != "on" {
		w.violate("E13", "%s, and nobody asked for it", a)
	}
	if since := w.now.Sub(o.started); since < time.Hour {
		w.violate("E13", "%s, and this leader knows prices for %s", a, since)
	}
	if at, ok := c.returned[a.Offer]; ok && w.now.Sub(at) < 10*time.Minute {
		w.violate("E13", "%s, and the like was given back %s ago", a, w.now.Sub(at))
	}
	for i := range c.force.Rows {
		if o.short[c.force.Rows[i].Key] {
			w.violate("E13", "%s while %s lacks something", a, a.Cluster)
		}
	}
	for _, r := range w.store.Records {
		if r.Cluster != a.Cluster || r.State == demand.Configured && !r.Condemned || r.State == demand.Failed || r.Replaces == a.Replaces {
			continue
		}
		w.violate("E13", "%s while %s is %s for %s", a, r.ID, r.State, r.Cluster)
	}
	for id := range strings.SplitSeq(a.Replaces, ",") {
		if r := w.store.Get(id); r == nil || r.Cluster != a.Cluster || r.State != demand.Configured {
			w.violate("E13", "%s, and %s does not serve", a, id)
		}
	}
	w.fired["consolidation begun"]++
}

// substituted checks a machine that is given back because it was replaced.
func (o *oracle) substituted(a demand.Action) {
	w := o.w
	for _, r := range w.store.Records {
		if r.Bound() && r.Cluster == a.Cluster && r.State != demand.Configured && slices.Contains(strings.Split(r.Replaces, ","), a.Machine) {
			w.violate("E13", "%s, and %s, which replaces it, is %s", a, r.ID, r.State)
		}
	}
	w.fired["consolidation done"]++
}

// outdated checks a machine that goes because others have taken its place.
func (o *oracle) outdated(a demand.Action, r *leader.Record) {
	w := o.w
	if r.Outdated != a.Reason {
		w.violate("E13", "%s, which may stay", a)
	}
	if p := w.party(a.Cluster); p == nil || !p.operator.Connected() {
		w.violate("E4", "%s while %s has no session", a, a.Cluster)
	}
	group, going := offerOf(r.Offer).group, 1
	for _, other := range w.store.Records {
		// Those of the leader before are not known.
		if other != r && other.Condemned && other.Relieved.After(o.started) && offerOf(other.Offer).group == group {
			going++
		}
	}
	if going > consolidation.MostReplaced { // of one attempt: some may have been chosen for what they cost
		w.violate("E13", "%s, and with it %d of its group go", a, going)
	}
	o.substituted(a)
	w.fired["outdated"]++
}
