package session

import (
	"time"

	"nstance.dev/agent/settings"
)

const (
	defaultInterval = time.Minute
	// spacing is the least time between two reports, however much happens.
	spacing = time.Second
	// never is far enough in the future; a moment, so that moments can be compared.
	never = 100 * 365 * 24 * time.Hour
)

// reports is when the next report of a stream is due. Its zero value has none due before
// the welcome.
type reports struct {
	setting  settings.Report
	interval time.Duration
	sent     time.Time // the last one
	due      time.Time // the next one; zero: not before the welcome
}

// welcome takes the server's interval over: the first report of the stream is due at once,
// and a changed interval counts from the last report.
func (r *reports) welcome(interval time.Duration, now time.Time, random float64) {
	if interval <= 0 {
		interval = defaultInterval
	}
	if r.setting.Interval > 0 {
		interval = r.setting.Interval
	}
	switch {
	case r.due.IsZero():
		r.interval, r.due = interval, now
	case interval != r.interval && !r.setting.Disabled:
		r.interval = interval
		if next := r.sent.Add(spread(interval, random)); !r.sent.IsZero() {
			r.due = later(next, now)
		}
	}
}

// reported notes a report that was sent.
func (r *reports) reported(now time.Time, random float64) {
	r.sent = now
	if r.setting.Disabled {
		r.due = now.Add(never)
		return
	}
	r.due = now.Add(spread(r.interval, random))
}

// hurry brings the next report forward because files have changed, yet not closer than
// spacing to the last one. It is one of the moments of the next spacing: what changes
// here changes on thousands of machines at once, and the server is busy with theirs.
func (r *reports) hurry(now time.Time, random float64) {
	if !r.setting.Disabled {
		r.bring(now.Add(time.Duration(float64(spacing) * random)))
	}
}

// announce brings the next report forward because the machine will be taken away. That
// goes even where reports are disabled, and is in the first report of a stream anyway.
func (r *reports) announce(now time.Time) { r.bring(now) }

func (r *reports) bring(forward time.Time) {
	if r.due.IsZero() {
		return
	}
	if soon := later(r.sent.Add(spacing), forward); soon.Before(r.due) {
		r.due = soon
	}
}

// isDue reports whether a report is to be sent.
func (r *reports) isDue(now time.Time) bool { return !r.due.IsZero() && !now.Before(r.due) }

// spread returns interval plus or minus up to 5%, so that agents that started together do
// not report together.
func spread(interval time.Duration, random float64) time.Duration {
	return time.Duration(float64(interval) * (0.95 + 0.1*random))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest returns the first of the moments that are set.
func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
