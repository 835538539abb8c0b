package demandsim

import (
	"reflect"
	"slices"
	"time"

	"nstance.dev/e2e/sim/demandsim/leader"
	"nstance.dev/e2e/sim/demandsim/tenant"
	"nstance.dev/server/demand"
)

// account is what the oracle knows of a cluster.
type account struct {
	reported bool        // a roll-up came to this leader
	baseline int         // rows of the last roll-up that was in force
	held     []time.Time // when those came that are not
	hold     bool        // whether the last one must not be
	reclaims []time.Time // of machines with Pods
	empties  []time.Time
	returned map[string]time.Time // when a machine of an offer was last given back
	asked    demand.Rollup        // the last whole roll-up
	rows     int
	force    demand.Rollup // the roll-up that is in force
	version  int           // counts how often that was another one
	kept     stock         // what the last cycle left it
	robbed   bool          // the last cycle took machines of it for needs of others
	above    int32         // and this is the highest priority of these
}

// rolledUp is called with each roll-up before the engine has it.
func (o *oracle) rolledUp(p *party, up tenant.RollUp) {
	a, rows := o.of(p.name), 0
	if up[0].SameAsSequence != 0 {
		rows = a.rows
	}
	for _, part := range up {
		rows += len(part.Needs)
	}
	a.rows = rows
	if up[0].SameAsSequence == 0 {
		a.asked = leader.Asked(p.name, up)
	}
	switch forged := a.reported && a.baseline >= 10 && rows*10 < a.baseline; {
	case forged:
		a.held = append(a.held, o.w.now)
		a.hold = true
		if len(a.held) >= 3 && o.w.now.Sub(a.held[0]) >= 20*time.Second {
			a.baseline, a.held, a.hold = rows, nil, false
		}
	default:
		a.baseline, a.held, a.hold = rows, nil, false
	}
	a.reported = true
}

// accept says that the last roll-up is in force.
func (a *account) accept() {
	if !reflect.DeepEqual(a.force.Rows, a.asked.Rows) || !reflect.DeepEqual(a.force.Overheads, a.asked.Overheads) {
		a.force, a.version = a.asked, a.version+1
	}
}

// row is the row of a need in the roll-up that is in force, or nil.
func (a *account) row(key demand.Key) *demand.Row {
	i := slices.IndexFunc(a.force.Rows, func(r demand.Row) bool { return r.Key == key })
	if i < 0 {
		return nil
	}
	return &a.force.Rows[i]
}

// spreads says whether anything has to be spread over domains. What such a row asks of each of them follows what can
// be had there, which changes when no machine does.
func (a *account) spreads() bool {
	return slices.ContainsFunc(a.force.Rows, func(r demand.Row) bool { return len(r.Spread) > 0 })
}
