package drivertest

import (
	"fmt"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Op is the kind of a call.
type Op string

// The kinds of calls.
const (
	OpCreate Op = "create"
	OpGet    Op = "get"
	OpList   Op = "list"
	OpDelete Op = "delete"

	OpSubnet       Op = "check-subnet"
	OpRegister     Op = "lb-register"
	OpDeregister   Op = "lb-deregister"
	OpMembers      Op = "lb-list"
	OpImage        Op = "resolve-image"
	OpPower        Op = "power"
	OpPowerActions Op = "power-actions"
	OpOutput       Op = "output"
)

// Call is one call as the cloud received it.
type Call struct {
	N       int                   // counts the cloud's calls from 1
	Op      Op                    // what was asked
	At      time.Time             // when it arrived
	ID      identity.ID           // the machine; empty for a list
	Ref     driver.Ref            // of a get or delete
	Owner   driver.Owner          // of a create or list
	Request *driver.CreateRequest // of a create, else nil; not to be changed
	Subject string                // what else it is about: subnet, key of a load balancer, image filters, power action
}

// Faults decides what goes wrong with a call. It may be called concurrently and
// must not make a call of its own; [Cloud.Machines] and the like are allowed.
type Faults func(Call) Fault

// Fault is what goes wrong with one call; the zero value is nothing. Pauses end
// with the caller's context.
type Fault struct {
	Latency time.Duration // before the call takes effect, beside Conditions.Latency
	Before  error         // returned, and the call takes no effect
	After   error         // returned after the call took effect: a lost answer
	Linger  time.Duration // between the effect and the answer

	// Late makes the call fail as Ambiguous at once and take its effect, if it
	// then still has one, this much later.
	Late time.Duration

	// Dies makes a created machine fail DieAfter its creation. A machine that
	// dies at once never boots.
	Dies     bool
	DieAfter time.Duration

	Empty    bool // a list answers with nothing, and without an error
	FailPage int  // a list fails at this page, counted from 1, if it has as many
}

// Fail returns the fault of a call that the cloud refuses without effect, with
// an error of the given kind.
func Fail(kind driver.ErrorClass) Fault {
	return Fault{Before: driver.Fail(kind, "call", fmt.Errorf("refused on demand"))}
}

// LostAnswer returns the fault of a call that takes effect and whose answer
// never arrives.
func LostAnswer() Fault {
	return Fault{After: driver.Fail(driver.Ambiguous, "call", fmt.Errorf("connection lost"))}
}

// Always gives every call of op the fault f.
func Always(op Op, f Fault) Faults {
	return func(c Call) Fault {
		if c.Op != op {
			return Fault{}
		}
		return f
	}
}

// Times gives the next n calls of op the fault f.
func Times(n int, op Op, f Fault) Faults {
	var mu sync.Mutex
	return func(c Call) Fault {
		mu.Lock()
		defer mu.Unlock()
		if c.Op != op || n <= 0 {
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
