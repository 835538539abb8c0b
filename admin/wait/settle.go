// Package wait decides when what a command asked for has come to be, and waits
// for it.
//
// [Settled] is the decision: a pure function of a [Goal] and a [State]. [Until],
// and [Each] for several goals, looks again whenever the server tells of a
// change, and in any case at a steady pace, so that a lost event costs time only.
package wait

import (
	"fmt"
	"slices"
	"strings"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Goal is what is waited for; all of its parts that are set.
type Goal struct {
	// Group is to have as many managed instances as its size says, all of them
	// running and none on its way out. Empty: no group.
	Group string
	// Size, if set, is the size that the group must have.
	Size *int32
	// GroupGone turns Group round: the group is to be forgotten and to have no
	// managed instance.
	GroupGone bool
	// Running are instances that are to run.
	Running []string
	// Gone are instances that are to be gone.
	Gone []string
}

// State is what the server said.
type State struct {
	Groups    []*nstancev1.GroupStatus
	Instances []*nstancev1.InstanceStatus // of all groups
	Complete  bool                        // false while the server does not know all instances yet
}

// Verdict is the answer of [Settled].
type Verdict struct {
	Done bool
	// Missing says what is not as it should be yet, for people; empty when Done.
	Missing string
	// Failed says that it will never be as it should; Missing tells why.
	Failed bool
}

// Statuses of instances, as the API has them.
const (
	statusRunning    = "running"
	statusTerminated = "terminated"
)

// Settled compares a state with a goal. It depends on nothing but its arguments.
func Settled(goal Goal, state State) Verdict {
	if !state.Complete {
		return Verdict{Missing: "the server does not know all instances yet"}
	}
	var missing []string
	failed := false
	if goal.Group != "" {
		missing = append(missing, groupMissing(goal, state)...)
	}
	for _, id := range goal.Running {
		status := statusOf(state, id)
		if status != statusRunning {
			missing = append(missing, fmt.Sprintf("instance %s is %s", id, status))
		}
		failed = failed || status == statusTerminated
	}
	for _, id := range goal.Gone {
		if status := statusOf(state, id); status != statusTerminated && status != notListed {
			missing = append(missing, fmt.Sprintf("instance %s is %s", id, status))
		}
	}
	return Verdict{Done: len(missing) == 0, Missing: strings.Join(missing, "; "), Failed: failed}
}

func groupMissing(goal Goal, state State) []string {
	group := groupOf(state, goal.Group)
	counts := count(state, goal.Group)
	switch {
	case goal.GroupGone && group == nil && counts.total() == 0:
		return nil
	case goal.GroupGone && counts.total() == 0:
		return []string{fmt.Sprintf("group %s is still listed", goal.Group)}
	case goal.GroupGone:
		return []string{fmt.Sprintf("group %s still has %s", goal.Group, counts)}
	case group == nil:
		return []string{fmt.Sprintf("group %s is not listed", goal.Group)}
	case goal.Size != nil && group.GetSize() != *goal.Size:
		return []string{fmt.Sprintf("group %s has size %d instead of %d: it was changed meanwhile", goal.Group, group.GetSize(), *goal.Size)}
	case counts.running == int(group.GetSize()) && counts.total() == counts.running:
		return nil
	}
	return []string{fmt.Sprintf("group %s: %d of %d running%s", goal.Group, counts.running, group.GetSize(), counts.rest())}
}

func groupOf(state State, key string) *nstancev1.GroupStatus {
	i := slices.IndexFunc(state.Groups, func(g *nstancev1.GroupStatus) bool { return g.GetKey() == key })
	if i < 0 {
		return nil
	}
	return state.Groups[i]
}

// notListed stands for the status of an instance that the server does not list.
const notListed = "not listed"

func statusOf(state State, id string) string {
	for _, in := range state.Instances {
		if in.GetInstanceId() == id {
			return in.GetStatus()
		}
	}
	return notListed
}
