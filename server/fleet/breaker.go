package fleet

import (
	"fmt"
	"slices"
	"time"
)

const (
	// lasting is how long a machine has to stay after its registration to count as
	// one that works.
	lasting = 5 * time.Minute

	// breakerSpan is the time within which a bounded number of creates may make up
	// for machines that came to nothing.
	breakerSpan = time.Hour

	// The pause of a rotation after machines that came to nothing: doubling with
	// each of them, from the first to the longest.
	firstSetback   = 5 * time.Minute
	longestSetback = time.Hour
)

// Breaker keeps a group whose machines come to nothing from making new ones for
// ever (L3, F26), and stops its rotation. A machine comes to nothing if it does not
// register, or ends within five minutes of registering; one that a caller deletes
// does not.
//
// It is a value: methods return what becomes of it. The zero Breaker lets
// everything pass. It lives as long as a leadership; the next leader finds out anew.
type Breaker struct {
	owed   int         // machines that came to nothing and were not made up for yet
	tries  []time.Time // creates that made up for one, oldest first
	failed int         // came to nothing since one lasted
	last   time.Time   // when the last one did
	hash   string      // what that one was made from
	why    string      // what was found of that one
}

// CameToNothing reports whether in, which was found sick at now, was of no use to
// anybody.
func CameToNothing(in Instance, now time.Time) bool { return !in.OnDemand && Young(in, now) }

// Young reports whether in has not lasted yet: it never registered, or did so lately.
func Young(in Instance, now time.Time) bool {
	return in.RegisteredAt.IsZero() || now.Before(in.RegisteredAt.Add(lasting))
}

// Failed notes that in came to nothing at now, and why, for people.
func (b Breaker) Failed(in Instance, why string, now time.Time) Breaker {
	if b.hash != in.InfraHash {
		b.failed = 0 // what is tried now is something else
	}
	b.owed++
	b.failed++
	b.last, b.hash, b.why = now, in.InfraHash, why
	return b
}

// Why is what was found of the last machine that came to nothing. It is empty once a
// machine has lasted since.
func (b Breaker) Why() string { return b.why }

// Idle reports whether there is nothing to hold against the group.
func (b Breaker) Idle() bool { return b.last.IsZero() }

// Tried notes that a create of the group is on record.
func (b Breaker) Tried(now time.Time) Breaker {
	if b.owed > 0 {
		b.owed--
		b.tries = append(slices.Clone(b.recent(now)), now)
	}
	return b
}

// Settle forgives everything once one of the instances has lasted since the last
// failure. Otherwise it returns when the first of them will have; zero: none.
func (b Breaker) Settle(instances []Instance, now time.Time) (Breaker, time.Time) {
	if b.Idle() {
		return b, time.Time{}
	}
	var next time.Time
	for i := range instances {
		in := &instances[i]
		if in.OnDemand || !in.State.Registered() {
			continue
		}
		at := in.RegisteredAt.Add(lasting)
		switch {
		case !at.After(b.last): // it is no news
		case at.After(now):
			next = earlier(next, at)
		default:
			return Breaker{}, time.Time{}
		}
	}
	return b, next
}

// Left is how many creates the group may send at now, of perHour that may make up
// for machines that came to nothing; false: there are none to make up for, and
// nothing is bounded.
func (b Breaker) Left(perHour int, now time.Time) (int, bool) {
	if b.owed == 0 {
		return 0, false
	}
	return max(perHour-len(b.recent(now)), 0), true
}

// Creates says whether creates of the group may be sent at now.
func (b Breaker) Creates(perHour int, now time.Time) Gate {
	if left, bounded := b.Left(perHour, now); !bounded || left > 0 {
		return Gate{}
	}
	gate := Gate{By: BlockerCrashLoop, Blocked: b.Explain(fmt.Sprintf(
		"crash-looping: its machines do not register, or end soon after; %d new ones were tried within an hour", perHour))}
	if recent := b.recent(now); len(recent) > 0 {
		gate.Until = recent[0].Add(breakerSpan)
	}
	return gate
}

// Rotation says whether machines that work may be replaced at now by ones that are
// made from hash: not while what was made from it came to nothing.
func (b Breaker) Rotation(hash string, now time.Time) Gate {
	if b.failed == 0 || b.hash != hash {
		return Gate{}
	}
	until := b.last.Add(min(firstSetback<<min(b.failed-1, 8), longestSetback))
	if !now.Before(until) {
		return Gate{}
	}
	return Gate{By: BlockerSetback, Until: until,
		Blocked: b.Explain("rotation stopped: a machine made from the present configuration did not register, or ended soon after")}
}

// Explain adds what was found of the last machine to what follows from it.
func (b Breaker) Explain(consequence string) string {
	if b.why == "" {
		return consequence
	}
	return consequence + "; the last one: " + b.why
}

// recent are the tries that still count.
func (b Breaker) recent(now time.Time) []time.Time {
	i := slices.IndexFunc(b.tries, func(at time.Time) bool { return now.Before(at.Add(breakerSpan)) })
	if i < 0 {
		return nil
	}
	return b.tries[i:]
}
