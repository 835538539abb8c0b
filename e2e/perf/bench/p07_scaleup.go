package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

// P7: the pace of a scale-up from nothing to a thousand instances.
//
// Ours: the time from the UpsertGroup to the last create call, as calls per second.
// The store is in memory; nothing but the provider's buckets should take time. It
// is measured three times: in real time with 200 calls a second and a burst of 50; on
// a fake clock with the buckets that EC2 documents for RunInstances, which one
// call for each instance makes last more than eight minutes; and with those again,
// through the driver and the SDK of AWS, by what arrives at a fake of its API.
//
// Floor: the buckets themselves, by arithmetic: the time until they have
// admitted as many.
//
// Goal: 0.95 of the buckets' rate, and not one call that they would not admit.
const scaleUp = 1000

// pairOfBuckets are those that a create takes a token from.
func pairOfBuckets(calls, instances driver.Bucket) driver.Limits {
	return driver.Limits{Calls: calls, Instances: instances}
}

var (
	fastBuckets = pairOfBuckets(driver.Bucket{Rate: 200, Burst: 50}, driver.Bucket{})
	ec2Buckets  = pairOfBuckets(driver.Bucket{Rate: 2, Burst: 5}, driver.Bucket{Rate: 2, Burst: 1000})
)

func measureScaleUp(ctx context.Context, env Env) ([]Row, error) {
	row := Row{Unit: "1/s", Against: "the buckets themselves", Goal: AtLeast(0.95)}
	fast := row
	fast.Name = "0 to 1,000, buckets of 200/s"
	var best pace
	for range env.Rounds {
		begin := func() (*world, <-chan struct{}, error) { return pacedWorld(ctx, "", fastBuckets, scaleUp) }
		p, err := scaleUpPace(ctx, begin, fastBuckets, scaleUp)
		if err != nil {
			return nil, err
		}
		if p.above > 0 {
			fast.Broken = fmt.Sprintf("%d calls came before the buckets had room", p.above)
		}
		if best.took == 0 || p.took < best.took {
			best = p
		}
	}
	fast.Ours, fast.Floor = best.rates(fastBuckets)
	rows := []Row{fast}
	for _, on := range []struct{ name, test string }{
		{"0 to 1,000, EC2's buckets, fake clock", fakeClockTest},
		{"0 to 1,000, EC2's buckets, at a fake of AWS", fakeAWSTest},
	} {
		took, err := fakeClockSeconds(ctx, env, on.test)
		if err != nil {
			return rows, err
		}
		row.Name = on.name
		row.Ours, row.Floor = pace{calls: scaleUp, took: took}.rates(ec2Buckets)
		rows = append(rows, row)
	}
	return rows, nil
}

// pace is how a scale-up went.
type pace struct {
	calls int           // how many there were
	took  time.Duration // until the last call
	above int           // calls that the buckets would not have admitted
}

// rates returns the calls per second, ours and the most that the buckets allow.
func (p pace) rates(limits driver.Limits) (ours, floor float64) {
	return float64(p.calls) / p.took.Seconds(), float64(p.calls) / earliest(limits, p.calls).Seconds()
}

// earliest is how long full buckets take to admit n calls.
func earliest(limits driver.Limits, n int) time.Duration {
	var longest float64
	for _, b := range []driver.Bucket{limits.Calls, limits.Instances} {
		if b.Rate > 0 {
			longest = max(longest, float64(n-b.Burst)/b.Rate)
		}
	}
	return time.Duration(longest * float64(time.Second))
}

// early counts the calls that come before full buckets could admit as many. Times
// are those since the buckets were full; a nanosecond is forgiven for rounding.
func early(limits driver.Limits, at []time.Duration) int {
	n := 0
	for i, t := range at {
		if t < earliest(limits, i+1)-time.Nanosecond*time.Duration(i+1) {
			n++
		}
	}
	return n
}

// pacedWorld is a world whose cloud has the limits; the channel closes at the
// last of so many create calls.
func pacedWorld(ctx context.Context, dir string, limits driver.Limits, calls int) (*world, <-chan struct{}, error) {
	var (
		creates atomic.Int64
		all     = make(chan struct{})
	)
	cloud := drivertest.Options{Limits: limits, OnCall: func(c drivertest.Call) {
		if c.Op == drivertest.OpCreate && creates.Add(1) == int64(calls) {
			close(all)
		}
	}}
	w, err := scene{dir: dir, cloud: drivertest.New(cloud)}.begin(ctx)
	return w, all, err
}

// scaleUpPace runs one scale-up in a new world.
func scaleUpPace(ctx context.Context, begin func() (*world, <-chan struct{}, error), limits driver.Limits, calls int) (p pace, err error) {
	w, all, err := begin()
	if err != nil {
		return pace{}, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	started := time.Now()
	if err := w.scale(ctx, "web", calls); err != nil {
		return pace{}, err
	}
	select {
	case <-all:
	case <-time.After(time.Hour):
		return pace{}, fmt.Errorf("%d of %d create calls within an hour", w.cloud.Count(drivertest.OpCreate), calls)
	}
	var at []time.Duration
	for _, c := range w.cloud.Calls() {
		if c.Op == drivertest.OpCreate {
			at = append(at, c.At.Sub(started))
		}
	}
	return pace{calls: calls, took: at[calls-1], above: early(limits, at[:calls])}, nil
}

// fakeClockTest and fakeAWSTest are the tests that scale up on a fake clock, which
// only tests have, and fakeClockResult the attribute in which they say how long that
// took.
const (
	fakeClockTest   = "TestP7_ScaleUpKeepsThePaceOfEC2"
	fakeAWSTest     = "TestP7_ScaleUpKeepsTheBucketsOfAWS"
	fakeClockResult = "seconds"
)

// fakeClockSeconds runs one of the tests and reads its result.
func fakeClockSeconds(ctx context.Context, env Env, test string) (time.Duration, error) {
	seconds, err := told(ctx, env, test, fakeClockResult)
	return time.Duration(seconds * float64(time.Second)), err
}
