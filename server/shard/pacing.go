package shard

import (
	"errors"
	"slices"
	"sync"
	"time"

	"nstance.dev/server/decisions"
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
	kind     driver.Kind   // of the last failure
	by       fleet.Blocker // the same for people
	why      string
	said     string         // the last error that was published
	throttle decisions.Hold // the provider's last wish to be called less often
}

func newBackoffs(jitter func() float64) *backoffs {
	return &backoffs{jitter: jitter, byGroup: map[fleet.GroupID]*backoff{}}
}

// gate says whether creates of the group may be sent now.
func (b *backoffs) gate(group fleet.GroupID, now time.Time) fleet.Gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byGroup[group]; e != nil && now.Before(e.until) {
		return fleet.Gate{Blocked: e.why, By: e.by, Until: e.until}
	}
	return fleet.Gate{}
}

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
func (b *backoffs) block(group fleet.GroupID, now time.Time, kind driver.Kind, err error) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(group)
	e.kind, e.by, e.why = kind, blockerOf(kind, err), string(kind)+": "+err.Error()
	if now.Before(e.until) {
		return e.until.Sub(now)
	}
	wait := backoffAfter(e.failures, b.jitter()*2-1)
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
	b.entry(group).throttle = decisions.Hold{
		By: fleet.BlockerThrottled, Why: "the provider wants to be called less often: " + err.Error(), Until: now.Add(provider.ThrottlePause),
	}
}

// throttle is that wish for as long as it counts: until a create succeeds, or for as
// long as calls are made more slowly. The zero Hold: there is none.
func (b *backoffs) throttle(group fleet.GroupID, now time.Time) decisions.Hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byGroup[group]; e != nil && now.Before(e.throttle.Until) {
		return e.throttle
	}
	return decisions.Hold{}
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
func blockerOf(kind driver.Kind, err error) fleet.Blocker {
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

// window counts what happened within the last span. It is safe for concurrent use.
type window struct {
	span time.Duration

	mu    sync.Mutex
	times []time.Time
	shut  time.Time // there is no room before
}

// room returns how many more may happen under the bound now, and when there
// will be more room than that (zero: nothing is counted).
func (w *window) room(bound int, now time.Time) (int, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trim(now)
	switch {
	case now.Before(w.shut):
		return 0, w.shut
	case len(w.times) == 0:
		return bound, time.Time{}
	}
	return max(bound-len(w.times), 0), w.times[0].Add(w.span)
}

// take counts something that begins now if there is room for it.
func (w *window) take(bound int, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trim(now)
	if now.Before(w.shut) || len(w.times) >= bound {
		return false
	}
	w.times = append(w.times, now)
	return true
}

// ended counts from now on what took room when it began: nobody knows when in
// between it happened.
func (w *window) ended(begun, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.IndexFunc(w.times, begun.Equal); i >= 0 {
		w.times = append(slices.Delete(w.times, i, i+1), now)
	}
}

// shutFor leaves no room for a span.
func (w *window) shutFor(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = now.Add(w.span)
}

func (w *window) add(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trim(now)
	w.times = append(w.times, now)
}

func (w *window) trim(now time.Time) {
	keep := 0
	for keep < len(w.times) && !now.Before(w.times[keep].Add(w.span)) {
		keep++
	}
	w.times = w.times[keep:]
}
