package provisioning

import (
	"errors"
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

func TestBackoffAfter(t *testing.T) {
	for _, tt := range []struct {
		failures int
		swing    float64
		want     time.Duration
	}{
		{0, 0, 5 * time.Second}, {1, 0, 10 * time.Second}, {3, 0, 40 * time.Second},
		{6, 0, 5 * time.Minute}, {100, 0, 5 * time.Minute},
		{0, 1, 6 * time.Second}, {0, -1, 4 * time.Second}, {100, 1, 6 * time.Minute},
	} {
		if got := backoffAfter(tt.failures, tt.swing); got != tt.want {
			t.Errorf("after %d failures with swing %v: %v, want %v", tt.failures, tt.swing, got, tt.want)
		}
	}
}

func TestBackoffs(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := newBackoffs(func() float64 { return 0.5 })
	if g := b.blocked(web, now); g != (fleet.Block{}) {
		t.Errorf("a group without failures: %v", g)
	}
	first := b.block(web, now, driver.Quota, errors.New("one"))
	if again := b.block(web, now.Add(time.Second), driver.Quota, errors.New("two")); again != first-time.Second {
		t.Errorf("a failure of the same burst blocks for %v, want the rest of %v", again, first)
	}
	if g := b.blocked(web, now.Add(first-1)); g.Why != "quota: two" || !g.Until.Equal(now.Add(first)) {
		t.Errorf("gate %v, want shut until %v", g, now.Add(first))
	}
	if g := b.blocked(web, now.Add(first)); g != (fleet.Block{}) {
		t.Errorf("gate %v when the pause is over", g)
	}
	if g := b.blocked(small, now); g != (fleet.Block{}) {
		t.Errorf("another group: %v", g)
	}
	if second := b.block(web, now.Add(first), driver.Capacity, errors.New("full")); second != 10*time.Second {
		t.Errorf("the second failure blocks for %v, want 10s in the middle of the jitter", second)
	}
	b.reset(web)
	if g := b.blocked(web, now.Add(first)); g != (fleet.Block{}) {
		t.Errorf("gate %v after a success", g)
	}
}
