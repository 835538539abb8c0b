package importer

import "strings"

// Shard is a configured shard, with what it has.
type Shard struct {
	Name string
	// Listed: it can be reached, and has listed all its groups since this process began
	// to lead and since its last connection.
	Listed bool
	// Groups are those of our tenant; meaningless unless Listed.
	Groups []Group
}

// Gate says whether import may make anything.
type Gate struct {
	Open bool
	// Waiting are the shards that have not said what they have, in their order.
	Waiting []string
	// Reason says so to users; empty for an open gate.
	Reason string
}

// OpenGate is open once every configured shard has listed its groups. Without any shard
// it is closed.
func OpenGate(shards []Shard) Gate {
	var g Gate
	for _, s := range shards {
		if !s.Listed {
			g.Waiting = append(g.Waiting, s.Name)
		}
	}
	switch {
	case len(shards) == 0:
		g.Reason = "no shard is configured"
	case len(g.Waiting) > 0:
		g.Reason = "waiting for the groups of " + strings.Join(g.Waiting, ", ")
	default:
		g.Open = true
	}
	return g
}
