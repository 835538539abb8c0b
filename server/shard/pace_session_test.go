package shard

import (
	"crypto/ed25519"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

// TestS22_AnAgentIsHeardAtItsPace: what one says faster waits in the network; nothing is lost,
// and others are not kept waiting.
func TestS22_AnAgentIsHeardAtItsPace(t *testing.T) {
	for name, tt := range map[string]struct {
		say   func(id identity.ID, n int64) *nstancev1.AgentMessage
		least time.Duration // for 25 messages
	}{
		"reports": {report, 9 * time.Second},
		"keys": {func(identity.ID, int64) *nstancev1.AgentMessage {
			return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{PublicKeys: &nstancev1.PublicKeys{RequestId: "k"}}}
		}, 19 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
				s := w.open(peer)
				defer s.cut()
				s.say(hello(peer.ID))
				start := time.Now()
				for n := range 25 {
					if !s.say(tt.say(peer.ID, int64(n+1))) {
						t.Fatal("the stream has ended")
					}
				}
				if took := time.Since(start); took < tt.least {
					t.Errorf("25 messages were heard in %v, want at least %v", took, tt.least)
				}
				synctest.Wait()
				if h, _ := w.reign().cache.Health(peer.ID); name == "reports" && h.Count < 24 {
					t.Errorf("the last report that was heard is %d", h.Count)
				}
			})
		})
	}
}

// TestS22_RenewalsAreBounded: each costs a signature and a write to storage.
func TestS22_RenewalsAreBounded(t *testing.T) {
	withAgentsKey(t, func(t *testing.T, w *world, peer identity.Peer, key ed25519.PrivateKey) {
		s := w.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		synctest.Wait()
		writes := 0
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut {
				writes++
			}
			return memory.Fault{}
		})
		granted := 0
		for range 20 {
			switch answer := s.renewed(t, key); {
			case len(answer.ClientCertificatePem) > 0:
				granted++
			case answer.Code != string(refusal.ResourceExhausted):
				t.Fatalf("renewal: %v", answer)
			}
		}
		w.store.SetFaults(nil)
		if granted > 2 || writes > 5 {
			t.Errorf("20 renewals at once: %d certificates, %d writes", granted, writes)
		}
	})
}

func TestPaceFollowsTheInterval(t *testing.T) {
	for interval, want := range map[time.Duration]int{time.Minute: 2, 0: 2, time.Second: 2, 100 * time.Millisecond: 20} {
		if got := newPace(interval, false).reports.Limit(); int(got+0.5) != want {
			t.Errorf("interval %v: %v reports a second, want %d", interval, got, want)
		}
	}
}
