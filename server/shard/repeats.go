package shard

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"nstance.dev/server/fleet"
)

// The pause before a pass does once more what the pass before it has done: it doubles with
// every repeat.
const (
	shortestRepeatPause = 100 * time.Millisecond
	longestRepeatPause  = time.Minute
)

// repeats keep the reconciler from a busy loop. What a pass has carried out shows in the instances
// that the next pass sees. Where it does not, and the next pass decides the same actions for the
// same instances, something is broken, and to carry them out again at once would only use up a
// core and requests to storage. So each repeat waits, twice as long as the one before.
//
// A pass that sees or decides anything else ends that. Passes that fail have a pause of their own:
// see [storeRetry]. Creates are no repeat, and do not wait with one: whether one is taken depends on
// more than the instances, and the launcher blocks creates, or wakes their group up, by itself.
//
// The zero value knows of no pass. It is safe for concurrent use; a group has one pass at a time.
type repeats struct {
	mu   sync.Mutex
	last map[fleet.GroupID]repeat
}

// repeat is the last pass over a group that has carried anything out.
type repeat struct {
	pass  fingerprint
	ended time.Time
	times int  // how often it was repeated before
	said  bool // that the next one waits
}

// fingerprint is what a pass has seen and what it does; 0: nothing, or creates alone.
type fingerprint uint64

// seed is that of fingerprints.
var seed = maphash.MakeSeed()

// fingerprintOf is that of a pass that sees instances and carries out actions, or writes the
// instances again before it does (fence). Times and texts of the actions don't count: they may
// move with the clock.
func fingerprintOf(instances []fleet.Instance, actions []fleet.Action, fence bool) fingerprint {
	if !slices.ContainsFunc(actions, func(a fleet.Action) bool { _, creates := a.(fleet.Create); return !creates }) {
		return 0
	}
	sum := maphash.Comparable(seed, fence) // a sum, as instances come in any order
	for _, in := range instances {
		sum += maphash.Comparable(seed, in)
	}
	for _, action := range actions {
		switch a := action.(type) {
		case fleet.Create:
			continue
		case fleet.Condemn:
			a.Why, a.DeleteAt = "", time.Time{}
			action = a
		case fleet.ShortenDrain:
			a.Why, a.DeleteAt = "", time.Time{}
			action = a
		case fleet.Delete:
			a.Why = ""
			action = a
		}
		sum += maphash.Comparable(seed, action)
	}
	return fingerprint(max(sum, 1))
}

// creates returns the actions of a pass that do not wait with it.
func creates(actions []fleet.Action) []fleet.Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a fleet.Action) bool { _, is := a.(fleet.Create); return !is })
}

// wait returns how long a pass has to wait because it is the same as the one before; 0: it does not.
func (r *repeats) wait(group fleet.GroupID, pass fingerprint, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[group]
	if !ok || last.pass != pass {
		return 0
	}
	return max(0, last.ended.Add(repeatPause(last.times)).Sub(now))
}

// isNews reports, once, that the next pass over a group waits.
func (r *repeats) isNews(group fleet.GroupID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[group]
	if !ok || last.said {
		return false
	}
	last.said = true
	r.last[group] = last
	return true
}

// done notes that a pass was carried out; 0, for one that did nothing or failed, ends all repeats.
func (r *repeats) done(group fleet.GroupID, pass fingerprint, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pass == 0 {
		delete(r.last, group)
		return
	}
	next := repeat{pass: pass, ended: now}
	if last, ok := r.last[group]; ok && last.pass == pass {
		next.times = last.times + 1
	}
	if r.last == nil {
		r.last = map[fleet.GroupID]repeat{}
	}
	r.last[group] = next
}

// repeatPause is the pause after a pass that was a repeat so many times already.
func repeatPause(times int) time.Duration {
	return min(shortestRepeatPause<<min(times, 16), longestRepeatPause)
}
