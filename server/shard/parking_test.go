package shard

import (
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

// amongRivalsWithAgent runs a test among rivals with one registered machine, whose
// agent is the test and has said hello.
func amongRivalsWithAgent(t *testing.T, names []string, test func(*testing.T, *rivals, identity.Peer, *opened)) {
	t.Helper()
	amongRivals(t, worldOptions{DeadAgents: true, Interval: "1m", Timeout: "20m"}, names, func(t *testing.T, rs *rivals) {
		rs.scale(web, 1)
		rs.settle(time.Second)
		key := newKey(t)
		peer, err := register(rs.reign(), string(rs.vms(web)[0].Request.UserData), key)
		if err != nil {
			t.Fatal(err)
		}
		s := rs.open(peer)
		s.key = key
		defer s.cut()
		s.say(hello(peer.ID))
		s.say(report(peer.ID, 1))
		rs.settle(time.Second)
		s.heard()
		test(t, rs, peer, s)
	})
}

// heard empties the mailbox of the agent and returns what was in it.
func (o *opened) heard() (all []*nstancev1.ServerMessage) {
	for range len(o.out) {
		all = append(all, <-o.out)
	}
	return all
}

// TestF1_StreamsOutliveTheLease: storage is away for ten leases. Nobody leads, and
// no agent notices.
func TestF1_StreamsOutliveTheLease(t *testing.T) {
	amongRivals(t, worldOptions{Interval: "1m"}, []string{"a"}, func(t *testing.T, rs *rivals) {
		rs.scale(web, 3)
		rs.settle(3 * time.Minute)
		connects := func() int { return strings.Count(rs.logs.String(), "agent connected") }
		before, term := connects(), rs.reign().Term()
		rs.store.Down(true)
		rs.settle(rivalLease)
		if _, err := rs.shard().Reign(); err == nil {
			t.Fatal("the server leads without storage")
		}
		rs.settle(9 * rivalLease)
		rs.store.Down(false)
		rs.settle(5 * time.Minute)
		rs.converged(3)
		if now := rs.reign().Term(); now <= term || connects() != before {
			t.Errorf("terms %d and %d, %d streams were opened; want a new term on the streams that were there, %d", term, now, connects(), before)
		}
		for _, in := range rs.members(web) {
			if h, ok := rs.reign().cache.Health(in.ID); in.State != fleet.Running || !ok || time.Since(h.ReceivedAt) > 2*time.Minute {
				t.Errorf("%s is %s, and was last heard %v ago", in.ID, in.State, time.Since(h.ReceivedAt))
			}
		}
	})
}

// TestS2_NothingIsDoneOnAParkedStream: what the agent asks for meanwhile is done
// by the reign that takes the stream on.
func TestS2_NothingIsDoneOnAParkedStream(t *testing.T) {
	amongRivalsWithAgent(t, []string{"a"}, func(t *testing.T, rs *rivals, peer identity.Peer, s *opened) {
		rs.store.SetFaults(func(c memory.Call) memory.Fault { return memory.Fault{Latency: time.Hour} })
		rs.settle(2 * rivalLease)
		before := rs.shard().opts.Cache
		s.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Renew{
			Renew: &nstancev1.Renew{RequestId: "r", PublicKeyPem: publicPEM(t, s.key)},
		}})
		rs.settle(time.Second)
		if h, _ := before.Health(peer.ID); len(s.heard()) > 0 || h.Count != 1 || !s.isOpen() {
			t.Errorf("something was said or done while nobody leads: %+v", h)
		}
		rs.store.SetFaults(nil)
		rs.settle(2 * rivalLease)
		var welcomes, certificates int
		for _, m := range s.heard() {
			if m.GetWelcome() != nil {
				welcomes++
			}
			if len(m.GetRenewed().GetClientCertificatePem()) > 0 {
				certificates++
			}
		}
		s.say(report(peer.ID, 2))
		rs.settle(time.Second)
		if h, _ := before.Health(peer.ID); welcomes != 1 || certificates != 1 || h.Count != 2 {
			t.Errorf("%d welcomes, %d certificates, last report %+v; want one of each from the new reign, and the report", welcomes, certificates, h)
		}
	})
}

// TestL6_ParkedStreamsEndInTime: a server that can't see who leads sends its agents
// away 30 s before a leader it does not know of may judge them.
func TestL6_ParkedStreamsEndInTime(t *testing.T) {
	amongRivalsWithAgent(t, []string{"a"}, func(t *testing.T, rs *rivals, _ identity.Peer, s *opened) {
		down := time.Now()
		rs.store.Down(true)
		rs.settle(parkLimit(time.Minute) - rivalLease)
		if !s.isOpen() {
			t.Fatalf("the stream ended %v after storage went away", time.Since(down))
		}
		rs.settle(2 * rivalLease)
		if err := s.end(t); !refusedWith(err, refusal.Unavailable) {
			t.Errorf("ended with %v, want Unavailable", err)
		}
		rs.store.Down(false)
		rs.settle(time.Minute)
	})
}

// TestL6_ParkedStreamsFollowTheLeader: another server leads, and the agents of the
// one before are told.
func TestL6_ParkedStreamsFollowTheLeader(t *testing.T) {
	amongRivalsWithAgent(t, []string{"a", "b"}, func(t *testing.T, rs *rivals, _ identity.Peer, s *opened) {
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

// TestS13_ParkedStreamOfAnInstanceThatIsGone: it was removed while nobody led.
func TestS13_ParkedStreamOfAnInstanceThatIsGone(t *testing.T) {
	amongRivalsWithAgent(t, []string{"a"}, func(t *testing.T, rs *rivals, _ identity.Peer, s *opened) {
		key := rs.records()[0].Key()
		rs.store.Down(true)
		rs.settle(rivalLease)
		rs.store.Down(false)
		rs.remove(key)
		rs.settle(2 * rivalLease)
		if err := s.end(t); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("ended with %v, want PermissionDenied", err)
		}
	})
}

// TestF35_NewerStreamThanTheParkedOne: the agent came back by itself before its
// parked stream was taken on. The newer one stays.
func TestF35_NewerStreamThanTheParkedOne(t *testing.T) {
	amongRivalsWithAgent(t, []string{"a"}, func(t *testing.T, rs *rivals, peer identity.Peer, s *opened) {
		r := rs.reign()
		sess := r.sessions.byID[peer.ID]
		if !r.parking.add(sess, time.Hour) {
			t.Fatal("not parked")
		}
		delete(r.sessions.byID, peer.ID)
		newer := rs.open(peer)
		defer newer.cut()
		newer.say(hello(peer.ID))
		rs.settle(time.Second)
		r.parking.resume(r)
		if err := s.end(t); !refusedWith(err, refusal.Aborted) || !newer.isOpen() {
			t.Errorf("the parked stream ended with %v, the newer one is open: %t", err, newer.isOpen())
		}
	})
}
