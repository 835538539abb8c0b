package reclaim

import (
	"fmt"
	"time"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
)

// servesFor is for how long a machine has to serve, by its UpcomingNode, until its shard is taken
// to have taken an instruction back without that having arrived.
const servesFor = 10 * time.Second

// Outcome is what has become of a Node that a shard asks for.
type Outcome string

// The outcomes.
const (
	None    Outcome = ""        // it goes on
	Drained Outcome = "drained" // nothing is left that had to leave
	Failed  Outcome = "failed"  // its time is over, and Pods are left
	Started Outcome = "started" // it is cordoned, and its drain has begun
	Refused Outcome = "refused" // it is not touched
)

// observation is what a decision about one machine follows from.
type observation struct {
	upcoming *demandv1.UpcomingNode // nil: the machine has left the cluster
	// begun is what this process was told to do; nil: nothing. gone: the Node of it does not exist
	// any more.
	begun *instruction
	gone  bool
	// state is what the Node says of its drain; zero: nothing.
	state drain.State
	// left is how many Pods have not left the Node.
	left int
	// resynced: the shard has said since the start which machines it has; serves is since when the
	// machine has served while its Node is drained, zero: it does not.
	resynced bool
	serves   time.Time
}

// decision is what follows.
type decision struct {
	// drop: nothing is to be drained any more.
	drop bool
	// withdraw is the instruction that the shard has taken back; empty: none.
	withdraw string
	// outcome is to be told to the shard for the instruction; None: nothing new.
	outcome     Outcome
	instruction string
	detail      string // of one that failed, for people
	// after is when to look again; zero: when something happens.
	after time.Duration
}

// decide says what is to be done about one machine.
func decide(o observation, now time.Time) decision {
	id := o.state.Instruction
	if o.begun != nil {
		id = o.begun.request.Instruction
	}
	switch {
	case o.upcoming == nil:
		return decision{drop: true}
	case id == "":
		return decision{}
	case o.resynced && !o.serves.IsZero() && now.Sub(o.serves) >= servesFor:
		return decision{withdraw: id}
	}
	d := decision{instruction: id}
	d.outcome, d.detail = ended(o, id, now)
	if o.begun != nil && d.outcome == o.begun.told {
		d.outcome = None
	}
	if d.outcome == None && o.state.Phase != infrav1.DrainDone && !o.state.Deadline.IsZero() {
		d.after = max(o.state.Deadline.Sub(now), 0)
	}
	if o.resynced && !o.serves.IsZero() {
		d.after = o.serves.Add(servesFor).Sub(now)
	}
	return d
}

// ended says how the drain for an instruction has ended.
func ended(o observation, id string, now time.Time) (Outcome, string) {
	s := o.state
	over := !s.Deadline.IsZero() && !now.Before(s.Deadline)
	switch {
	case o.gone:
		return Drained, ""
	case s.Instruction != id: // it is not written yet
		return None, ""
	case s.Phase == infrav1.DrainDone && o.left == 0:
		return Drained, ""
	case s.Phase == infrav1.DrainDone:
		return Failed, fmt.Sprintf("%d Pods could not be moved", o.left)
	case over && o.left > 0:
		return Failed, fmt.Sprintf("%d Pods are left at the end of the time, %s", o.left, s.Deadline.UTC().Format(time.RFC3339))
	case over:
		return Drained, ""
	}
	return None, ""
}
