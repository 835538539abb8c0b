package wire

import (
	"math/rand/v2"
	"sync"
	"time"

	"nstance.dev/server/driver"
)

// Call is one call of a cloud's API as it arrived.
type Call struct {
	N         int       // counts a gate's calls from 1
	At        time.Time // when it arrived
	Op        string    // the API's own name: RunInstances, instances.insert, POST /nodes/{node}/qemu/{vmid}/clone
	Key       string    // what it is about, if that is known: an instance id, a zone, a task
	Throttled bool      // refused, because a bucket was empty; false in what [Faults] sees
}

// Fault is what goes wrong with one call; the zero value is nothing. Pauses end
// with the caller's context.
type Fault struct {
	Kind  driver.ErrorClass // answered in the cloud's own words; empty: no error
	After bool              // with Kind: the call took effect all the same
	Lost  bool              // the call takes effect, and the connection breaks before the answer
	Delay time.Duration     // before anything

	// Linger is the time between the effect and the answer: a caller that has
	// less patience does not learn of an effect that stands.
	Linger time.Duration

	// RetryAfter is the cloud's advice with a refusal; 0: none. A gate sets it
	// when a bucket is empty.
	RetryAfter time.Duration
}

// Faults decides what goes wrong with a call. It may be called concurrently, and
// must make no call of its own.
type Faults func(Call) Fault

// Always gives every call of op the fault f; an empty op stands for all.
func Always(op string, f Fault) Faults {
	return func(c Call) Fault {
		if !of(c, op) {
			return Fault{}
		}
		return f
	}
}

// Times gives the next n calls of op the fault f; an empty op stands for all.
func Times(n int, op string, f Fault) Faults {
	var mu sync.Mutex
	return func(c Call) Fault {
		mu.Lock()
		defer mu.Unlock()
		if !of(c, op) || n <= 0 {
			return Fault{}
		}
		n--
		return f
	}
}

// Any gives a call the first fault that one of fs has for it. Those after that
// one are not asked.
func Any(fs ...Faults) Faults {
	return func(c Call) Fault {
		for _, f := range fs {
			if fault := f(c); fault != (Fault{}) {
				return fault
			}
		}
		return Fault{}
	}
}

// Only asks f about the calls that match.
func Only(match func(Call) bool, f Faults) Faults {
	return func(c Call) Fault {
		if !match(c) {
			return Fault{}
		}
		return f(c)
	}
}

// Random gives a share of the calls, from 0 to 1, one of the faults. What a call
// gets depends on the seed and the call's number and on nothing else.
func Random(seed uint64, share float64, faults ...Fault) Faults {
	return func(c Call) Fault {
		r := rand.New(rand.NewPCG(seed, uint64(c.N)))
		if len(faults) == 0 || r.Float64() >= share {
			return Fault{}
		}
		return faults[r.IntN(len(faults))]
	}
}

func of(c Call, op string) bool { return op == "" || op == c.Op }
