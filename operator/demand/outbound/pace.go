package outbound

import "time"

// HeldFor is how long after a shard held a roll-up back it is sent once more: the shard takes
// it when the same is said for long enough.
const HeldFor = 10 * time.Second

// Pace says when the roll-ups of one session are due. Use [NewPace] for each session.
type Pace struct {
	interval, least time.Duration
	// regular, changed and held are when a roll-up is due for each reason; zero: it is not.
	regular, changed, held time.Time
}

// NewPace returns the pace of a session that begins now, for which a roll-up is due at once.
// After that one is due every interval, and least after a change; with a least of 0 or less
// changes wait for the interval.
func NewPace(now time.Time, interval, least time.Duration) *Pace {
	return &Pace{interval: interval, least: least, regular: now}
}

// Changed hears that what is asked for has changed. Further changes do not put the roll-up
// off, so many at once make one roll-up and none waits long.
func (p *Pace) Changed(now time.Time) {
	if p.least > 0 && p.changed.IsZero() {
		p.changed = now.Add(p.least)
	}
}

// Held hears that the shard held the last roll-up back.
func (p *Pace) Held(now time.Time) { p.held = now.Add(HeldFor) }

// Began hears that a roll-up is being built. What changes from now on may not be in it, and is
// a reason for the next one. A build that fails began as well: the next one is due at the
// interval.
func (p *Pace) Began(now time.Time) {
	p.regular, p.changed, p.held = now.Add(p.interval), time.Time{}, time.Time{}
}

// Due returns when the next roll-up is to be built; what is past is due now.
func (p *Pace) Due() time.Time {
	due := p.regular
	for _, other := range []time.Time{p.changed, p.held} {
		if !other.IsZero() && other.Before(due) {
			due = other
		}
	}
	return due
}
