package sim

import (
	"testing"
	"time"
)

func TestL1_SettlingIsBoundedByOneReplacementAfterAnother(t *testing.T) {
	for _, tt := range []struct {
		name     string
		set      map[string]string
		drain    time.Duration
		machines int
		want     time.Duration
	}{
		{"nothing to replace", nil, 5 * time.Minute, 0, 75 * time.Minute},
		// 8s to boot, 20s for two reports, 6s to go, 30s until that is listed, 10s between.
		{"one that nobody drains", nil, 0, 1, 75*time.Minute + 74*time.Second},
		{"a group of the usual size", nil, 30 * time.Second, 6, 75*time.Minute + 6*104*time.Second},
		{
			"a large group, long drains, slow deletes and an old list", map[string]string{"delete": "40s", "lag": "15s"},
			5 * time.Minute, 25, 75*time.Minute + 25*(5*time.Minute+163*time.Second),
		},
		{
			"slow boots and rare reports", map[string]string{"boot": "1m", "interval": "1m"},
			0, 1, 75*time.Minute + 4*time.Minute + 46*time.Second,
		},
	} {
		if got := settleTime(Plan{Settings: tt.set}, tt.drain, tt.machines); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
