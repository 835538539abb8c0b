package bench

import (
	"flag"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/driver"
)

// creates is how many machines a scale-up makes. Each costs a look at all others, and
// the race detector makes that slow: the measure makes a thousand, without it. The burst
// is over after five.
var creates = flag.Int("creates", 100, "machines that a scale-up on the fake clock makes")

// TestP7_ScaleUpKeepsThePaceOfEC2 is also run by the measure, for the fake clock
// that it has.
func TestP7_ScaleUpKeepsThePaceOfEC2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := func() (*world, <-chan struct{}, error) {
			return pacedWorld(t.Context(), t.TempDir(), ec2Buckets, *creates)
		}
		p, err := scaleUpPace(t.Context(), begin, ec2Buckets, *creates)
		if err != nil {
			t.Fatal(err)
		}
		if p.above > 0 {
			t.Errorf("S21: %d calls came before the buckets had room", p.above)
		}
		ours, floor := p.rates(ec2Buckets)
		if ours < 0.95*floor {
			t.Errorf("%.3f calls a second, the buckets admit %.3f", ours, floor)
		}
		t.Attr(fakeClockResult, strconv.FormatFloat(p.took.Seconds(), 'f', 3, 64))
	})
}

func TestEarly(t *testing.T) {
	limits := pairOfBuckets(driver.Bucket{Rate: 2, Burst: 2}, driver.Bucket{Rate: 10, Burst: 1})
	for _, c := range []struct {
		name string
		at   []time.Duration
		want int
	}{
		{"nothing was called", nil, 0},
		{"the burst of the smaller bucket and no more", []time.Duration{0, 100 * time.Millisecond, 500 * time.Millisecond}, 0},
		{"the second call beats the smaller bucket", []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond}, 1},
		{"the third call beats the slower bucket", []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond}, 1},
		{"late calls may catch up", []time.Duration{time.Second, time.Second, time.Second}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := early(limits, c.at); got != c.want {
				t.Errorf("early = %d, want %d", got, c.want)
			}
		})
	}
}
