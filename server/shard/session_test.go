package shard

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// opened is a stream that a test holds the other end of.
type opened struct {
	*pipe
	ended chan error
	key   ed25519.PrivateKey // of the agent, where a test has set it
}

// open opens a stream without saying anything.
func (w *world) open(peer identity.Peer) *opened {
	o := &opened{pipe: newPipe(w.ctx), ended: make(chan error, 1)}
	r := w.reign()
	w.agents.Go(func() { o.ended <- r.Connect(&peer, o.pipe) })
	synctest.Wait()
	return o
}

// end is how the stream ended; it must have.
func (o *opened) end(t *testing.T) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-o.ended:
		return err
	default:
		t.Error("the stream is still open")
		return nil
	}
}

func (o *opened) isOpen() bool {
	synctest.Wait()
	return len(o.ended) == 0
}

// withAgent runs a test with one registered machine, whose agent is the test.
func withAgent(t *testing.T, test func(t *testing.T, w *world, peer identity.Peer)) {
	t.Helper()
	withAgentsKey(t, func(t *testing.T, w *world, peer identity.Peer, _ ed25519.PrivateKey) { test(t, w, peer) })
}

// withAgentsKey is withAgent, with the agent's key.
func withAgentsKey(t *testing.T, test func(t *testing.T, w *world, peer identity.Peer, key ed25519.PrivateKey)) {
	t.Helper()
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		key := newKey(t)
		peer, err := register(w.reign(), nonce, key)
		if err != nil {
			t.Fatal(err)
		}
		test(t, w, peer, key)
	})
}

// renewed asks for a certificate for a key, and returns the answer.
func (o *opened) renewed(t *testing.T, key ed25519.PrivateKey) *nstancev1.Renewed {
	t.Helper()
	o.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Renew{
		Renew: &nstancev1.Renew{RequestId: "r", PublicKeyPem: publicPEM(t, key)},
	}})
	for {
		if answer := (<-o.out).GetRenewed(); answer != nil {
			return answer
		}
	}
}

func TestRulesOfAStream(t *testing.T) {
	for name, tt := range map[string]struct {
		say  func(peer identity.Peer, stranger identity.ID) []*nstancev1.AgentMessage
		wait time.Duration
		want refusal.Code
	}{
		"no hello within 10s": {
			say:  func(identity.Peer, identity.ID) []*nstancev1.AgentMessage { return nil },
			wait: 10 * time.Second, want: refusal.DeadlineExceeded,
		},
		"a report before hello": {
			say: func(p identity.Peer, _ identity.ID) []*nstancev1.AgentMessage {
				return []*nstancev1.AgentMessage{report(p.ID, 1)}
			},
			want: refusal.FailedPrecondition,
		},
		"a second hello": {
			say: func(p identity.Peer, _ identity.ID) []*nstancev1.AgentMessage {
				return []*nstancev1.AgentMessage{hello(p.ID), hello(p.ID)}
			},
			want: refusal.FailedPrecondition,
		},
		"S11: hello of another instance": {
			say: func(_ identity.Peer, other identity.ID) []*nstancev1.AgentMessage {
				return []*nstancev1.AgentMessage{hello(other)}
			},
			want: refusal.PermissionDenied,
		},
		"S11: a report of another instance": {
			say: func(p identity.Peer, other identity.ID) []*nstancev1.AgentMessage {
				return []*nstancev1.AgentMessage{hello(p.ID), report(other, 1)}
			},
			want: refusal.PermissionDenied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
				stranger, err := w.ids.NewID("vmx")
				if err != nil {
					t.Fatal(err)
				}
				s := w.open(peer)
				for _, msg := range tt.say(peer, stranger) {
					s.say(msg)
				}
				if tt.wait > 0 {
					w.settle(tt.wait - time.Millisecond)
					if !s.isOpen() {
						t.Fatal("it ended too early")
					}
					w.settle(time.Millisecond)
				}
				if err := s.end(t); !refusedWith(err, tt.want) {
					t.Errorf("ended with %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestUnknownMessageIsLeftAlone(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		s.say(&nstancev1.AgentMessage{})
		w.settle(20 * time.Second)
		if !s.isOpen() {
			t.Error("the stream ended because of a message that the server does not know")
		}
	})
}

func TestWelcomeComesFirst(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		synctest.Wait()
		welcome := (<-s.out).GetWelcome()
		if welcome == nil || welcome.Shard != testShard || welcome.Term != 1 || welcome.ReportInterval.AsDuration() != 10*time.Second {
			t.Errorf("first message: %v, want the welcome of term 1", welcome)
		}
		if keys := (<-s.out).GetKeyRequest(); keys == nil || len(keys.KeyNames) != 0 {
			t.Errorf("second message: %v, want a request for no keys", keys)
		}
	})
}

func TestF35_NewerStreamReplacesTheOlder(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		var last *opened
		for i := range 6 {
			s := w.open(peer)
			s.say(hello(peer.ID))
			synctest.Wait()
			if last != nil {
				if err := last.end(t); !refusedWith(err, refusal.Aborted) {
					t.Errorf("stream %d ended with %v, want Aborted", i, err)
				}
			}
			last = s
			w.settle(time.Second)
		}
		defer last.cut()
		if !last.isOpen() {
			t.Error("the newest stream was not kept")
		}
		alarmed := false
		for _, e := range w.reign().cache.Errors("default") {
			alarmed = alarmed || strings.Contains(e.Error, "clone")
		}
		if !alarmed {
			t.Error("no alarm about a cloned identity after 5 replacements")
		}
		row, _ := w.reign().cache.Instance(peer.ID)
		if row.State != fleet.Running {
			t.Errorf("state %s, want running: nothing is deleted for that alone", row.State)
		}
	})
}

func TestGoodbyeIsNoAlarm(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		w.settle(time.Second)
		before := w.count(drivertest.OpGet)
		s.halfClose()
		if err := s.end(t); err != nil {
			t.Errorf("ended with %v, want nil", err)
		}
		if n := w.count(drivertest.OpGet) - before; n != 0 {
			t.Errorf("the provider was asked %d times after a goodbye", n)
		}
		row, _ := w.reign().cache.Instance(peer.ID)
		if row.State != fleet.Running {
			t.Errorf("state %s after a goodbye, want running", row.State)
		}
	})
}

func TestBrokenStreamAsksTheProviderAtOnce(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		w.settle(time.Second)
		before := w.count(drivertest.OpGet)
		s.cut()
		synctest.Wait()
		if n := w.count(drivertest.OpGet) - before; n != 1 {
			t.Errorf("the provider was asked %d times after a broken stream, want once", n)
		}
	})
}

func TestS13_StreamEndsWithItsInstance(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		w.scale(web, 0)
		w.settle(5 * time.Second)
		if err := s.end(t); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("ended with %v, want PermissionDenied", err)
		}
		if err := w.reign().AdmitAgent(peer); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("the certificate of a deleted instance: %v, want PermissionDenied", err)
		}
	})
}

func TestS13_HelloAfterTheInstanceIsDeleted(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		w.scale(web, 0)
		w.settle(5 * time.Second)
		s.say(hello(peer.ID))
		if err := s.end(t); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("ended with %v, want PermissionDenied", err)
		}
	})
}

func TestS11_AdmitAgent(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		if err := w.reign().AdmitAgent(peer); err != nil {
			t.Errorf("the true certificate: %v", err)
		}
		for name, change := range map[string]func(*identity.Peer){
			"another cluster":     func(p *identity.Peer) { p.Cluster = "other" },
			"another shard":       func(p *identity.Peer) { p.Shard = "s2" },
			"another tenant":      func(p *identity.Peer) { p.Tenant = "b" },
			"another certificate": func(p *identity.Peer) { p.Serial = "1" },
			"another instance":    func(p *identity.Peer) { p.ID = "vmx00000000000000000000000000" },
		} {
			p := peer
			change(&p)
			if err := w.reign().AdmitAgent(p); !refusedWith(err, refusal.PermissionDenied) {
				t.Errorf("%s: %v, want PermissionDenied", name, err)
			}
		}
	})
}

func TestStreamEndsWithItsCertificate(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		peer.NotAfter = time.Now().Add(30 * time.Second)
		s := w.open(peer)
		s.say(hello(peer.ID))
		w.settle(30 * time.Second)
		if err := s.end(t); !refusedWith(err, refusal.Unauthenticated) {
			t.Errorf("ended with %v, want Unauthenticated", err)
		}
	})
}

func TestStreamEndsWithTheReign(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		synctest.Wait()
		w.stop()
		if err := s.end(t); !refusedWith(err, refusal.Unavailable) {
			t.Errorf("ended with %v, want Unavailable", err)
		}
	})
}

func TestRenewalKeepsTheOldCertificateOnce(t *testing.T) {
	withAgentsKey(t, func(t *testing.T, w *world, peer identity.Peer, key ed25519.PrivateKey) {
		s := w.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		if answer := s.renewed(t, key); answer.Code != "" || len(answer.ClientCertificatePem) == 0 {
			t.Fatalf("renewal: %v", answer)
		}
		if err := w.reign().AdmitAgent(peer); err != nil {
			t.Errorf("the certificate before, while the new one may be lost: %v", err)
		}
		w.stop()
		w.lead()
		if err := w.reign().AdmitAgent(peer); err != nil {
			t.Errorf("the certificate before, after a take-over: %v", err)
		}
	})
}

// TestS2_NoRenewedCertificateAfterTheLease: the lease runs out while the renewal
// is being recorded. The certificate does not leave.
func TestS2_NoRenewedCertificateAfterTheLease(t *testing.T) {
	withAgentsKey(t, func(t *testing.T, w *world, peer identity.Peer, key ed25519.PrivateKey) {
		s := w.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		synctest.Wait()
		w.life.dieAt(1, afterAnswer)
		s.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Renew{
			Renew: &nstancev1.Renew{RequestId: "r", PublicKeyPem: publicPEM(t, key)},
		}})
		synctest.Wait()
		s.cut()
		for range len(s.out) {
			if answer := (<-s.out).GetRenewed(); len(answer.GetClientCertificatePem()) > 0 {
				t.Error("a certificate left after the lease")
			}
		}
		if rec := w.records()[0]; rec.Certificate.PreviousSerial != peer.Serial {
			t.Errorf("the renewal was not recorded: %+v; the test shows nothing", rec.Certificate)
		}
	})
}

func TestReportsThatComeTwiceCountOnce(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		s.say(report(peer.ID, 5))
		synctest.Wait()
		w.settle(time.Second)
		s.say(report(peer.ID, 4))
		s.say(report(peer.ID, 5))
		synctest.Wait()
		h, ok := w.reign().cache.Health(peer.ID)
		if !ok || h.Count != 5 || time.Since(h.ReceivedAt) != time.Second {
			t.Errorf("last report: %+v", h)
		}
	})
}

// TestSingleReport: an agent that reports once is judged by its stream.
func TestSingleReport(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		s.say(report(peer.ID, 0))
		state := func() fleet.State {
			row, _ := w.reign().cache.Instance(peer.ID)
			return row.State
		}
		w.settle(10 * time.Minute)
		if got := state(); got != fleet.Running {
			t.Errorf("state %s with its stream up, want running", got)
		}
		s.cut()
		w.settle(20 * time.Second)
		if got := state(); got != fleet.Suspect {
			t.Errorf("state %s with its stream lost, want suspect", got)
		}
		w.settle(20 * time.Second)
		if got := state(); got.Live() {
			t.Errorf("state %s with its stream lost for 40s", got)
		}
	})
}
