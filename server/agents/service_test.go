package agents

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
)

// TestS11_RulesOfAStream: who may say what, and when.
func TestS11_RulesOfAStream(t *testing.T) {
	for name, c := range map[string]struct {
		say  func(m *machine) []*nstancev1.AgentMessage
		wait time.Duration
		want refusal.Code
	}{
		"no hello":              {func(*machine) []*nstancev1.AgentMessage { return nil }, helloTimeout, refusal.DeadlineExceeded},
		"a report before hello": {func(m *machine) []*nstancev1.AgentMessage { return []*nstancev1.AgentMessage{report(m.id, 1)} }, 0, refusal.FailedPrecondition},
		"two hellos":            {func(m *machine) []*nstancev1.AgentMessage { return []*nstancev1.AgentMessage{hello(m.id), hello(m.id)} }, 0, refusal.FailedPrecondition},
		"hello of another":      {func(*machine) []*nstancev1.AgentMessage { return []*nstancev1.AgentMessage{hello("vmx0")} }, 0, refusal.PermissionDenied},
		"report of another": {func(m *machine) []*nstancev1.AgentMessage {
			return []*nstancev1.AgentMessage{hello(m.id), report("vmx0", 1)}
		}, 0, refusal.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			atPost(t, func(t *testing.T, _ *post, a *term) {
				m := a.registered()
				o := a.open(m)
				for _, msg := range c.say(m) {
					o.say(msg)
				}
				if c.wait > 0 {
					time.Sleep(c.wait - time.Millisecond)
					if ended, err := o.ended(); ended {
						t.Errorf("ended too early, with %v", err)
					}
					time.Sleep(time.Millisecond)
				}
				o.expect(t, c.want)
			})
		})
	}
}

// TestWhatAnAgentSays: is passed on, once, and in order.
func TestWhatAnAgentSays(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		m := a.registered()
		o := a.greeted(m)
		a.expect("hello", "connect", "up", "greet")
		if welcome := o.heard()[0].GetWelcome(); welcome.GetTerm() != 1 || welcome.GetShard() != testShard || welcome.ReportInterval.AsDuration() != 10*time.Second {
			t.Errorf("welcome %v", welcome)
		}
		noticed := report(m.id, 5)
		noticed.GetReport().TerminationNotice = &nstancev1.TerminationNotice{Action: "stop", Deadline: timestamppb.New(time.Now())}
		o.say(noticed)
		a.expect("a report with a notice", "notice stop", "report", "heard")
		o.say(report(m.id, 5))
		o.say(report(m.id, 4))
		a.expect("reports that came late")
		o.say(&nstancev1.AgentMessage{})
		o.say(report(m.id, 6))
		a.expect("a report", "report", "heard")
		if h, _ := p.cache.Health(m.id); h.Count != 6 || h.TerminationAction != "" || !h.FirstNoticeAt.IsZero() {
			t.Errorf("noted %+v", h)
		}
		time.Sleep(5 * time.Second) // that its next messages are dealt with at once
		o.say(noticed)
		o.say(report(m.id, 0))
		a.expect("the only report", "single report", "heard")
		a.Welcome()
		if n := len(o.heard()); n != 1 {
			t.Errorf("%d messages after a change, want a welcome", n)
		}
		close(o.bye)
		if ended, err := o.ended(); !ended || err != nil {
			t.Errorf("goodbye: ended %v with %v", ended, err)
		}
		a.expect("goodbye", "disconnect", "goodbye")
	})
}

// TestF34_TheFirstNoticeIsKept: with the time at which it came, as long as it is repeated.
func TestF34_TheFirstNoticeIsKept(t *testing.T) {
	first := time.Unix(5, 0)
	now := cache.Health{ReceivedAt: time.Unix(9, 0)}
	keepNotice(&now, cache.Health{FirstNoticeAt: first}, fleet.Notice{Action: "stop"})
	if now.TerminationAction != "stop" || !now.FirstNoticeAt.Equal(first) {
		t.Errorf("%+v", now)
	}
	now.FirstNoticeAt = time.Time{}
	if keepNotice(&now, cache.Health{}, fleet.Notice{Action: "stop"}); !now.FirstNoticeAt.Equal(now.ReceivedAt) {
		t.Errorf("%+v", now)
	}
}

// TestF31_TheEndOfAStreamIsToldLast: however soon it comes.
func TestF31_TheEndOfAStreamIsToldLast(t *testing.T) {
	for _, at := range []string{"connect", "up", "greet"} {
		atPost(t, func(t *testing.T, _ *post, a *term) {
			m := a.registered()
			o := a.open(m)
			var s *stream
			a.onCall = func(call string) {
				if call == "connect" {
					s = a.streams.streams[m.id] // whose lock is held
				}
				if call == at {
					s.finish(context.Canceled)
					for range 100 { // whoever waits for no lock goes on
						runtime.Gosched()
					}
				}
			}
			o.say(hello(m.id))
			told := a.told()
			if up, down := slices.Index(told, "up"), slices.Index(told, "down"); up < 0 || down < up || a.streams.has(m.id) {
				t.Errorf("ended at %q: told %q", at, told)
			}
		})
	}
}

// TestF35_TheNewestStreamCounts: and two that keep replacing each other are two machines.
func TestF35_TheNewestStreamCounts(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		last := a.greeted(m)
		for i := range 4 {
			next := a.greeted(m)
			last.expect(t, refusal.Aborted)
			last = next
			if alarms := len(a.failed()); alarms != i/3 {
				t.Errorf("%d alarms after %d replacements", alarms, i+1)
			}
			time.Sleep(10 * time.Second)
		}
		if told := a.told(); slices.Contains(told, "down") || slices.Contains(told, "disconnect") {
			t.Errorf("told %q of an instance that is connected", told)
		}
		time.Sleep(time.Minute)
		a.greeted(m)
		if alarms := len(a.failed()); alarms != 1 {
			t.Errorf("%d alarms; what is over for a minute does not count", alarms)
		}
	})
}

// TestS13_StreamsOfDeletedInstances: end at once, and no other is attached.
func TestS13_StreamsOfDeletedInstances(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		up, silent := a.registered(), a.registered()
		a.greeted(up)
		one, two := a.greeted(up), a.open(silent)
		for _, m := range []*machine{up, silent} {
			a.ends(m.id, true)
			a.End(m.id)
		}
		one.expect(t, refusal.PermissionDenied)
		two.say(hello(silent.id))
		two.expect(t, refusal.PermissionDenied)
		a.open(up).expect(t, refusal.PermissionDenied)
		if a.streams.has(up.id) || a.streams.has(silent.id) || len(a.streams.replaced) > 0 {
			t.Error("a stream of a deleted instance is kept")
		}
	})
}

// TestF1_StreamsGoOnInTheNextTerm: where the lease was lost and nobody else leads; they end
// where the server stops.
func TestF1_StreamsGoOnInTheNextTerm(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		m := a.registered()
		o := a.greeted(m)
		a.told()
		o.heard()
		a.stop(lease.ErrNotLeader)
		go o.say(report(m.id, 1))
		a.expect("while nobody leads")
		b := p.lead()
		b.expect("before it serves")
		b.Resume()
		b.expect("the next term", "connect", "up", "greet", "report", "heard")
		if heard := o.heard(); len(heard) != 1 || heard[0].GetWelcome().GetTerm() != 2 {
			t.Errorf("the agent heard %v", heard)
		}
		a.expect("the term before")
		b.stop(context.Canceled)
		o.expect(t, refusal.Unavailable)
		b.expect("the end of the server", "disconnect")
	})
}

// TestF1_OnlyWhoIsConnectedIsParked: not who says hello when nobody leads any more, nor who is
// gone.
func TestF1_OnlyWhoIsConnectedIsParked(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		silent, up := a.registered(), a.registered()
		one, two := a.open(silent), a.greeted(up)
		a.stop(lease.ErrNotLeader)
		a.told()
		one.say(hello(silent.id))
		one.expect(t, refusal.Unavailable)
		a.expect("a hello after the term")
		two.cut()
		if ended, _ := two.ended(); !ended || len(p.parking.streams) > 0 {
			t.Errorf("ended: %v, and %d streams are parked", ended, len(p.parking.streams))
		}
	})
	atPost(t, func(t *testing.T, _ *post, a *term) {
		s := newStream(&identity.Peer{ID: "vmx0"}, newPipe(t.Context()), newPace(0, true))
		s.finish(context.Canceled)
		if _, err := a.streams.add(s, time.Now()); err == nil {
			t.Error("a stream is attached that has ended")
		}
	})
}

// TestL6_ParkedStreamsEndInTime: before another leader may judge their agents.
func TestL6_ParkedStreamsEndInTime(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		o := a.greeted(a.registered())
		a.stop(lease.ErrNotLeader)
		time.Sleep(parkLimit(10*time.Second) - time.Millisecond)
		if ended, err := o.ended(); ended {
			t.Errorf("ended too early, with %v", err)
		}
		time.Sleep(time.Millisecond)
		o.expect(t, refusal.Unavailable)
	})
	for interval, want := range map[time.Duration]time.Duration{time.Second: 30 * time.Second, time.Minute: 150 * time.Second} {
		if got := parkLimit(interval); got != want {
			t.Errorf("interval %v: parked for %v, want %v", interval, got, want)
		}
	}
}

// TestS13_WhatAParkedStreamIsAskedAgain: its instance may have ended, and its agent may have
// come back by itself; then the newer stream stays.
func TestS13_WhatAParkedStreamIsAskedAgain(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		gone, twice := a.registered(), a.registered()
		one, two := a.greeted(gone), a.greeted(twice)
		a.stop(lease.ErrNotLeader)
		b := p.lead()
		b.ends(gone.id, true)
		newer := b.greeted(twice)
		b.Resume()
		one.expect(t, refusal.PermissionDenied)
		two.expect(t, refusal.Aborted)
		if ended, err := newer.ended(); ended {
			t.Errorf("the newer stream ended with %v", err)
		}
		b.expect("the newer one alone", "connect", "up", "greet")
		b.stop(context.Canceled)
	})
}

// TestS2_ARenewalAcrossTerms: it was under way when the lease was lost. Its certificate does
// not leave, and the next one does.
func TestS2_ARenewalAcrossTerms(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		m := a.registered()
		o := a.greeted(m)
		o.heard()
		p.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut {
				return memory.Fault{Latency: time.Minute}
			}
			return memory.Fault{}
		})
		o.say(renew(t, m.key))
		synctest.Wait()
		a.stop(lease.ErrNotLeader)
		p.store.SetFaults(nil)
		b := p.lead()
		b.Resume()
		time.Sleep(2 * time.Minute)
		for _, msg := range o.heard() {
			if len(msg.GetRenewed().GetClientCertificatePem()) > 0 {
				t.Error("a certificate of the term before has left")
			}
		}
		o.say(renew(t, m.key))
		heard := o.heard()
		if len(heard) != 1 || len(heard[0].GetRenewed().GetClientCertificatePem()) == 0 {
			t.Fatalf("the renewal after that: %v", heard)
		}
		next := certified(t, heard[0].GetRenewed().ClientCertificatePem)
		if rec := b.record(m.id); rec.Certificate.Serial != next.Serial || rec.Certificate.PreviousSerial != m.peer.Serial {
			t.Errorf("recorded %+v, want %s after %s", rec.Certificate, next.Serial, m.peer.Serial)
		}
		b.stop(context.Canceled)
	})
}

// TestS22_OneAgentsMessageEndsNoServer: dealing with it panics.
func TestS22_OneAgentsMessageEndsNoServer(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m, other := a.registered(), a.registered()
		o, fine := a.greeted(m), a.greeted(other)
		a.onCall = func(call string) {
			if call == "heard" {
				panic("of a test")
			}
		}
		o.say(report(m.id, 1))
		o.expect(t, refusal.Internal)
		if ended, err := fine.ended(); ended {
			t.Errorf("another stream ended with %v", err)
		}
	})
}

// TestS9_ANonceIsGoodForOneKey: its use is durable before the certificate leaves; a repeat
// with that key is answered again, and another key is a theft.
func TestS9_ANonceIsGoodForOneKey(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		m := a.machine()
		if !a.OutstandingNonce(m.nonce) || a.OutstandingNonce(m.nonce+"x") {
			t.Error("the nonce is not outstanding, or another one is")
		}
		if err := a.enrols(m); err != nil {
			t.Fatal(err)
		}
		if a.OutstandingNonce(m.nonce) {
			t.Error("F41: a nonce that was used is outstanding")
		}
		if rec := a.record(m.id); rec.Status != layout.StatusRegistered || rec.PublicKeyPEM != string(publicPEM(t, m.key)) || rec.Certificate.Serial != m.peer.Serial {
			t.Errorf("the record is %+v", rec)
		}
		a.expect("a registration", "registered")
		first, since := m.peer, a.record(m.id).RegisteredAt
		time.Sleep(time.Minute)
		if err := a.enrols(m); err != nil || m.peer.Serial == first.Serial {
			t.Errorf("a repeat: %v, serial %s", err, m.peer.Serial)
		}
		a.expect("a repeat", "registered")
		if again := a.record(m.id).RegisteredAt; again != since {
			t.Errorf("it is registered since %v, want %v", again, since)
		}
		if n := testutil.ToFloat64(a.opts.Metrics.certificates.WithLabelValues()); n != 2 {
			t.Errorf("%v certificates are counted, want 2", n)
		}
		for _, peer := range []identity.Peer{first, m.peer} {
			if err := a.Admit(peer); err != nil {
				t.Errorf("certificate %s: %v", peer.Serial, err)
			}
		}
		thief := &machine{id: m.id, nonce: m.nonce, key: newKey(t)}
		for range 2 {
			if err := a.enrols(thief); !refusedWith(err, refusal.AlreadyExists) {
				t.Errorf("another key: %v", err)
			}
		}
		if failed := a.failed(); len(failed) != 1 || !strings.HasPrefix(failed[0], "auth: ") {
			t.Errorf("the tenant was told %q, want one alarm", failed)
		}
		a.stop(context.Canceled)
		b := p.lead()
		if err := b.enrols(thief); !refusedWith(err, refusal.AlreadyExists) {
			t.Errorf("another key, to the next leader: %v", err)
		}
		if err := b.enrols(m); err != nil {
			t.Errorf("the same key, to the next leader: %v", err)
		}
		b.stop(context.Canceled)
	})
}

// TestS10_RegistrationsThatAreRefused: each for its own reason, of which the caller hears
// nothing.
func TestS10_RegistrationsThatAreRefused(t *testing.T) {
	stranger, err := identity.NewID("vmx")
	if err != nil {
		t.Fatal(err)
	}
	sign := func(p *post, m *machine, change func(*identity.NonceClaims)) {
		c := claims(m.id)
		change(&c)
		m.nonce = p.sign(c)
	}
	row := func(a *term, m *machine, change func(*cache.Instance)) {
		if _, err := a.instances.Note(m.id, func(in *cache.Instance) error { change(in); return nil }); err != nil {
			t.Error(err)
		}
	}
	// as has the nonce of a machine replaced by one with other claims, of which the row knows.
	as := func(change func(*identity.NonceClaims)) func(*post, *term, *machine) {
		return func(p *post, a *term, m *machine) {
			sign(p, m, change)
			row(a, m, func(in *cache.Instance) { in.NonceSHA256 = pki.HashNonce(m.nonce) })
		}
	}
	for name, c := range map[string]struct {
		change func(*post, *term, *machine)
		want   refusal.Code
	}{
		"another nonce of the instance": {func(p *post, _ *term, m *machine) { sign(p, m, func(*identity.NonceClaims) {}) }, refusal.PermissionDenied},
		"another shard":                 {as(func(c *identity.NonceClaims) { c.Shard = "s2" }), refusal.PermissionDenied},
		"another tenant":                {as(func(c *identity.NonceClaims) { c.Tenant = "b" }), refusal.PermissionDenied},
		"no tenant of the shard":        {as(func(c *identity.NonceClaims) { c.Tenant = "c" }), refusal.PermissionDenied},
		"another group":                 {as(func(c *identity.NonceClaims) { c.Group = "db" }), refusal.PermissionDenied},
		"another cluster":               {as(func(c *identity.NonceClaims) { c.ClusterID = "other" }), refusal.PermissionDenied},
		"another kind of instance": {as(func(c *identity.NonceClaims) {
			c.Subject = "abc" + strings.TrimPrefix(c.Subject, "vmx")
		}), refusal.PermissionDenied},
		"an instance that nobody knows": {as(func(c *identity.NonceClaims) { c.Subject = stranger.String() }), refusal.PermissionDenied},
		"an operator's": {as(func(c *identity.NonceClaims) {
			*c = identity.NonceClaims{Kind: identity.NonceOperator, Subject: "test", ClusterID: "test", Tenant: c.Tenant, IssuedAt: c.IssuedAt, ExpiresAt: c.ExpiresAt}
		}), refusal.PermissionDenied},
		"a time still to come":       {as(func(c *identity.NonceClaims) { c.NotBefore = c.IssuedAt + 600; c.ExpiresAt += 600 }), refusal.PermissionDenied},
		"too late":                   {func(*post, *term, *machine) { time.Sleep(2*time.Minute + identity.NonceLeeway) }, refusal.PermissionDenied},
		"an instance that has ended": {func(_ *post, a *term, m *machine) { a.ends(m.id, true) }, refusal.PermissionDenied},
		"an instance that is to go": {func(_ *post, a *term, m *machine) {
			row(a, m, func(in *cache.Instance) { in.State = fleet.Condemned })
		}, refusal.PermissionDenied},
		"one that is to go by its record alone": {func(_ *post, a *term, m *machine) {
			before, _ := a.opts.Cache.Instance(m.id)
			a.ends(m.id, false)
			row(a, m, func(in *cache.Instance) { in.State = before.State })
		}, refusal.PermissionDenied},
		"no leader any more": {func(_ *post, a *term, _ *machine) { a.end(lease.ErrNotLeader) }, refusal.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			atPost(t, func(t *testing.T, p *post, a *term) {
				m := a.machine()
				c.change(p, a, m)
				err := a.enrols(m)
				if !refusedWith(err, c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				if refused := (*refusal.Error)(nil); c.want == refusal.PermissionDenied && errors.As(err, &refused) && refused.Message != "registration refused" {
					t.Errorf("F42: the refusal says %q", refused.Message)
				}
			})
		})
	}
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.machine()
		_, err := a.Register(t.Context(), netip.MustParseAddr("10.0.0.1"), &nstancev1.RegisterClientRequest{
			RegistrationNonceJwt: m.nonce, PublicKeyPem: publicPEM(t, m.key), Proof: identity.SignProof(newKey(t), m.nonce),
		})
		if !refusedWith(err, refusal.InvalidArgument) {
			t.Errorf("a proof by another key: %v", err)
		}
	})
}

// TestF42_WhatIsNoNonceIsRefusedAlike: whatever is wrong with it.
func TestF42_WhatIsNoNonceIsRefusedAlike(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.machine()
		middle := len(m.nonce) - 40 // of the signature
		other := "A"
		if m.nonce[middle] == 'A' {
			other = "B"
		}
		for _, token := range []string{"", "x", m.nonce + "x", strings.Repeat("a", 1<<20), m.nonce[:middle] + other + m.nonce[middle+1:]} {
			err := a.enrols(&machine{id: m.id, nonce: token, key: m.key})
			var refused *refusal.Error
			if !errors.As(err, &refused) || refused.Code != refusal.PermissionDenied || refused.Message != "registration refused" {
				t.Errorf("%.20q: got %v, want the one refusal", token, err)
			}
		}
	})
}

// TestWhyIsForTheLog: the error has the reason, and the instance where one is named, though the caller is told neither.
func TestWhyIsForTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		nonce func(p *post, a *term, m *machine) string
		want  func(m *machine) string
	}{
		"it is too late": {func(_ *post, _ *term, m *machine) string {
			time.Sleep(2*time.Minute + identity.NonceLeeway)
			return m.nonce
		}, func(*machine) string { return "token is expired" }},
		"it is signed by a key that is gone": {func(_ *post, _ *term, m *machine) string {
			signer, err := pki.NewNonceSigner([]ed25519.PrivateKey{newKey(t)}, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			token, err := signer.Sign(claims(m.id))
			if err != nil {
				t.Fatal(err)
			}
			return token
		}, func(*machine) string { return "is not one of ours" }},
		"the instance has ended": {func(_ *post, a *term, m *machine) string {
			a.ends(m.id, true)
			return m.nonce
		}, func(m *machine) string { return "instance " + m.id.String() + " does not exist or is being deleted" }},
		"another nonce": {func(p *post, _ *term, m *machine) string { return p.sign(claims(m.id)) },
			func(m *machine) string { return "another nonce was made for instance " + m.id.String() }},
	} {
		t.Run(name, func(t *testing.T) {
			atPost(t, func(t *testing.T, p *post, a *term) {
				m := a.machine()
				err := a.enrols(&machine{id: m.id, nonce: c.nonce(p, a, m), key: m.key})
				if want := c.want(m); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			})
		})
	}
}

// TestF41_AnOldNonceIsNoPass: only a nonce with which somebody may still register is let past
// the limits of registration.
func TestF41_AnOldNonceIsNoPass(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.machine()
		time.Sleep(2*time.Minute + identity.NonceLeeway - time.Millisecond)
		if !a.OutstandingNonce(m.nonce) {
			t.Error("it is over too early")
		}
		time.Sleep(2 * time.Millisecond)
		if a.OutstandingNonce(m.nonce) {
			t.Error("the nonce that has expired passes")
		}
	})
}

// TestS9_OneOfManyKeysAtOnce: of those who come with one nonce at the same time one registers.
func TestS9_OneOfManyKeysAtOnce(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		m := a.machine()
		p.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: 100 * time.Millisecond} })
		var tries sync.WaitGroup
		var won atomic.Int64
		for range 8 {
			rival := &machine{id: m.id, nonce: m.nonce, key: newKey(t)}
			tries.Go(func() {
				if a.enrols(rival) == nil {
					won.Add(1)
				}
			})
		}
		tries.Wait()
		p.store.SetFaults(nil)
		if won.Load() != 1 {
			t.Errorf("%d of 8 keys got a certificate for one nonce, want 1", won.Load())
		}
	})
}

// TestS9_NoCertificateWithoutARecord: storage does not answer, or the lease is lost while it
// does.
func TestS9_NoCertificateWithoutARecord(t *testing.T) {
	for name, hook := range map[string]func(*post, *term) memory.Fault{
		"not written":       func(*post, *term) memory.Fault { return memory.Fault{Before: errors.New("away")} },
		"the lease is lost": func(_ *post, a *term) memory.Fault { a.end(lease.ErrNotLeader); return memory.Fault{} },
	} {
		t.Run(name, func(t *testing.T) {
			atPost(t, func(t *testing.T, p *post, a *term) {
				m := a.machine()
				p.store.SetFaults(func(c memory.Call) memory.Fault {
					if c.Op == memory.OpPut {
						return hook(p, a)
					}
					return memory.Fault{}
				})
				if err := a.enrols(m); !refusedWith(err, refusal.Unavailable) {
					t.Errorf("got %v, want Unavailable", err)
				}
				p.store.SetFaults(nil)
			})
			atPost(t, func(t *testing.T, p *post, a *term) {
				m := a.registered()
				p.store.SetFaults(func(c memory.Call) memory.Fault {
					if c.Op == memory.OpPut {
						return hook(p, a)
					}
					return memory.Fault{}
				})
				if _, err := a.renewal(m.id, m.peer.Serial, publicPEM(t, m.key)); err == nil {
					t.Error("a certificate was renewed")
				}
				p.store.SetFaults(nil)
			})
		})
	}
}

// TestF40_RenewalsKeepTheKey: and the certificate before stays good.
func TestF40_RenewalsKeepTheKey(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		o := a.greeted(m)
		o.heard()
		o.say(renew(t, newKey(t)))
		if answer := o.heard()[0].GetRenewed(); answer.GetCode() != string(refusal.PermissionDenied) || len(a.failed()) != 1 {
			t.Errorf("another key: %v, alarms %q", answer, a.failed())
		}
		o.say(renew(t, m.key))
		next := certified(t, o.heard()[0].GetRenewed().GetClientCertificatePem())
		for _, peer := range []identity.Peer{m.peer, next} {
			if err := a.Admit(peer); err != nil {
				t.Errorf("certificate %s: %v", peer.Serial, err)
			}
		}
		o.say(renew(t, m.key))
		if answer := o.heard()[0].GetRenewed(); answer.GetCode() != string(refusal.ResourceExhausted) {
			t.Errorf("the third renewal within a minute: %v", answer)
		}
	})
}

// TestF40_ASupersededCertificate: a thief with certificate and key renews twice. The machine's
// own next attempt is refused, and raises one alarm that names it.
func TestF40_ASupersededCertificate(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		thief := &machine{id: m.id, key: m.key, peer: m.peer}
		for range 2 {
			o := a.greeted(thief)
			o.heard()
			o.say(renew(t, m.key))
			thief.peer = certified(t, o.heard()[0].GetRenewed().GetClientCertificatePem())
			o.cut()
			time.Sleep(time.Minute)
		}
		if failed := a.failed(); len(failed) > 0 {
			t.Errorf("alarms before two have shown themselves: %q", failed)
		}
		for range 3 {
			a.open(m).expect(t, refusal.PermissionDenied)
			time.Sleep(5 * time.Second)
		}
		if failed := a.failed(); len(failed) != 1 || !strings.HasPrefix(failed[0], "auth: ") {
			t.Errorf("alarms: %q, want one", failed)
		}
	})
}

// TestAStreamEndsWithItsCertificate: whatever the agent says meanwhile.
func TestAStreamEndsWithItsCertificate(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		m.peer.NotAfter = time.Now().Add(30 * time.Second)
		o := a.greeted(m)
		time.Sleep(30*time.Second - time.Millisecond)
		if ended, err := o.ended(); ended {
			t.Errorf("ended too early, with %v", err)
		}
		time.Sleep(time.Millisecond)
		o.expect(t, refusal.Unauthenticated)
	})
}

// TestS22_AnAgentIsHeardAtItsPace: what one says faster waits in the network; nothing is lost.
func TestS22_AnAgentIsHeardAtItsPace(t *testing.T) {
	keys := &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{PublicKeys: &nstancev1.PublicKeys{RequestId: "k"}}}
	for name, c := range map[string]struct {
		say   func(m *machine, n int64) *nstancev1.AgentMessage
		least time.Duration // for 25 messages
	}{
		"reports": {func(m *machine, n int64) *nstancev1.AgentMessage { return report(m.id, n) }, 9 * time.Second},
		"keys":    {func(*machine, int64) *nstancev1.AgentMessage { return keys }, 19 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			atPost(t, func(t *testing.T, p *post, a *term) {
				m := a.registered()
				o := a.greeted(m)
				begun := time.Now()
				for n := range 25 {
					o.say(c.say(m, int64(n+1)))
				}
				if took := time.Since(begun); took < c.least {
					t.Errorf("25 messages were heard in %v, want at least %v", took, c.least)
				}
				time.Sleep(5 * time.Second)
				if h, _ := p.cache.Health(m.id); name == "reports" && h.Count != 25 {
					t.Errorf("the last report that was heard is %d", h.Count)
				}
				if ended, err := o.ended(); ended {
					t.Errorf("the stream ended with %v", err)
				}
			})
		})
	}
}

// TestS11_WhoIsAdmitted: the owner of the certificate in force, whose key is the record's.
func TestS11_WhoIsAdmitted(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		for name, change := range map[string]func(*identity.Peer){
			"another cluster":  func(p *identity.Peer) { p.Cluster = "other" },
			"another shard":    func(p *identity.Peer) { p.Shard = "s2" },
			"another tenant":   func(p *identity.Peer) { p.Tenant = "b" },
			"another instance": func(p *identity.Peer) { p.ID = "vmx0" },
			"another serial":   func(p *identity.Peer) { p.Serial = "1" },
			"no serial":        func(p *identity.Peer) { p.Serial = "" },
			"another key":      func(p *identity.Peer) { p.Key[0]++ },
		} {
			peer := m.peer
			change(&peer)
			if err := a.Admit(peer); !refusedWith(err, refusal.PermissionDenied) {
				t.Errorf("%s: %v, want PermissionDenied", name, err)
			}
		}
		otherKey := func(said string) bool { return strings.Contains(said, "whose key is not the instance's") }
		if failed := a.failed(); !slices.ContainsFunc(failed, otherKey) {
			t.Errorf("F43: the tenant was told %q, want of the other key", failed)
		}
		if err := a.Admit(m.peer); err != nil {
			t.Errorf("the owner: %v", err)
		}
	})
}

func TestAdoptedKnowsOnlyAdoption(t *testing.T) {
	registered := fleet.Instance{RegisteredAt: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)}
	for name, c := range map[string]struct {
		row  cache.Instance
		want bool
	}{
		"not registered":         {cache.Instance{}, false},
		"registered":             {cache.Instance{Instance: registered, CertSerial: "01"}, false},
		"adopted, not seen":      {cache.Instance{Instance: registered}, true},
		"adopted, and connected": {cache.Instance{Instance: registered, CertSerial: "02"}, false},
	} {
		if got := adopted(c.row); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestF33_NoticeOfAnOddAgent(t *testing.T) {
	for name, c := range map[string]struct {
		in   *nstancev1.TerminationNotice
		want fleet.Notice
	}{
		"none":              {nil, fleet.Notice{}},
		"without an action": {&nstancev1.TerminationNotice{Deadline: timestamppb.New(time.Unix(5, 0))}, fleet.Notice{}},
		"without a time":    {&nstancev1.TerminationNotice{Action: "terminate"}, fleet.Notice{Action: "terminate"}},
		"with a time":       {&nstancev1.TerminationNotice{Action: "stop", Deadline: timestamppb.New(time.Unix(5, 0))}, fleet.Notice{Action: "stop", Deadline: time.Unix(5, 0).UTC()}},
		"with no real time": {&nstancev1.TerminationNotice{Action: "stop", Deadline: &timestamppb.Timestamp{Seconds: -1 << 60}}, fleet.Notice{Action: "stop"}},
		"with an odd text":  {&nstancev1.TerminationNotice{Action: "stop\n\x00"}, fleet.Notice{Action: "stop??"}},
	} {
		if got := noticeOf(c.in); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestS22_AlarmsAreBounded(t *testing.T) {
	var all thefts
	now := time.Unix(1_700_000_000, 0)
	for range 3 * alarmsRemembered {
		id, err := identity.NewID("wrk")
		if err != nil {
			t.Fatal(err)
		}
		if !all.due(alarmKey{id, alarmSuperseded}, now) {
			t.Fatal("an alarm is kept back that was never told")
		}
	}
	if len(all.told) > alarmsRemembered {
		t.Errorf("%d alarms are remembered", len(all.told))
	}
	again := alarmKey{"wrk", alarmNewKey}
	now = now.Add(alarmEvery)
	if !all.due(again, now) || all.due(again, now.Add(alarmEvery-1)) || !all.due(again, now.Add(alarmEvery)) {
		t.Error("one sign is not told once in its time")
	}
	if len(all.told) != 1 {
		t.Errorf("%d alarms are remembered after their time", len(all.told))
	}
}

func TestS22_PaceFollowsTheInterval(t *testing.T) {
	for interval, want := range map[time.Duration]int{time.Minute: 2, 0: 2, time.Second: 2, 100 * time.Millisecond: 20} {
		if got := newPace(interval, false).reports.Limit(); int(got+0.5) != want {
			t.Errorf("interval %v: %v reports a second, want %d", interval, got, want)
		}
	}
}
