package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// Types of conditions that are no [fleet.Blocker]. Those of a group.
const (
	AtSize    = "at-size"
	Scaling   = "scaling"
	Sick      = "sick"
	Replacing = "replacing"
	Rotating  = "rotating"
	Deleting  = "deleting"
	// Unlocked: the group was static and has left the configuration. It is as it was,
	// and ends when it is deleted.
	Unlocked = "unlocked"
	// FailedLaunch: the last new machine was of no use, and none has lasted since.
	FailedLaunch = "failed-launch"
	// FilesUndelivered: files could not be made, or not be put in place. An instance
	// has it as well as the group.
	FilesUndelivered = "files-undelivered"
)

// DecisionsMissing is a condition of an explanation alone: a leader ended without handing
// over what it had decided in its last minute.
const DecisionsMissing = "decisions-missing"

// Types of conditions of an instance.
const (
	Joining     = "joining"
	Suspect     = "suspect"
	Unhealthy   = "unhealthy"
	Draining    = "draining"
	Terminating = "terminating"
	Notice      = "termination-notice"
)

// Types returns every type of condition that a group may have, for labels.
func Types() []string {
	all := []string{AtSize, Scaling, Sick, Replacing, Rotating, Deleting, Unlocked, FailedLaunch, FilesUndelivered}
	for _, b := range fleet.Blockers() {
		all = append(all, string(b))
	}
	return all
}

// Condition is a state of affairs that explains what is or is not done.
type Condition struct {
	Type     string
	Message  string
	Instance identity.ID // empty: the group as a whole
	Since    time.Time   // zero: not known
	Until    time.Time   // when it ends by itself; zero: not known
}

// Facts are what the conditions of a group follow from.
type Facts struct {
	Group     fleet.Group
	Counts    fleet.Counts
	Shown     []Decision       // of the last evaluation
	Blocks    []fleet.Block    // of the group as a whole: a pause, the provider; zero ones block nothing
	Instances []fleet.Instance // of the group, in any order

	// Unlocked: the group was static and has left the configuration.
	Unlocked bool

	// FailedLaunch is what was found of the last new machine that was of no use, while
	// none has lasted since; empty: there is none.
	FailedLaunch string

	// Undelivered are the instances of the group that lack files, each once, in any
	// order.
	Undelivered []Undelivered
}

// Undelivered is an instance to which files could not be brought.
type Undelivered struct {
	Instance identity.ID
	Why      string
}

// maxInstanceConditions bounds the conditions of the instances of one group.
const maxInstanceConditions = 1000

// Conditions are those of a group, what blocks it first, then those of its
// instances in the order of ids. Since is not set; see [Track].
func Conditions(f Facts) []Condition {
	all := f.blocked()
	all = append(all, f.size())
	if f.Group.Deleted {
		all = append(all, Condition{Type: Deleting, Message: "its deletion was asked for; it ends when its last instance is gone"})
	}
	if f.Unlocked {
		all = append(all, Condition{Type: Unlocked, Message: UnlockedMessage(f.Group.ID)})
	}
	if n := f.Counts.Sick; n > 0 {
		all = append(all, Condition{Type: Sick, Message: fmt.Sprintf("%d found unhealthy and not gone yet", n)})
	}
	if n := f.Counts.Pairs; n > 0 {
		all = append(all, Condition{Type: Replacing, Message: fmt.Sprintf("%d have a replacement, and go once that is ready", n)})
	}
	if i := slices.IndexFunc(f.Shown, func(d Decision) bool { return d.Action == "rotate" }); i >= 0 {
		all = append(all, Condition{Type: Rotating, Message: "instances are out of date and are replaced one after the other; " + f.Shown[i].BlockedWhy, Until: f.Shown[i].NotBefore})
	}
	if f.FailedLaunch != "" {
		all = append(all, Condition{Type: FailedLaunch, Message: "the last new machine did not register, or ended soon after: " + f.FailedLaunch})
	}
	if n := len(f.Undelivered); n > 0 {
		first := slices.MinFunc(f.Undelivered, func(a, b Undelivered) int { return cmp.Compare(a.Instance, b.Instance) })
		all = append(all, Condition{Type: FilesUndelivered, Message: fmt.Sprintf("%d lack files; %s: %s", n, first.Instance, first.Why)})
	}
	return append(all, f.instances()...)
}

// UnlockedMessage says what becomes of a static group that has left the
// configuration.
func UnlockedMessage(id fleet.GroupID) string {
	return fmt.Sprintf("it has left the configuration and goes on as a dynamic group, with its size and instances; to end it: nstance-admin group delete %s", id.Name)
}

// blocked is one condition for each kind of thing that blocks the group.
func (f Facts) blocked() []Condition {
	var all []Condition
	add := func(by fleet.Blocker, why string, until time.Time) {
		c := Condition{Type: string(by), Message: why, Until: until}
		if !slices.ContainsFunc(all, func(o Condition) bool { return o.Type == c.Type }) {
			all = append(all, c)
		}
	}
	for _, h := range f.Blocks {
		if h.By != "" {
			add(h.By, h.Why, h.Until)
		}
	}
	for _, d := range f.Shown {
		if d.Blocked() {
			add(d.BlockedBy, d.BlockedWhy, d.NotBefore)
		}
	}
	return all
}

// size says how far the group is from what it should be. A group of mode demand is what it should be, unless
// its instances are coming or going.
func (f Facts) size() Condition {
	c := f.Counts
	message := fmt.Sprintf("%d of %d run", c.Running, c.Desired)
	at := c.Running == c.Desired && c.Live+c.Sick+c.Leaving == c.Desired
	if f.Group.Demand && !f.Group.Deleted {
		message = fmt.Sprintf("%d run; mode demand decides how many", c.Running)
		at = c.Running == c.Live+c.Sick+c.Leaving
	}
	if at {
		return Condition{Type: AtSize, Message: message}
	}
	for _, part := range []struct {
		n    int
		what string
	}{
		{c.Pending + c.Provisioning, "starting"}, {c.Sick, "unhealthy"}, {c.Leaving, "leaving"},
	} {
		if part.n > 0 {
			message += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return Condition{Type: Scaling, Message: message}
}

// instances are the conditions of those that do not simply run.
func (f Facts) instances() []Condition {
	var all []Condition
	for _, in := range f.Instances {
		if c, ok := OfInstance(in); ok {
			all = append(all, c)
		}
	}
	for _, u := range f.Undelivered {
		all = append(all, Condition{Type: FilesUndelivered, Instance: u.Instance, Message: u.Why})
	}
	slices.SortFunc(all, func(a, b Condition) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Type, b.Type))
	})
	return all[:min(len(all), maxInstanceConditions)]
}

// OfInstance is the condition of an instance; false for one that simply runs,
// and for one that has ended.
func OfInstance(in fleet.Instance) (Condition, bool) {
	c := Condition{Instance: in.ID}
	switch {
	case in.State == fleet.Deleted:
		return Condition{}, false
	case in.State == fleet.Pending:
		c.Type, c.Message = Joining, "recorded; the provider has not answered yet"
	case in.State == fleet.Provisioning:
		c.Type, c.Message = Joining, "the provider has it; its agent has not registered yet"
	case in.State == fleet.Suspect:
		c.Type, c.Message = Suspect, "its stream broke or a report is overdue"
	case in.State.Sick():
		c.Type, c.Message = Unhealthy, "found unhealthy"
		if in.Verdict != "" && in.Verdict != fleet.ReasonUnhealthy {
			c.Message += ": " + string(in.Verdict)
		}
		if in.Said != "" {
			c.Message += "; the provider says: " + in.Said
		}
	case in.State.Leaving():
		return leaving(in), true
	case in.Notice.Given():
		c.Type, c.Message, c.Until = Notice, "the provider takes it back", in.Notice.Deadline
	default:
		return Condition{}, false
	}
	return c, true
}

// leaving is the condition of an instance whose end is decided.
func leaving(in fleet.Instance) Condition {
	reason := string(in.Removal.Reason)
	if in.State == fleet.Draining && !in.Removal.Acked {
		return Condition{
			Type: Draining, Instance: in.ID, Until: in.Removal.DeleteAt,
			Message: "its work gets time to leave (" + reason + ")",
		}
	}
	return Condition{Type: Terminating, Instance: in.ID, Message: "it is being deleted (" + reason + ")"}
}

// Track gives the conditions of now the moments at which they began: those that
// were there before keep theirs, the others begin at the given one.
func Track(before, now []Condition, at time.Time) []Condition {
	type key struct {
		what string
		id   identity.ID
	}
	since := make(map[key]time.Time, len(before))
	for _, c := range before {
		since[key{c.Type, c.Instance}] = c.Since
	}
	tracked := slices.Clone(now)
	for i := range tracked {
		c := &tracked[i]
		if began, ok := since[key{c.Type, c.Instance}]; ok && !began.IsZero() {
			c.Since = began
		} else {
			c.Since = at
		}
	}
	return tracked
}
