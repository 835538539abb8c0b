package fleet

import (
	"fmt"
	"time"

	"nstance.dev/protos/identity"
)

// Action is one thing to do: a [Create], a [Condemn], a [ShortenDrain] or a [Delete]. Actions
// are comparable values. Why is for people; everything else is for the executor.
type Action interface {
	fmt.Stringer
	action()
}

// Create asks for one more instance of a group. Until the new instance stands
// in the View, the group must not be planned again.
type Create struct {
	Group GroupID
	// Replaces is the instance whose place the new one takes: the executor
	// sets that instance's Replacement together with the new record. Empty: the
	// group is short of one.
	Replaces identity.ID
	Why      string
}

// Condemn asks for the removal of one instance to be recorded. It deletes
// nothing: a later plan does, from the recorded removal.
type Condemn struct {
	ID       identity.ID
	Reason   Reason
	Drain    bool      // announce a drain; then DeleteAt is set
	DeleteAt time.Time // when the drain ends at the latest; zero without drain
	Why      string
}

// ShortenDrain asks for the drain of a condemned instance to be announced, and recorded, with
// an earlier end.
type ShortenDrain struct {
	ID       identity.ID
	Reason   Reason    // of its removal, which stays
	DeleteAt time.Time // before the one that was announced
	Why      string
}

// Delete asks for the provider's delete of a condemned instance, by its id: the
// VM need not be known, or exist. It is planned once; repeating it until the VM
// is gone is the executor's.
type Delete struct {
	ID     identity.ID
	Reason Reason
	Why    string
}

func (Create) action()       {}
func (Condemn) action()      {}
func (ShortenDrain) action() {}
func (Delete) action()       {}

// String is the action on one line.
func (a Create) String() string {
	if a.Replaces != "" {
		return fmt.Sprintf("create in %s for %s: %s", a.Group, a.Replaces, a.Why)
	}
	return fmt.Sprintf("create in %s: %s", a.Group, a.Why)
}

// String is the action on one line.
func (a Condemn) String() string {
	if a.Drain {
		return fmt.Sprintf("condemn %s (%s), drain until %s: %s", a.ID, a.Reason, a.DeleteAt.UTC().Format(time.RFC3339), a.Why)
	}
	return fmt.Sprintf("condemn %s (%s): %s", a.ID, a.Reason, a.Why)
}

// String is the action on one line.
func (a ShortenDrain) String() string {
	return fmt.Sprintf("shorten the drain of %s (%s), drain until %s: %s", a.ID, a.Reason, a.DeleteAt.UTC().Format(time.RFC3339), a.Why)
}

// String is the action on one line.
func (a Delete) String() string {
	return fmt.Sprintf("delete %s (%s): %s", a.ID, a.Reason, a.Why)
}

// Decision is the answer of [Plan].
type Decision struct {
	Actions []Action  // in the order in which they are to start
	Wake    time.Time // when to plan again without an event; zero: only an event changes anything
	Counts  Counts
	Notes   []Note // what ought to happen and is blocked
}

// Note says what is blocked, and why. An empty ID speaks of the group.
type Note struct {
	ID    identity.ID
	What  string // create, replace, condemn, rotate or everything
	By    Blocker
	Why   string    // in words, without a full stop
	Until time.Time // when it may go on by itself; zero: an event decides
}

// Counts are the numbers of one group, before the decision. Only managed
// instances are counted, but for OnDemand.
type Counts struct {
	Desired int
	Actual  int // what the size is compared with: Live + Sick − Pairs

	Pending      int
	Provisioning int
	Running      int // suspect ones included
	Live         int // the sum of the three
	Sick         int
	Pairs        int // instances with a replacement, which go once that is ready: the two count as one
	Leaving      int
	OnDemand     int // of any state but deleted
}
