// Package rails bounds how much of what was decided is carried out at once: a roll-up that takes
// most of a cluster away waits until it was repeated, machines are given back a few at a time, and
// a cluster whose machines keep failing gets no more of them for a while.
//
// What is decided is not a rail's business, and none changes it. Times are milliseconds of one clock
// that the caller reads; all types are plain values whose zero value is ready, and none is safe for
// concurrent use.
package rails

import "slices"

// Window counts what happened within a span of time that ends now.
type Window struct {
	entries []entry
	sum     int64
}

type entry struct{ at, n int64 }

// Sum is how many were added later than span before now. Older ones are forgotten, so spans and
// times must not shrink between calls.
func (w *Window) Sum(now, span int64) int64 {
	old := 0
	for old < len(w.entries) && w.entries[old].at <= now-span {
		w.sum -= w.entries[old].n
		old++
	}
	if old > 0 {
		w.entries = w.entries[:copy(w.entries, w.entries[old:])]
	}
	return w.sum
}

// Add counts n at now, which must not be before an earlier one.
func (w *Window) Add(now, n int64) {
	if last := len(w.entries) - 1; last >= 0 && w.entries[last].at == now {
		w.entries[last].n += n
	} else {
		w.entries = append(w.entries, entry{now, n})
	}
	w.sum += n
}

// Expires is when the oldest that is counted leaves a window of span; zero: there is none.
func (w *Window) Expires(span int64) int64 {
	if len(w.entries) == 0 {
		return 0
	}
	return w.entries[0].at + span
}

// Clone returns a copy that shares nothing with w.
func (w *Window) Clone() Window { return Window{slices.Clone(w.entries), w.sum} }

// A quarantine needs this many equal-minded roll-ups, and this long.
const (
	quarantineCount = 3
	quarantineMs    = 20_000
)

// Quarantine holds roll-ups that take most of a cluster's demand away.
type Quarantine struct {
	count int
	first int64
}

// Hold reports whether a roll-up waits. drastic says that it takes most of what is in force away.
// The third drastic one in a row is accepted, if the first came at least 20 seconds before; one that
// is not drastic is accepted, and begins again.
func (q *Quarantine) Hold(drastic bool, now int64) bool {
	if !drastic {
		*q = Quarantine{}
		return false
	}
	if q.count == 0 {
		q.first = now
	}
	q.count++
	return q.count < quarantineCount || now-q.first < quarantineMs
}

// Since is when the first of the roll-ups came that wait, or whose last one was just accepted;
// zero: none waits.
func (q *Quarantine) Since() int64 { return q.first }

// Release forgets the roll-ups that waited, after the last one was accepted.
func (q *Quarantine) Release() { *q = Quarantine{} }

// Waiting reports whether a roll-up is held.
func (q *Quarantine) Waiting() bool { return q.count > 0 }

// The bounds of a failure loop.
const (
	loopSpan     = 600_000
	loopFailures = 20
	loopPause    = 600_000
	loopPauseMax = 7_200_000
)

// Loop pauses the creates of a cluster whose machines keep failing.
type Loop struct {
	created, failed Window
	pause, until    int64
}

// Created counts a machine that was asked for.
func (l *Loop) Created(now int64) {
	l.created.Sum(now, loopSpan) // forgets what is older, where nothing ever fails
	l.created.Add(now, 1)
}

// Failed counts a machine that failed, or that never joined. More than 20 within ten minutes, and more
// than a fifth of what was created in them, pause the creates: for ten minutes, then for twice as
// long each time, up to two hours.
func (l *Loop) Failed(now int64) {
	l.failed.Add(now, 1)
	failed, created := l.failed.Sum(now, loopSpan), l.created.Sum(now, loopSpan)
	if now < l.until || failed <= max(loopFailures, created/5) {
		return
	}
	l.pause = min(max(loopPause, 2*l.pause), loopPauseMax)
	l.until = now + l.pause
	l.failed, l.created = Window{}, Window{}
}

// Clone returns a copy that shares nothing with l.
func (l *Loop) Clone() Loop {
	return Loop{created: l.created.Clone(), failed: l.failed.Clone(), pause: l.pause, until: l.until}
}

// Joined counts a success, after which the next pause is a short one again.
func (l *Loop) Joined() { l.pause = 0 }

// Until is when creates may go on; zero, or in the past: they may.
func (l *Loop) Until() int64 { return l.until }
