package wire

import (
	"maps"
	"time"

	"golang.org/x/time/rate"

	"nstance.dev/server/driver"
)

// Limits are the token buckets that a cloud documents. The zero value limits
// nothing.
type Limits struct {
	// Buckets are the buckets by name, full at first. A zero one does not limit.
	Buckets map[string]driver.Bucket

	// Of names the buckets that a call takes a token from, by op. It takes one of
	// each, or none where one of them is empty.
	Of map[string][]string

	// Default are the buckets of the ops that Of does not name.
	Default []string
}

// Faster returns the same limits with buckets that fill up by times as fast. Their
// sizes stay.
func (l Limits) Faster(by float64) Limits {
	l.Buckets = maps.Clone(l.Buckets)
	for name, b := range l.Buckets {
		b.Rate *= by
		l.Buckets[name] = b
	}
	return l
}

// crumb is the part of a token that may be missing, because a rate times a
// duration is rarely a whole number.
const crumb = 1e-6

// buckets are limits at work. The caller locks.
type buckets struct {
	limits Limits
	by     map[string]*rate.Limiter
}

func newBuckets(l Limits) buckets {
	b := buckets{limits: l, by: map[string]*rate.Limiter{}}
	for name, bucket := range l.Buckets {
		if bucket != (driver.Bucket{}) {
			b.by[name] = rate.NewLimiter(rate.Limit(bucket.Rate), bucket.Burst)
		}
	}
	return b
}

// take takes the tokens of op or, if one is missing, none and returns how long it
// will be missing.
func (b buckets) take(op string, now time.Time) (wait time.Duration, ok bool) {
	names, known := b.limits.Of[op]
	if !known {
		names = b.limits.Default
	}
	for _, name := range names {
		if l := b.by[name]; l != nil && l.TokensAt(now) < 1-crumb {
			missing := (1 - l.TokensAt(now)) / float64(l.Limit())
			wait = max(wait, time.Duration(missing*float64(time.Second)))
		}
	}
	if wait > 0 {
		return wait, false
	}
	for _, name := range names {
		if l := b.by[name]; l != nil {
			l.ReserveN(now, 1)
		}
	}
	return 0, true
}
