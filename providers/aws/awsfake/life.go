package awsfake

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// life is what a machine was, is and will be: each state with the time of its
// beginning, the earliest first. To look at the past of a life is what the lag of
// the API comes to.
type life []phase

type phase struct {
	since  time.Time
	state  types.InstanceStateName
	reason stateReason
}

// stateReason is why a machine left its last state.
type stateReason struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

var (
	byUser    = stateReason{"Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"}
	byMachine = stateReason{"Client.InstanceInitiatedShutdown", "Client.InstanceInitiatedShutdown: Instance initiated shutdown"}
	bySpot    = stateReason{"Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Instance terminated due to spot interruption"}
	byFailure = stateReason{"Server.InternalError", "Server.InternalError: Internal error on launch"}
)

// at returns the phase of a machine at that time; false before its beginning.
func (l life) at(when time.Time) (phase, bool) {
	for i := len(l) - 1; i >= 0; i-- {
		if !l[i].since.After(when) {
			return l[i], true
		}
	}
	return phase{}, false
}

// then returns the life that turns to one state now and, after a while, to another.
// What was still to come does not come.
func (l life) then(now time.Time, reason stateReason, first types.InstanceStateName, after time.Duration, next types.InstanceStateName) life {
	past := l[:0:0]
	for _, p := range l {
		if !p.since.After(now) {
			past = append(past, p)
		}
	}
	return append(past, phase{now, first, reason}, phase{now.Add(after), next, reason})
}

// stateCodes are the numbers of the states, as the type InstanceState of the API
// reference has them.
var stateCodes = map[types.InstanceStateName]int{
	types.InstanceStateNamePending:      0,
	types.InstanceStateNameRunning:      16,
	types.InstanceStateNameShuttingDown: 32,
	types.InstanceStateNameTerminated:   48,
	types.InstanceStateNameStopping:     64,
	types.InstanceStateNameStopped:      80,
}
