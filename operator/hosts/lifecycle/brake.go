package lifecycle

import (
	"maps"
	"time"
)

const (
	// brakeWindow is the time in which Nodes that go missing are counted.
	brakeWindow = 5 * time.Minute
	// brakeRelease is how long they must have been few before the brake lets go.
	brakeRelease = 15 * time.Minute
	// brakeLeast is how many may go missing in any fleet.
	brakeLeast = 3
)

// Brake keeps a fleet from being repaved all at once when so many Nodes are gone that it can hardly
// be meant: a backup of the API server that was restored, a script that deletes Nodes. More than
// three and more than a tenth of the machines within five minutes put it on; it lets go when a user
// says so, or when there were fewer for fifteen minutes. While it is on machines are repaved one by one.
//
// The zero value is a brake that is off. It is a value: Next returns the one that comes after.
type Brake struct {
	missed   map[string]time.Time // by machine: when its Node was first missed
	over     time.Time            // when there were too many last; zero: the brake is off
	released time.Time            // when a user last let it go
}

// Limit is how many Nodes of a fleet may go missing within five minutes.
func Limit(machines int) int { return max(brakeLeast, machines/10) }

// On reports whether machines are repaved one by one.
func (b Brake) On() bool { return !b.over.IsZero() }

// Next takes in which machines miss their Nodes, and since when, in a fleet of so many. A machine
// counts once for each time that its Node goes.
func (b Brake) Next(missing map[string]time.Time, machines int, now time.Time) Brake {
	next := Brake{missed: map[string]time.Time{}, over: b.over, released: b.released}
	maps.Copy(next.missed, b.missed)
	maps.Copy(next.missed, missing)
	maps.DeleteFunc(next.missed, func(_ string, at time.Time) bool {
		return now.Sub(at) >= brakeWindow || !at.After(b.released)
	})
	switch {
	case len(next.missed) > Limit(machines):
		next.over = now
	case next.On() && now.Sub(next.over) >= brakeRelease:
		next.over = time.Time{}
	}
	return next
}

// Held takes in that a machine waits for the brake since a time, as its status says: a process that
// starts learns by it that the brake is on.
func (b Brake) Held(since time.Time) Brake {
	if since.After(b.over) && since.After(b.released) {
		b.over = since
	}
	return b
}

// Released returns the brake after a user has let it go: what is missed by now counts no more.
func (b Brake) Released(now time.Time) Brake { return Brake{released: now} }

// Why says why a machine waits whose Node is gone, while so many others are repaved for that reason;
// empty: it does not.
func (b Brake) Why(repaving int) string {
	if !b.On() || repaving == 0 {
		return ""
	}
	return "so many Nodes went missing within a few minutes that machines are repaved one by one; if that is meant, set annotation hosts.nstance.dev/release-brake on a MachineConfiguration"
}
