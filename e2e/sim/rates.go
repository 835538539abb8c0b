package sim

import (
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

// meter holds the calls of one leadership against a token bucket of the oracle's own.
// The zero meter has seen no call.
type meter struct {
	tokens float64
	last   time.Time
}

// slack is what the oracle lets pass beyond a bucket: calls that are admitted at one
// moment are sent some nanoseconds later.
const slack = 1

// take counts a call, and reports whether it keeps to the bucket.
func (m *meter) take(b driver.Bucket, now time.Time) bool {
	if m.last.IsZero() {
		m.tokens = float64(b.Burst) + slack
	}
	m.tokens = min(m.tokens+now.Sub(m.last).Seconds()*b.Rate, float64(b.Burst)+slack)
	m.last = now
	m.tokens--
	return m.tokens >= 0
}

// checkRate looks at every call as it is sent (S21).
func (w *world) checkRate(p *process, op drivertest.Op) {
	name, bucket := "reads", limits.Reads
	switch op {
	case drivertest.OpCreate:
		name, bucket = "calls", limits.Calls
	case drivertest.OpDelete:
		name, bucket = "deletes", limits.Deletes
	}
	p.mu.Lock()
	if p.meters == nil {
		p.meters = map[string]*meter{}
	}
	if p.meters[name] == nil {
		p.meters[name] = &meter{}
	}
	fits := p.meters[name].take(bucket, time.Now())
	p.mu.Unlock()
	if !fits {
		w.violate("S21", "a %s by %s is one call more than %v a second and %d at once", op, p.box.name, bucket.Rate, bucket.Burst)
	}
}
