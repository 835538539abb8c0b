package provisioning

import (
	"fmt"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/placement"
)

// attempt makes one machine: it has everything its create call needs, fixed
// before the first try so that each try sends the same bytes.
type attempt struct {
	fleet.Attempt
	group   fleet.GroupID
	claim   *placement.Claim
	request driver.CreateRequest
	sent    int                     // calls so far
	trace   string                  // of its record; empty: none
	refused func(driver.ErrorClass) // tells who has bought it; nil: nobody has
}

// on brings the attempt to the state that an event leads to, and returns why.
func (it *attempt) on(e fleet.AttemptEvent) (why string) {
	step, err := it.State.On(e)
	if err != nil {
		panic(fmt.Sprintf("instance %s: %v", it.ID, err)) // the callers know in which state they are
	}
	it.State = step.State
	return step.Why
}

// drop ends an attempt before its call is sent because nobody wants the instance any more:
// the room that was counted for it is free, unless some call may have made the machine.
func (it *attempt) drop() {
	if it.State.MayExist() {
		it.claim.Accepted()
	} else {
		it.claim.Dropped()
	}
	it.on(fleet.AttemptEventUnwanted)
}
