package provisioning

import (
	"errors"
	"sync"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/provider"
)

// The back-off of a group whose creates fail: doubling from the first pause to
// the longest, each with a fifth of jitter either way.
const (
	firstBackoff   = 5 * time.Second
	longestBackoff = 5 * time.Minute
	backoffJitter  = 0.2
)

// backoffs holds back the creates of groups that failed. The zero delay is the
// rule: a group without an entry is open.
type backoffs struct {
	jitter func() float64 // from 0 to below 1

	mu      sync.Mutex
	byGroup map[fleet.GroupID]*backoff
}

type backoff struct {
	failures int
	until    time.Time
	kind     driver.ErrorClass // of the last failure
	by       fleet.Blocker     // the same for people
	why      string
	said     string      // the last error that was published
	throttle fleet.Block // the provider's last wish to be called less often
}

func newBackoffs(jitter func() float64) *backoffs {
	return &backoffs{jitter: jitter, byGroup: map[fleet.GroupID]*backoff{}}
}

// blocked says whether creates of the group may be sent now.
func (b *backoffs) blocked(group fleet.GroupID, now time.Time) fleet.Block {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byGroup[group]; e != nil && now.Before(e.until) {
		return fleet.Block{Why: e.why, By: e.by, Until: e.until}
	}
	return fleet.Block{}
}

// entry is that of a group, an empty one if it had none. The caller holds mu.
func (b *backoffs) entry(group fleet.GroupID) *backoff {
	e := b.byGroup[group]
	if e == nil {
		e = &backoff{}
		b.byGroup[group] = e
	}
	return e
}

// block counts a failure and returns how long the group has to wait. Failures
// that arrive while it waits already (a burst of creates) count once.
func (b *backoffs) block(group fleet.GroupID, now time.Time, kind driver.ErrorClass, err error) time.Duration {
	if rest := b.note(group, now, kind, err); rest > 0 {
		return rest
	}
	return b.begin(group, now, b.jitter()*2-1)
}

// note says why the group waits, and returns for how long it has to already.
func (b *backoffs) note(group fleet.GroupID, now time.Time, kind driver.ErrorClass, err error) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(group)
	e.kind, e.by, e.why = kind, blockerOf(kind, err), string(kind)+": "+err.Error()
	return max(e.until.Sub(now), 0)
}

// begin has the group wait from now on, unless it does; swing is that of [backoffAfter].
func (b *backoffs) begin(group fleet.GroupID, now time.Time, swing float64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(group)
	if now.Before(e.until) {
		return e.until.Sub(now)
	}
	wait := backoffAfter(e.failures, swing)
	e.failures++
	e.until = now.Add(wait)
	return wait
}

// probing reports whether the last creates of the group failed, and what kept them
// back: then one shows whether the cause is gone, before the rest is tried.
func (b *backoffs) probing(group fleet.GroupID) (fleet.Blocker, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byGroup[group]
	if e == nil || e.failures == 0 {
		return "", false
	}
	return e.by, true
}

// throttled notes that the provider has asked a create of the group to wait.
func (b *backoffs) throttled(group fleet.GroupID, now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entry(group).throttle = fleet.Block{
		By: fleet.BlockerThrottled, Why: "the provider wants to be called less often: " + err.Error(), Until: now.Add(provider.ThrottlePause),
	}
}

// throttle is that wish for as long as it counts: until a create succeeds, or for as
// long as calls are made more slowly. The zero Block: there is none.
func (b *backoffs) throttle(group fleet.GroupID, now time.Time) fleet.Block {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byGroup[group]; e != nil && now.Before(e.throttle.Until) {
		return e.throttle
	}
	return fleet.Block{}
}

// hopeless reports whether the group waits for a cause that every create would
// meet again: nothing that is queued needs to be sent.
func (b *backoffs) hopeless(group fleet.GroupID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byGroup[group]
	if e == nil || !now.Before(e.until) {
		return false
	}
	switch e.kind {
	case driver.Quota, driver.Invalid, driver.Auth, driver.MissingRef:
		return true
	default:
		return false
	}
}

// news reports whether an error of the group is another one than the last.
func (b *backoffs) news(group fleet.GroupID, text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(group)
	news := e.said != text
	e.said = text
	return news
}

// reset opens the group: a create succeeded, or somebody edited the group.
func (b *backoffs) reset(group fleet.GroupID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byGroup, group)
}

// blockerOf is what keeps a group's creates back after an error of a kind.
func blockerOf(kind driver.ErrorClass, err error) fleet.Blocker {
	switch {
	case errors.Is(err, errImageUnresolved):
		return fleet.BlockerImage
	case kind == driver.Capacity:
		return fleet.BlockerNoCapacity
	default:
		return fleet.BlockerBackOff
	}
}

// backoffAfter is the pause after so many earlier failures; swing from -1 to 1
// places it within the jitter.
func backoffAfter(failures int, swing float64) time.Duration {
	wait := longestBackoff
	if failures < 10 {
		wait = min(firstBackoff<<failures, longestBackoff)
	}
	return wait + time.Duration(swing*backoffJitter*float64(wait))
}
