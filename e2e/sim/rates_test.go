package sim

import (
	"testing"
	"time"

	"nstance.dev/server/driver"
)

func TestS21_MeterTakesWhatABucketGives(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	b := driver.Bucket{Rate: 2, Burst: 3}
	var m meter
	at := func(d time.Duration, want bool) {
		t.Helper()
		if got := m.take(b, now.Add(d)); got != want {
			t.Errorf("a call after %v fits: %v, want %v", d, got, want)
		}
	}
	for range b.Burst + slack {
		at(0, true)
	}
	m2 := m
	at(0, false)
	m = m2
	at(500*time.Millisecond, true)
	at(time.Second, true)
	m2 = m
	at(time.Second, false)
	m = m2
	for range b.Burst + slack { // no more than the burst is saved up
		at(time.Hour, true)
	}
	at(time.Hour, false)
}
