package sim

import "time"

const (
	// restTime is what all may take that does not depend on how many machines there are. A
	// group whose machines never registered waits for its breaker, one whose new machines
	// failed for its rotation to go on, and a record that a late write has brought back for
	// the next comparison with storage: each an hour at most. A leader has to be found,
	// machines that will not register are given up, and so on: a quarter of an hour.
	restTime = time.Hour + 15*time.Minute
	// decideTime is what a server takes between the steps of one replacement: it plans every
	// few seconds, and calls the provider as often as its limits allow.
	decideTime = 10 * time.Second
)

// settleTime is how long a shard may take from the last fault on until all is as it should
// be (L1). Groups go beside each other. In a group one machine goes at a time, be it that
// rotation replaces it or that repair does with its smallest limit; so the largest group
// bounds them all.
func (w *world) settleTime() time.Duration {
	machines := 0
	for _, g := range w.truth.groupsNow() {
		machines = max(machines, w.truth.size(g).size, len(w.vms(g)))
	}
	drain := max(w.plan.duration("drain"), w.static().Config.Server.DrainTimeout.Std()) // an event may have edited it
	return settleTime(w.plan, drain, machines)
}

// settleTime allows as many replacements, one after another, as the largest group has
// machines, and restTime. Drain is the longest timeout of a drain.
func settleTime(p Plan, drain time.Duration, machines int) time.Duration {
	return restTime + time.Duration(machines)*replacementTime(p, drain)
}

// replacementTime is how long one replacement takes at most: the new machine boots,
// reports and is watched for as long as its agent takes to report again; the old one is
// drained until that times out and goes; and a listing shows that it is gone.
func replacementTime(p Plan, drain time.Duration) time.Duration {
	joins := 2*p.duration("boot") + 2*p.duration("interval")
	goes := drain + 2*p.duration("delete") + p.duration("lag") + listInterval
	return joins + goes + decideTime
}
