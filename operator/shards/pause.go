package shards

import (
	"math"
	"time"
)

// breather is what a server that is asked too much gets at least, whatever the spread.
const breather = 5 * time.Second

// healthy is how long a connection or stream must last for failures before it to be
// forgotten.
const healthy = 30 * time.Second

// Pause returns how long to wait before trying again. failures counts those in a row, from
// 1; random is in [0, 1) and spreads the pause by a fifth to either side, so that what
// failed together does not come back together.
func Pause(class Class, failures int, random float64) time.Duration {
	first, most := time.Second, 30*time.Second
	switch class {
	case AuthFailed, TenantUnknown, Denied:
		first, most = 30*time.Second, 5*time.Minute
	case Mismatch:
		first, most = time.Minute, time.Minute
	case Exhausted, Unimplemented:
		first = breather
	}
	grown := min(float64(first)*math.Pow(1.6, float64(max(failures, 1)-1)), float64(most))
	pause := time.Duration(grown * (0.8 + 0.4*random))
	if class == Exhausted {
		return max(pause, breather)
	}
	return pause
}
