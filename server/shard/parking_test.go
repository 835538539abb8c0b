package shard

import (
	"strings"
	"testing"
	"time"

	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// amongRivalsWithAgent runs a test among rivals with one registered machine, whose
// agent is the test and has said hello.
func amongRivalsWithAgent(t *testing.T, names []string, test func(*testing.T, *rivals, *opened)) {
	t.Helper()
	amongRivals(t, worldOptions{DeadAgents: true, Interval: "1m", Timeout: "20m"}, names, func(t *testing.T, rs *rivals) {
		rs.scale(web, 1)
		rs.settle(time.Second)
		peer, err := register(rs.term(), string(rs.vms(web)[0].Request.UserData), newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		s := rs.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		s.say(report(peer.ID, 1))
		rs.settle(time.Second)
		test(t, rs, s)
	})
}

// TestF1_StreamsOutliveTheLease: storage is away for ten leases. Nobody leads, and
// no agent notices.
func TestF1_StreamsOutliveTheLease(t *testing.T) {
	amongRivals(t, worldOptions{Interval: "1m"}, []string{"a"}, func(t *testing.T, rs *rivals) {
		rs.scale(web, 3)
		rs.settle(3 * time.Minute)
		connects := func() int { return strings.Count(rs.logs.String(), "agent connected") }
		before, term := connects(), rs.term().Number()
		rs.store.Down(true)
		rs.settle(rivalLease)
		if _, err := rs.shard().Term(); err == nil {
			t.Fatal("the server leads without storage")
		}
		rs.settle(9 * rivalLease)
		rs.store.Down(false)
		rs.settle(5 * time.Minute)
		rs.converged(3)
		if now := rs.term().Number(); now <= term || connects() != before {
			t.Errorf("terms %d and %d, %d streams were opened; want a new term on the streams that were there, %d", term, now, connects(), before)
		}
		for _, in := range rs.members(web) {
			if h, ok := rs.term().planner.cache.Health(in.ID); in.State != fleet.Running || !ok || time.Since(h.ReceivedAt) > 2*time.Minute {
				t.Errorf("%s is %s, and was last heard %v ago", in.ID, in.State, time.Since(h.ReceivedAt))
			}
		}
	})
}

// TestL6_ParkedStreamsFollowTheLeader: another server leads, and the agents of the
// one before are told.
func TestL6_ParkedStreamsFollowTheLeader(t *testing.T) {
	amongRivalsWithAgent(t, []string{"a", "b"}, func(t *testing.T, rs *rivals, s *opened) {
		first := rs.shard()
		rs.all[0].stop()
		rs.settle(2 * rivalLease)
		if rs.shard() == first {
			t.Fatal("nobody took over")
		}
		rs.all[0].continues()
		rs.settle(time.Second)
		if err := s.end(t); !refusedWith(err, refusal.Unavailable) {
			t.Errorf("ended with %v, want Unavailable", err)
		}
	})
}
