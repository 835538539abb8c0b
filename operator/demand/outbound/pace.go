package outbound

import "time"

// HeldFor is how long after a shard held a roll-up back it is sent once more: the shard takes
// it when the same is said for long enough, which is for twice as long.
const HeldFor = 10 * time.Second

const (
	// nearly is how long before a repetition a roll-up of another reason waits for it. It would come a moment too
	// early to be the one that a shard takes, which then waits for a whole repetition more.
	nearly = HeldFor / 5
	// settled is the part of the least time for which nothing may have changed for a change to be sent
	// before its time: then what belongs together has most likely come.
	settled = 5
	// hurried is how many roll-ups with changes may be sent one soon after another. Over time it is one
	// for each least time, as if none were sent before its time.
	hurried = 3
)

// Pace says when the roll-ups of one session are due. Use [NewPace] for each session.
type Pace struct {
	interval, least time.Duration
	// regular, changed, quiet and held are when a roll-up is due for each reason; zero: it is not.
	// Quiet is put off by each change, changed is not.
	regular, changed, quiet, held time.Time
	// since is when the first of the roll-ups was answered that the shard holds; zero: it holds none.
	since time.Time
	// spent is up to when time is used up: each roll-up with changes uses the least time, and one is
	// sent before its time only where as much is left.
	spent time.Time
}

// NewPace returns the pace of a session that begins now, for which a roll-up is due at once.
// After that one is due every interval, and least after a change, or a fifth of that after the
// last of several; with a least of 0 or less changes wait for the interval.
func NewPace(now time.Time, interval, least time.Duration) *Pace {
	return &Pace{interval: interval, least: least, regular: now}
}

// Changed hears that what is asked for has changed. Further changes put the roll-up off no longer
// than for the least time after the first of them, so many at once make one roll-up and none waits
// long; where none follow, it is due sooner.
func (p *Pace) Changed(now time.Time) {
	if p.least <= 0 {
		return
	}
	if p.changed.IsZero() {
		p.changed = now.Add(p.least)
	}
	p.quiet = time.Time{}
	if !p.used(now).After(now.Add(-p.least)) {
		p.quiet = now.Add(p.least / settled)
	}
}

// used is up to when time is used up; what is left is for no more than hurried roll-ups.
func (p *Pace) used(now time.Time) time.Time {
	if earliest := now.Add(-hurried * p.least); p.spent.Before(earliest) {
		return earliest
	}
	return p.spent
}

// Answered hears whether the shard holds the last roll-up back. The shard counts from when the first one came, so
// the repetitions are counted from the answer to that.
func (p *Pace) Answered(now time.Time, held bool) {
	if !held {
		p.since, p.held = time.Time{}, time.Time{}
		return
	}
	if p.since.IsZero() {
		p.since = now
	}
	p.held = now.Add(HeldFor)
	if enough := p.since.Add(2 * HeldFor); enough.After(now) && enough.Before(p.held) {
		p.held = enough
	}
	if p.regular.Before(p.held) && p.held.Sub(p.regular) < nearly {
		p.regular = p.held
	}
}

// Began hears that a roll-up is being built. What changes from now on may not be in it, and is
// a reason for the next one. A build that fails began as well: the next one is due at the
// interval.
func (p *Pace) Began(now time.Time) {
	if !p.changed.IsZero() {
		if p.spent = p.used(now).Add(p.least); p.spent.After(now) {
			p.spent = now
		}
	}
	p.regular, p.changed, p.quiet, p.held = now.Add(p.interval), time.Time{}, time.Time{}, time.Time{}
}

// Due returns when the next roll-up is to be built; what is past is due now.
func (p *Pace) Due() time.Time {
	due := p.regular
	for _, other := range []time.Time{p.changed, p.quiet, p.held} {
		if !other.IsZero() && other.Before(due) {
			due = other
		}
	}
	return due
}
