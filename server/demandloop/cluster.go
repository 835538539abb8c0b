package demandloop

import (
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
)

// cluster is what the loop keeps of one cluster.
type cluster struct {
	name     string
	session  Session // nil: none
	hello    Hello
	snapshot uint64 // the number of the last one

	rows    map[demand.Key]demand.Row // of the roll-up that is in force
	pending map[demand.Key]demand.Row // of the one that came last
	asks    map[string]*machine       // by request

	probed time.Time // when the engine was last asked what can be had

	capacities map[string]Capacity // what the operator was last told of each profile in this session, by fingerprint
}

// live reports whether there is an operator to speak to.
func (c *cluster) live() bool { return c != nil && c.session != nil }

// tell tells the operator something, if there is one.
func (c *cluster) tell(m Message) {
	if c.live() {
		c.session.Tell(m)
	}
}

// requirements are those of the need that a machine was bound for, as far as they are known.
func (c *cluster) requirements(need demand.Key) []match.Requirement {
	if c == nil {
		return nil
	}
	return c.rows[need].Terms.Requirements
}

// profiles are the terms of all rows by fingerprint.
func (c *cluster) profiles() map[string]match.Terms {
	all := make(map[string]match.Terms, len(c.rows))
	for _, row := range c.rows {
		all[row.Fingerprint] = row.Terms
	}
	return all
}

// keep is what is kept of the rows of a roll-up until it is in force.
func (c *cluster) keep(rows []demand.Row) {
	c.pending = make(map[demand.Key]demand.Row, len(rows))
	for _, row := range rows {
		c.pending[row.Key] = row
	}
}
