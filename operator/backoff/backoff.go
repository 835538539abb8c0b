// Package backoff says how long a controller leaves an object alone after a call to a
// server has failed.
//
// The queue of a controller has growing pauses of its own, but whatever else concerns the
// object wakes it up before they are over. So controllers keep the time of the next attempt
// for each object in a [Memory], and do not call before it. Pauses are spread by the object's
// key and the number of its failures, not by chance: equal histories give equal pauses.
package backoff

import (
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The pauses after a refusal that only somebody else can end, for whom nothing need be
// announced: a template that is added to the server's configuration, a quota that is raised.
const (
	RefusedAtLeast = 5 * time.Minute
	RefusedAtMost  = 10 * time.Minute
)

// Growing returns the pause after so many failures in a row, 1 or more: first, twice that,
// and so on up to most, each up to a fifth longer or shorter.
func Growing(key string, failures int, first, most time.Duration) time.Duration {
	pause := most
	if n := max(failures-1, 0); n < 30 && first<<n < most {
		pause = first << n
	}
	return pause - pause/5 + time.Duration(spread(key, failures)*float64(2*pause/5))
}

// Refused returns the pause after a refusal, between RefusedAtLeast and RefusedAtMost.
func Refused(key string, failures int) time.Duration {
	return RefusedAtLeast + time.Duration(spread(key, failures)*float64(RefusedAtMost-RefusedAtLeast))
}

// spread returns a number from 0 to 1, other ones for other arguments.
func spread(key string, n int) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key + "/" + strconv.Itoa(n))) // a hash never fails
	const steps = 1 << 10
	return float64((h.Sum32()^h.Sum32()>>16)%steps) / steps
}

// Attempt is what is remembered of an object whose last call failed. The zero value: it did
// not fail.
type Attempt struct {
	// Failures is how many calls in a row have failed.
	Failures int
	// Next is when the next one may be made.
	Next time.Time
	// Why is the last failure, for people.
	Why string
	// About is what the call depended on. Where that has changed, the next call may be made
	// at once; the number of failures stays.
	About string
}

// Waits returns how long the next call about something has to wait; zero: not at all.
func (a Attempt) Waits(about string, now time.Time) time.Duration {
	if a.Failures == 0 || a.About != about {
		return 0
	}
	return max(a.Next.Sub(now), 0)
}

// Memory holds the attempts of one process by object. What it forgets costs one call more.
// The zero value is ready; it is safe for concurrent use.
type Memory struct {
	mu       sync.Mutex
	attempts map[types.UID]Attempt
}

// Get returns what is remembered of an object.
func (m *Memory) Get(uid types.UID) Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attempts[uid]
}

// Failed notes a failure, and returns the pause that follows, which pause gives for the
// number of failures in a row.
func (m *Memory) Failed(uid types.UID, about, why string, now time.Time, pause func(failures int) time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.attempts == nil {
		m.attempts = map[types.UID]Attempt{}
	}
	a := m.attempts[uid]
	a.Failures++
	wait := pause(a.Failures)
	a.Next, a.Why, a.About = now.Add(wait), why, about
	m.attempts[uid] = a
	return wait
}

// Forget forgets an object: its last call succeeded, or it is gone.
func (m *Memory) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.attempts, uid)
}
