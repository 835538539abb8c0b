package opsim

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestS5_WishesOfBeforeAnOutageCountForAWhile: the operator has as much time as always from when
// the API server is back, and no more.
func TestS5_WishesOfBeforeAnOutageCountForAWhile(t *testing.T) {
	for _, tt := range []struct {
		name        string
		gone, back  time.Duration // before now
		wantsBefore time.Duration
	}{
		{"never away", 0, 0, reaction},
		{"away", time.Minute, -2 * time.Minute, time.Minute + reaction},
		{"back a moment ago", 3 * time.Minute, time.Second, 3*time.Minute + reaction},
		{"back for longer", 5 * time.Minute, reaction + time.Second, reaction},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &checks{}
				if tt.gone > 0 {
					c.gone, c.back = time.Now().Add(-tt.gone), time.Now().Add(-tt.back)
				}
				if got := time.Since(c.reacted()); got != tt.wantsBefore {
					t.Errorf("what was wanted up to %v ago counts, want %v", got, tt.wantsBefore)
				}
			})
		})
	}
}
