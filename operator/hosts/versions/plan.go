package versions

import (
	"fmt"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Action is what a write does.
type Action string

// Actions.
const (
	// Raise the highest number in the configuration's status to Number.
	Raise Action = "raise"
	// Reserve Number in the configuration's status: it becomes the highest one, and pending.
	Reserve Action = "reserve"
	// Create the version Number with the configuration's template.
	Create Action = "create"
	// Record that version Number was created while its number was reserved.
	Record Action = "record"
	// Clear the reservation of Number.
	Clear Action = "clear"
	// Copy the configuration's template into version Number.
	Copy Action = "copy"
	// Lock version Number, though no machine is being assigned.
	Lock Action = "lock"
	// Delete version Number.
	Delete Action = "delete"
)

// Step is one write. Steps that change a version must be refused if the version is not the
// one that the plan saw any more; those that change the status, if the configuration is not.
// The API server cannot tie a creation to the configuration: one that comes too late is made,
// and not recorded.
type Step struct {
	Action Action
	Number int32
	// Template that is written, by its hash; of Reserve, Create and Copy.
	Template hostsv1.SHA256
	Reason   string
}

// Plan returns the writes that come next: none when all is as it should be; deletions of
// versions, which do not depend on each other; or exactly one other write, after which the
// state is read again. The versions must have been read while the configuration was as it is.
func Plan(s State) []Step {
	if step, ok := reservation(s); ok {
		return []Step{step}
	}
	if steps := late(s); len(steps) > 0 {
		return steps
	}
	if step, ok := content(s); ok {
		return []Step{step}
	}
	return prune(s)
}

// reservation brings numbers and versions into step.
func reservation(s State) (Step, bool) {
	highest := s.Latest
	for _, v := range s.Versions {
		if !v.Foreign {
			highest = max(highest, v.Number)
		}
	}
	if highest > s.Latest {
		return Step{Action: Raise, Number: highest, Reason: "a version with a higher number exists"}, true
	}
	if s.Pending == 0 {
		return Step{}, false
	}
	v, there := s.find(s.Pending)
	switch {
	case !there:
		return Step{Create, s.Pending, s.Template, "its number is reserved"}, true
	case v.Foreign:
		return Step{Reserve, s.Latest + 1, s.Template, fmt.Sprintf("an object that is not of this configuration has the name of version %d", s.Pending)}, true
	case !v.Recorded && !v.Deleting:
		return Step{Action: Record, Number: s.Pending, Reason: "it was created while its number was reserved"}, true
	default:
		return Step{Action: Clear, Number: s.Pending, Reason: "the version exists"}, true
	}
}

// late deletes versions that were created when their numbers had been used already. One that a
// machine refers to stays until it does not, and nothing is built from it.
func late(s State) []Step {
	var steps []Step
	for _, v := range s.Versions {
		if !v.Foreign && !v.Deleting && !v.Recorded && !s.Referenced[v.Number] {
			steps = append(steps, Step{Action: Delete, Number: v.Number, Reason: "it was created too late: its number had been used"})
		}
	}
	return steps
}

// content brings the template into the newest version.
func content(s State) (Step, bool) {
	own := s.own()
	for i, v := range own {
		if i == 0 || v.Deployed {
			continue
		}
		// Restored by hand: only the newest version may be editable.
		if s.Referenced[v.Number] {
			return Step{Action: Lock, Number: v.Number, Reason: "a newer version exists, and a machine refers to this one"}, true
		}
		return Step{Action: Delete, Number: v.Number, Reason: "a newer version exists, and this one was never deployed"}, true
	}
	switch {
	case len(own) == 0:
		return Step{Reserve, s.Latest + 1, s.Template, "the configuration has no version"}, true
	case own[0].Template == s.Template:
		return Step{}, false
	case own[0].Deployed:
		return Step{Reserve, s.Latest + 1, s.Template, fmt.Sprintf("the template changed, and version %d is deployed", own[0].Number)}, true
	default:
		return Step{Copy, own[0].Number, s.Template, "the template changed, and this version was never deployed"}, true
	}
}

// prune deletes old versions that no machine refers to.
func prune(s State) []Step {
	var steps []Step
	for i, v := range s.own() {
		if i == 0 || i < s.HistoryLimit || !v.Deployed || s.Referenced[v.Number] {
			continue
		}
		steps = append(steps, Step{
			Action: Delete, Number: v.Number,
			Reason: fmt.Sprintf("not among the %d newest versions, and no machine refers to it", s.HistoryLimit),
		})
	}
	return steps
}

// MayLock returns why a version must not be locked for a machine now; empty: it may. A version
// that is locked already may be assigned.
func MayLock(s State, number int32) string {
	v, there := s.find(number)
	switch {
	case !there:
		return "it does not exist"
	case v.Foreign:
		return "another configuration owns it"
	case v.Deleting:
		return "it is being deleted"
	case s.Pending == number:
		return "its creation is not recorded yet"
	case !v.Recorded:
		return "it was created after its number had been used, and is deleted once no machine refers to it"
	}
	return ""
}
