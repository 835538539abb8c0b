package session

import (
	"time"

	"nstance.dev/operator/shards"
)

// lived is how long a session must last for the failures before it to be forgotten.
const lived = 30 * time.Second

// Backoff is how long to wait before a session is opened again: Initial at first, twice that,
// and so on up to Max, each up to a fifth longer or shorter.
type Backoff struct {
	Initial, Max time.Duration
}

// pause returns how long to wait after so many failures in a row, 1 or more; random is in
// [0, 1).
func (b Backoff) pause(failures int, random float64) time.Duration {
	pause := b.Max
	if n := failures - 1; n < 30 && b.Initial<<n < b.Max {
		pause = b.Initial << n
	}
	return spread(pause, random)
}

// most returns the longest pause.
func (b Backoff) most(random float64) time.Duration { return spread(b.Max, random) }

func spread(d time.Duration, random float64) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*random))
}

// refusal reports whether a session ended for a reason that lasts until somebody changes
// something: then it is not worth trying soon.
func refusal(err error) bool {
	class, reason := shards.Classify(err)
	switch class {
	case shards.AuthFailed, shards.TenantUnknown, shards.Mismatch, shards.Denied, shards.Unimplemented:
		return true
	}
	return reason == "PROTOCOL_VERSION"
}

// withoutDemand reports whether the shard has no group of mode demand, which is no fault.
func withoutDemand(err error) bool {
	_, reason := shards.Classify(err)
	return reason == "NO_DEMAND_GROUP"
}
