package fleet_test

import (
	"testing"
	"time"

	"nstance.dev/server/fleet"
)

// TestF32_S8_MassSilence: the brake goes on when most fall silent at once, and off
// when most are back or it has been on for too long.
func TestF32_S8_MassSilence(t *testing.T) {
	off, on := fleet.Silence{}, fleet.Silence{Since: epoch}
	for _, c := range []struct {
		name   string
		before fleet.Silence
		census fleet.Census
		after  time.Duration
		want   fleet.Silence
	}{
		{"all is well", off, fleet.Census{Registered: 10}, 0, off},
		{"half of them is not most", off, fleet.Census{Registered: 10, Silent: 5, Fresh: 5}, 0, off},
		{"more than half", off, fleet.Census{Registered: 10, Silent: 6, Fresh: 6}, 0, on},
		{"both of two are no mass", off, fleet.Census{Registered: 2, Silent: 2, Fresh: 2}, 0, off},
		{"all of three are", off, fleet.Census{Registered: 3, Silent: 3, Fresh: 3}, 0, on},
		{"one after the other", off, fleet.Census{Registered: 10, Silent: 8, Fresh: 3}, 0, off},
		{"still most", on, fleet.Census{Registered: 10, Silent: 6}, time.Minute, on},
		{"a quarter is left", on, fleet.Census{Registered: 8, Silent: 2}, time.Minute, on},
		{"less than a quarter is left", on, fleet.Census{Registered: 9, Silent: 2}, time.Minute, off},
		{"nobody is left to judge", on, fleet.Census{}, time.Minute, on},
		{"just not half an hour", on, fleet.Census{Registered: 10, Silent: 10}, 30*time.Minute - 1, on},
		{"half an hour", on, fleet.Census{Registered: 10, Silent: 10}, 30 * time.Minute, off},
		{"off after half an hour, and they are still silent", off, fleet.Census{Registered: 10, Silent: 10}, time.Hour, off},
	} {
		if got := c.before.Next(c.census, epoch.Add(c.after)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if off.Alarm() != "" || on.Alarm() == "" {
		t.Errorf("alarms: off %q, on %q", off.Alarm(), on.Alarm())
	}
}
