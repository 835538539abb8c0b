package fleet

import (
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
)

// AttemptState is a station of the attempt to make one machine, from the record of its
// instance to the provider's last word. The zero AttemptState is none and takes no event.
//
//	recording ─▶ queued ─▶ sent ─▶ accepted
//	    │          │ ◀─────  │ ───▶ withdrawn
//	    │          │         ▼
//	    │          │      unclear ──▶ repeated ─▶ accepted, abandoned
//	    │          │         │  ◀──────  │
//	    ▼          ▼         ▼
//	unrecorded  withdrawn  left
//
// Unclear and repeated are queued and sent once some call may have made the machine:
// from there no way leads to withdrawn, which takes the record back without a delete.
type AttemptState string

// The states. An attempt ends in the last five.
const (
	AttemptRecording  AttemptState = "recording"  // the instance's record is being written; the provider knows nothing (S3)
	AttemptQueued     AttemptState = "queued"     // it waits for its turn, and certainly there is no machine
	AttemptSent       AttemptState = "sent"       // a create call is under way, and none before it can have made the machine
	AttemptUnclear    AttemptState = "unclear"    // it waits for its turn, and a call before may have made the machine
	AttemptRepeated   AttemptState = "repeated"   // the same call is under way again, after one that may have made the machine
	AttemptAccepted   AttemptState = "accepted"   // the provider has taken it: the machine is to be recorded
	AttemptWithdrawn  AttemptState = "withdrawn"  // certainly there is no machine: the record is to be taken back
	AttemptAbandoned  AttemptState = "abandoned"  // there may be a machine: the instance is to be deleted like any other
	AttemptUnrecorded AttemptState = "unrecorded" // its record may stand or appear yet: it is to be taken back for good
	AttemptLeft       AttemptState = "left"       // nothing is to be done here: others end the instance, or there is none
)

// AttemptStates returns every state, in the order of an attempt.
func AttemptStates() []AttemptState {
	return []AttemptState{
		AttemptRecording, AttemptQueued, AttemptSent, AttemptUnclear, AttemptRepeated,
		AttemptAccepted, AttemptWithdrawn, AttemptAbandoned, AttemptUnrecorded, AttemptLeft,
	}
}

// Waiting reports whether the create call is to be sent when it is its turn.
func (s AttemptState) Waiting() bool { return s == AttemptQueued || s == AttemptUnclear }

// Calling reports whether the create call is under way.
func (s AttemptState) Calling() bool { return s == AttemptSent || s == AttemptRepeated }

// MayExist reports whether an attempt that goes on may have made a machine before its
// present call.
func (s AttemptState) MayExist() bool { return s == AttemptUnclear || s == AttemptRepeated }

// AttemptEvent is something that was decided about, or found out of, one attempt.
// The zero AttemptEvent is none.
type AttemptEvent uint8

// The events.
const (
	AttemptEventRecorded        AttemptEvent = iota + 1 // the record is durable
	AttemptEventRecordRefused                           // the record was not written
	AttemptEventRecordUnclear                           // nobody knows whether the record was written
	AttemptEventTurn                                    // it is its turn, and the call goes to the provider
	AttemptEventUnwanted                                // it is its turn, and the instance has ended, leaves or has its machine
	AttemptEventStale                                   // it is its turn, and too little time is left to register in
	AttemptEventHopeless                                // it is its turn, and the call would meet what its group waits for
	AttemptEventSurplus                                 // it is its turn, and its group has shrunk and has enough
	AttemptEventPaused                                  // it is its turn, and its group is paused
	AttemptEventMade                                    // the provider has taken it, and says which machine it is
	AttemptEventThrottled                               // the provider did nothing and wants to be called less often
	AttemptEventUnclear                                 // nobody knows whether the call made the machine
	AttemptEventNoCapacity                              // the provider has no room for such a machine there
	AttemptEventProviderRefused                         // the provider refused it for another reason
	AttemptEventTermOver                                // the leadership ended before the call or with it
)

var attemptEventNames = [...]string{
	AttemptEventRecorded:        "recorded",
	AttemptEventRecordRefused:   "record-refused",
	AttemptEventRecordUnclear:   "record-unclear",
	AttemptEventTurn:            "turn",
	AttemptEventUnwanted:        "unwanted",
	AttemptEventStale:           "stale",
	AttemptEventHopeless:        "hopeless",
	AttemptEventSurplus:         "surplus",
	AttemptEventPaused:          "paused",
	AttemptEventMade:            "made",
	AttemptEventThrottled:       "throttled",
	AttemptEventUnclear:         "unclear",
	AttemptEventNoCapacity:      "no-capacity",
	AttemptEventProviderRefused: "refused",
	AttemptEventTermOver:        "term-over",
}

// AttemptEvents returns every event.
func AttemptEvents() []AttemptEvent {
	all := make([]AttemptEvent, 0, len(attemptEventNames)-1)
	for e := AttemptEventRecorded; int(e) < len(attemptEventNames); e++ {
		all = append(all, e)
	}
	return all
}

// String is the event in words; "none" for the zero AttemptEvent.
func (e AttemptEvent) String() string {
	switch {
	case e == 0:
		return "none"
	case int(e) < len(attemptEventNames):
		return attemptEventNames[e]
	default:
		return fmt.Sprintf("attempt-event(%d)", uint8(e))
	}
}

// AttemptStep is what becomes of an attempt with an event.
type AttemptStep struct {
	State AttemptState
	Why   string // for people
}

// attempts is the whole state machine; a pair that is not here is an error.
var attempts = map[AttemptState]map[AttemptEvent]AttemptStep{
	AttemptRecording: {
		AttemptEventRecorded:      {AttemptQueued, "its record is durable"},
		AttemptEventRecordRefused: {AttemptLeft, "its record was not written"},
		AttemptEventRecordUnclear: {AttemptUnrecorded, "whether its record was written is unknown"},
	},
	AttemptQueued: {
		AttemptEventTurn:     {AttemptSent, "it is its turn"},
		AttemptEventUnwanted: {AttemptLeft, "it was decided otherwise before its turn"},
		AttemptEventStale:    {AttemptWithdrawn, "half of the time to register in is over; another one is made with a new nonce"},
		AttemptEventHopeless: {AttemptWithdrawn, "the provider has refused one of its group for a cause that this one would meet too"},
		AttemptEventSurplus:  {AttemptWithdrawn, "its group was made smaller and has enough without it"},
		AttemptEventPaused:   {AttemptWithdrawn, "its group is paused"},
		AttemptEventTermOver: {AttemptLeft, "the next leader finds its record"},
	},
	AttemptSent: {
		AttemptEventMade:            {AttemptAccepted, "the provider has taken it"},
		AttemptEventThrottled:       {AttemptQueued, "the provider wants to be called less often"},
		AttemptEventUnclear:         {AttemptUnclear, "whether the call made the machine is unknown; the same call is repeated"},
		AttemptEventNoCapacity:      {AttemptWithdrawn, "the provider has no room for it there; another place is tried"},
		AttemptEventProviderRefused: {AttemptWithdrawn, "the provider has refused it"},
		AttemptEventTermOver:        {AttemptLeft, "the next leader finds its record and asks the provider"},
	},
	AttemptUnclear: { // neither time nor size give it up: it may have made the machine
		AttemptEventTurn:     {AttemptRepeated, "only the same call tells what became of the one before"},
		AttemptEventUnwanted: {AttemptLeft, "whoever deletes the instance deletes what the call may have made"},
		AttemptEventPaused:   {AttemptUnclear, "its group is paused; it waits for the end of that"},
		AttemptEventTermOver: {AttemptLeft, "the next leader finds its record"},
	},
	AttemptRepeated: {
		AttemptEventMade:            {AttemptAccepted, "the provider has taken it"},
		AttemptEventThrottled:       {AttemptUnclear, "the provider wants to be called less often"},
		AttemptEventUnclear:         {AttemptUnclear, "whether the call made the machine is unknown; the same call is repeated"},
		AttemptEventNoCapacity:      {AttemptAbandoned, "refused after a lost answer"},
		AttemptEventProviderRefused: {AttemptAbandoned, "refused after a lost answer"},
		AttemptEventTermOver:        {AttemptLeft, "the next leader finds its record and asks the provider"},
	},
}

// ErrAttempt is matched by the error of an event that the state of an attempt does not take.
var ErrAttempt = errors.New("event not possible in this state of a create attempt")

// On returns what becomes of an attempt in state s after e. Where e is not possible the
// state stays, and the error matches [ErrAttempt].
func (s AttemptState) On(e AttemptEvent) (AttemptStep, error) {
	step, ok := attempts[s][e]
	if !ok {
		return AttemptStep{State: s}, fmt.Errorf("%w: %s in state %q", ErrAttempt, e, string(s))
	}
	return step, nil
}

// Attempt is a create attempt as decisions see it.
type Attempt struct {
	ID       identity.ID
	State    AttemptState
	OnDemand bool
	Bought   bool      // demand asks for it: neither the size of its group nor what that waits for counts
	Size     int       // of its group when the machine was decided on
	Stale    time.Time // from then on too little time is left to register in
}

// GivenUp decides whether a waiting attempt is given up although it is its turn, and why;
// zero: it is not. Hopeless says that its group waits for what every create would meet. Members
// are asked for only where the group was made smaller: there may be thousands, and as many attempts.
func (a Attempt) GivenUp(group Group, members func() []Instance, hopeless bool, now time.Time) AttemptEvent {
	switch {
	case a.State != AttemptQueued:
		return 0 // it may have made the machine
	case now.After(a.Stale):
		return AttemptEventStale
	case a.OnDemand, a.Bought:
		return 0 // it is wanted, whatever its group waits for
	case hopeless:
		return AttemptEventHopeless
	case a.surplus(group, members):
		return AttemptEventSurplus
	default:
		return 0
	}
}

// surplus reports whether the group was made smaller since the attempt was decided on, and
// has enough without it (S5). The next plan would say so too; but it waits for the writes of
// the last one, of which this attempt's may have been the fastest.
func (a Attempt) surplus(group Group, members func() []Instance) bool {
	size := 0
	if !group.Deleted {
		size = group.Size
	}
	if size >= a.Size {
		return false
	}
	others := 0
	for _, in := range members() {
		if in.State.Live() && !in.OnDemand && in.Condemning == "" && in.ID != a.ID {
			others++
		}
	}
	return others >= size
}

// The pauses before the same call is sent once more.
const (
	attemptPause        = time.Second
	longestAttemptPause = 30 * time.Second
)

// Pause is how long an attempt that waits again after e waits before its turn comes, having
// been sent so often. A provider that throttles is asked again when it wishes, no sooner
// than after a second.
func (e AttemptEvent) Pause(sent int, wished time.Duration) time.Duration {
	switch e {
	case AttemptEventUnclear:
		return min(attemptPause<<min(max(sent-1, 0), 5), longestAttemptPause)
	case AttemptEventThrottled:
		return max(wished, attemptPause)
	default:
		return attemptPause
	}
}
