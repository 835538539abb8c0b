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
	// for failed launches.
	breakerSpan = time.Hour

	// The pause of a rotation after failed launches: doubling with
	// each of them, from the first to the longest.
	firstRotationStop   = 5 * time.Minute
	longestRotationStop = time.Hour
)

// Breaker keeps a group whose launches fail from making new machines for ever (L3, F26),
// and stops its rotation. A launch has failed if the machine does not register, or ends
// within five minutes of registering, and no caller has deleted it.
//
// It is a value: methods return what becomes of it. The zero Breaker lets
// everything pass. It lives as long as a leadership; the next leader finds out anew.
type Breaker struct {
	owed   int         // failed launches that were not made up for yet
	tries  []time.Time // creates that made up for one, oldest first
	failed int         // failed launches since a machine lasted
	last   time.Time   // when the last one did
	hash   string      // what that one was made from
	why    string      // what was found of that one
}

// LaunchFailed reports whether in, which was found sick at now, never became of use.
func LaunchFailed(in Instance, now time.Time) bool { return !in.OnDemand && Young(in, now) }

// Young reports whether in has not lasted yet: it never registered, or did so lately.
func Young(in Instance, now time.Time) bool {
	return in.RegisteredAt.IsZero() || now.Before(in.RegisteredAt.Add(lasting))
}

// Failed notes that the launch of in has failed at now, and why, for people.
func (b Breaker) Failed(in Instance, why string, now time.Time) Breaker {
	if b.hash != in.InfraHash {
		b.failed = 0 // what is tried now is something else
	}
	b.owed++
	b.failed++
	b.last, b.hash, b.why = now, in.InfraHash, why
	return b
}

// Why is what was found of the last failed launch. It is empty once a machine has lasted
// since.
func (b Breaker) Why() string { return b.why }

// Idle reports whether no failed launch counts against the group.
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
// for failed launches; false: there are none to make up for, and
// nothing is bounded.
func (b Breaker) Left(perHour int, now time.Time) (int, bool) {
	if b.owed == 0 {
		return 0, false
	}
	return max(perHour-len(b.recent(now)), 0), true
}

// CreatesBlocked says why no creates of the group may be sent at now.
func (b Breaker) CreatesBlocked(perHour int, now time.Time) Block {
	if left, bounded := b.Left(perHour, now); !bounded || left > 0 {
		return Block{}
	}
	block := Block{By: BlockerCrashLoop, Why: b.Explain(fmt.Sprintf(
		"crash-looping: its machines do not register, or end soon after; %d new ones were tried within an hour", perHour))}
	if recent := b.recent(now); len(recent) > 0 {
		block.Until = recent[0].Add(breakerSpan)
	}
	return block
}

// RotationBlocked says why machines that work may not be replaced at now by ones that are
// made from hash: the last launch from it has failed.
func (b Breaker) RotationBlocked(hash string, now time.Time) Block {
	if b.failed == 0 || b.hash != hash {
		return Block{}
	}
	until := b.last.Add(min(firstRotationStop<<min(b.failed-1, 8), longestRotationStop))
	if !now.Before(until) {
		return Block{}
	}
	return Block{By: BlockerRotationStopped, Until: until,
		Why: b.Explain("rotation stopped: a machine made from the present configuration did not register, or ended soon after")}
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
