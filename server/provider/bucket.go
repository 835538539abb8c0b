package provider

import (
	"context"
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// ThrottlePause is how long a group is slow after a complaint of the provider.
const ThrottlePause = time.Minute

// bucket is a token bucket of the provider. When the provider complains about a call the
// group that it was made for is slow until a minute after the last complaint: all groups
// that are slow share half of the bucket's rate. The others have the bucket as it is, for
// a complaint slows down whom it was made to and nobody else (L7). Where the whole account
// is throttled every group is slow before long, and the rate is halved.
//
// The zero GroupID stands for calls that are made for no group. A nil limiter does not
// limit. It is safe for concurrent use.
type bucket struct {
	limiter *rate.Limiter
	half    *rate.Limiter // of the groups that are slow
	now     func() time.Time

	mu   sync.Mutex
	slow map[fleet.GroupID]time.Time // until when a group is
}

func newBucket(def driver.Bucket, override *document.Bucket, now func() time.Time) *bucket {
	if override != nil {
		def = driver.Bucket{Rate: override.Rate, Burst: override.Burst}
	}
	b := &bucket{now: now, slow: map[fleet.GroupID]time.Time{}}
	if def.Rate > 0 {
		b.limiter = rate.NewLimiter(rate.Limit(def.Rate), max(def.Burst, 1))
		b.half = rate.NewLimiter(rate.Limit(def.Rate)/2, 1)
	}
	return b
}

// wait takes a token for a call of a group.
func (b *bucket) wait(ctx context.Context, group fleet.GroupID) error {
	if b.limiter == nil {
		return ctx.Err()
	}
	if b.slowFor(group) > 0 {
		if err := b.half.Wait(ctx); err != nil {
			return err
		}
	}
	return b.limiter.Wait(ctx)
}

// delay is for how long a call of a group need not be tried, because the group is slow and
// its half of the bucket is empty.
func (b *bucket) delay(group fleet.GroupID) time.Duration {
	slow := b.slowFor(group)
	if b.limiter == nil || slow == 0 {
		return 0
	}
	missing := 1 - b.half.TokensAt(b.now())
	return min(slow, max(0, time.Duration(math.Ceil(missing/float64(b.half.Limit())*float64(time.Second)))))
}

// takeHalf takes a token of the half that slow groups have, for a call of one of them whose
// other token is there.
func (b *bucket) takeHalf(group fleet.GroupID) {
	if b.limiter != nil && b.slowFor(group) > 0 {
		b.half.AllowN(b.now(), 1)
	}
}

// rate is how many calls a second a group may make at most.
func (b *bucket) rate(group fleet.GroupID) float64 {
	switch {
	case b.limiter == nil:
		return math.Inf(1)
	case b.slowFor(group) > 0:
		return float64(b.half.Limit())
	default:
		return float64(b.limiter.Limit())
	}
}

// throttled slows a group down for a minute from now.
func (b *bucket) throttled(group fleet.GroupID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	maps.DeleteFunc(b.slow, func(_ fleet.GroupID, until time.Time) bool { return !now.Before(until) })
	b.slow[group] = now.Add(ThrottlePause)
}

// slowFor is how much longer a group is slow; 0: it is not.
func (b *bucket) slowFor(group fleet.GroupID) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, complained := b.slow[group]
	if !complained {
		return 0
	}
	return max(0, until.Sub(b.now()))
}
