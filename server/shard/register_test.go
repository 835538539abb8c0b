package shard

import (
	"crypto/ed25519"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
)

// withMachine runs a test with one VM in which nobody has registered.
func withMachine(t *testing.T, test func(t *testing.T, w *world, id identity.ID, nonce string)) {
	t.Helper()
	inWorld(t, worldOptions{DeadAgents: true}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Second)
		vm := w.vms(web)[0]
		test(t, w, vm.InstanceID, string(vm.Request.UserData))
	})
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicPEM(t *testing.T, key ed25519.PrivateKey) []byte {
	t.Helper()
	text, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestF39_NonceIsGoodForOneKey(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		mine, thief := newKey(t), newKey(t)
		if _, err := register(w.reign(), nonce, mine); err != nil {
			t.Fatal(err)
		}
		check := func(when string) {
			t.Helper()
			if _, err := register(w.reign(), nonce, thief); !refusedWith(err, refusal.AlreadyExists) {
				t.Errorf("%s: another key: %v, want AlreadyExists", when, err)
			}
			if peer, err := register(w.reign(), nonce, mine); err != nil || peer.ID != id {
				t.Errorf("%s: the same key again: %v, %v", when, peer, err)
			}
		}
		check("on the same server")
		w.stop()
		w.lead()
		check("after a take-over with an empty cache")
		if log := w.logs.String(); strings.Contains(log, nonce) {
			t.Error("S14: the nonce stands in the log")
		}
	})
}

func TestS9_TwoKeysAtOnce(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, _ identity.ID, nonce string) {
		w.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: 100 * time.Millisecond} })
		var tries sync.WaitGroup
		won := make(chan identity.Peer, 8)
		for range 8 {
			key := newKey(t)
			tries.Go(func() {
				if peer, err := register(w.reign(), nonce, key); err == nil {
					won <- peer
				}
			})
		}
		tries.Wait()
		if len(won) != 1 {
			t.Errorf("%d of 8 keys got a certificate for one nonce, want 1", len(won))
		}
	})
}

func TestF15_CrashWhileRegistering(t *testing.T) {
	for _, when := range []moment{beforeCall, answerLost, afterAnswer} {
		t.Run(when.String(), func(t *testing.T) {
			withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
				mine, thief := newKey(t), newKey(t)
				w.life.dieAt(1, when)
				_, err := register(w.reign(), nonce, mine)
				if err == nil { // S2: after the answer, the lease is over
					t.Errorf("a certificate left a server that died %v", when)
				}
				w.stop()
				w.lead()
				if _, err := register(w.reign(), nonce, mine); err != nil {
					t.Errorf("the same key after the crash: %v", err)
				}
				if _, err := register(w.reign(), nonce, thief); !refusedWith(err, refusal.AlreadyExists) {
					t.Errorf("another key after the crash: %v, want AlreadyExists", err)
				}
			})
		})
	}
}

func TestRegistrationThatCannotBeStoredIssuesNothing(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut {
				return memory.Fault{Before: objectstore.ErrUnavailable}
			}
			return memory.Fault{}
		})
		if _, err := register(w.reign(), nonce, newKey(t)); !refusedWith(err, refusal.Unavailable) {
			t.Errorf("got %v, want Unavailable", err)
		}
		w.store.SetFaults(nil)
		if rec := w.records()[0]; rec.Status == bucket.StatusRegistered || rec.PublicKeyPEM != "" {
			t.Errorf("the record says %+v", rec)
		}
		if _, err := register(w.reign(), nonce, newKey(t)); err != nil {
			t.Errorf("once storage is back: %v", err)
		}
	})
}

// TestF41_AnOldNonceIsNoPass: only a nonce with which somebody may still register
// is let past the limits of registration.
func TestF41_AnOldNonceIsNoPass(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		if !w.reign().OutstandingNonce(nonce) || w.reign().OutstandingNonce(nonce+"x") {
			t.Error("the nonce of a machine that is starting has to pass, and no other")
		}
		w.store.Down(true) // nothing can be removed meanwhile
		w.settle(2*time.Minute + identity.NonceLeeway)
		if _, known := w.reign().instances.Known(id); !known || w.reign().OutstandingNonce(nonce) {
			t.Errorf("known: %t; the nonce that has expired passes", known)
		}
		w.store.Down(false)
		w.settle(time.Minute)
	})
}

func TestF41_AUsedNonceIsNoPass(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, _ identity.ID, nonce string) {
		if _, err := register(w.reign(), nonce, newKey(t)); err != nil {
			t.Fatal(err)
		}
		if w.reign().OutstandingNonce(nonce) {
			t.Error("a nonce that was used passes")
		}
	})
}

func TestS10_NonceIsBound(t *testing.T) {
	stranger, err := identity.NewID("vmx")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*identity.NonceClaims){
		"of another cluster":   func(c *identity.NonceClaims) { c.ClusterID = "other" },
		"of another shard":     func(c *identity.NonceClaims) { c.Shard = "s2" },
		"of another tenant":    func(c *identity.NonceClaims) { c.Tenant = "b" },
		"of no tenant of ours": func(c *identity.NonceClaims) { c.Tenant = "nobody" },
		"of another group":     func(c *identity.NonceClaims) { c.Group = "other" },
		"of another instance":  func(c *identity.NonceClaims) { c.Subject = stranger.String() },
		"of another kind of instance": func(c *identity.NonceClaims) {
			c.Subject = "abc" + strings.TrimPrefix(c.Subject, "vmx")
		},
		"of an operator": func(c *identity.NonceClaims) {
			*c = identity.NonceClaims{Kind: identity.NonceOperator, Subject: testCluster, ClusterID: testCluster, Tenant: c.Tenant,
				IssuedAt: c.IssuedAt, NotBefore: c.NotBefore, ExpiresAt: c.ExpiresAt}
		},
		"made a second time":      func(*identity.NonceClaims) {},
		"out of time":             func(c *identity.NonceClaims) { c.IssuedAt -= 600; c.NotBefore -= 600; c.ExpiresAt = c.IssuedAt + 300 },
		"of a time still to come": func(c *identity.NonceClaims) { c.IssuedAt += 600; c.NotBefore += 600; c.ExpiresAt += 600 },
	} {
		t.Run(name, func(t *testing.T) {
			withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
				claims, err := identity.DecodeNonceUnverified(nonce)
				if err != nil {
					t.Fatal(err)
				}
				claims.TokenID = ""
				change(&claims)
				forged, err := w.keys.Nonces.Sign(claims)
				if err != nil {
					t.Fatal(err)
				}
				_, err = register(w.reign(), forged, newKey(t))
				if !refusedWith(err, refusal.PermissionDenied) {
					t.Errorf("got %v, want PermissionDenied", err)
				}
				if _, err := register(w.reign(), nonce, newKey(t)); err != nil {
					t.Errorf("the true nonce is refused afterwards: %v", err)
				}
			})
		})
	}
}

func TestF42_RefusalsSayNothing(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		for _, token := range []string{"", "x", nonce + "x", strings.Repeat("a", 1<<20), otherSignature(nonce)} {
			_, err := register(w.reign(), token, newKey(t))
			refused, ok := errors.AsType[*refusal.Error](err)
			if !ok || refused.Code != refusal.PermissionDenied || refused.Message != errRegistration.Message {
				t.Errorf("%.20q: got %v, want the one refusal", token, err)
			}
		}
	})
}

// otherSignature changes a token in the middle of its signature.
func otherSignature(token string) string {
	i := len(token) - 40
	c := "A"
	if token[i] == 'A' {
		c = "B"
	}
	return token[:i] + c + token[i+1:]
}

func TestProofOfPossession(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		_, err := w.reign().RegisterAgent(w.ctx, netip.MustParseAddr("10.0.0.1"), &nstancev1.RegisterClientRequest{
			RegistrationNonceJwt: nonce, PublicKeyPem: publicPEM(t, newKey(t)), Proof: identity.SignProof(newKey(t), nonce),
		})
		if !refusedWith(err, refusal.InvalidArgument) {
			t.Errorf("a proof by another key: %v, want InvalidArgument", err)
		}
	})
}

func TestF40_TheftIsReported(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		if _, err := register(w.reign(), nonce, newKey(t)); err != nil {
			t.Fatal(err)
		}
		_, _ = register(w.reign(), nonce, newKey(t))
		found := false
		for _, e := range w.reign().cache.Errors("default") {
			found = found || e.Instance == id && strings.HasPrefix(e.Error, "auth: ")
		}
		if !found {
			t.Error("no error event says that a nonce came twice, with two keys")
		}
	})
}

func TestCondemnedInstanceCannotRegister(t *testing.T) {
	inWorld(t, worldOptions{DeadAgents: true}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Second)
		nonce := string(w.vms(web)[0].Request.UserData)
		w.scale(web, 0)
		w.settle(time.Second)
		if _, err := register(w.reign(), nonce, newKey(t)); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("got %v, want PermissionDenied", err)
		}
	})
}

// TestS6_RegistrationInTheLastMomentCounts: the decision that an agent does not come
// was made before it came.
func TestS6_RegistrationInTheLastMomentCounts(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		if _, err := register(w.reign(), nonce, newKey(t)); err != nil {
			t.Fatal(err)
		}
		r := w.reign()
		if err := r.condemn(r.ctx, fleet.Condemn{ID: id, Reason: fleet.ReasonRegistrationTimeout}); err != nil {
			t.Fatal(err)
		}
		if rec := w.records()[0]; rec.Deletion != nil {
			t.Errorf("it is condemned: %+v", rec.Deletion)
		}
	})
}
