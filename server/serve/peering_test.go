package serve

import (
	"testing"
	"time"

	"nstance.dev/server/peers"
)

// TestLeaderConfig: what the leader said counts for five seconds.
func TestLeaderConfig(t *testing.T) {
	now := time.Unix(10_000, 0)
	for said, fresh := range map[time.Duration]bool{0: true, freshAnswer - 1: true, freshAnswer: false, time.Hour: false} {
		pr := &peering{now: func() time.Time { return now }, heard: func() (peers.ETags, time.Time) { return peers.ETags{Config: "a"}, now.Add(-said) }}
		if etag, ok := pr.leaderConfig(); ok != fresh || etag != "a" {
			t.Errorf("said %v ago: %q, %t, want %t", said, etag, ok, fresh)
		}
	}
}
