package serve

import (
	"testing"
	"time"

	"nstance.dev/server/config/document"
)

// TestS2_TheShortestLeaseBoundsConnections: of the two locks, those that are used.
func TestS2_TheShortestLeaseBoundsConnections(t *testing.T) {
	of := func(enabled bool, d time.Duration) document.Election {
		return document.Election{Enabled: enabled, LeaderTimeout: document.Duration(d)}
	}
	for _, test := range []struct {
		cluster, shard document.Election
		want           time.Duration
	}{
		{of(true, 15*time.Second), of(true, 5*time.Second), 5 * time.Second},
		{of(true, 10*time.Second), of(true, 15*time.Second), 10 * time.Second},
		{of(false, 5*time.Second), of(true, 15*time.Second), 15 * time.Second},
		{of(false, 5*time.Second), of(false, 5*time.Second), 0},
	} {
		s := &server{cfg: document.Server{ClusterElection: test.cluster, ShardElection: test.shard}}
		if got, ok := s.shortestLease(); got != test.want || ok != (test.want > 0) {
			t.Errorf("%+v: %v, %v, want %v", test, got, ok, test.want)
		}
	}
}
