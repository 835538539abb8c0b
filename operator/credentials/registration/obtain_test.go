package registration_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/operator/credentials/registration"
	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/protos/identity"
)

// peer returns who the stored certificate says that the operator is.
func (w *world) peer() identity.Peer {
	w.t.Helper()
	block, _ := pem.Decode(w.stored(certSecret, "tls.crt"))
	if block == nil {
		w.t.Fatal("no certificate is stored")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	who, err := identity.PeerFromCertificate(leaf)
	if err != nil {
		w.t.Fatal(err)
	}
	return who
}

func TestO1_TheFirstStartRegistersAndTheNextDoNot(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustStart()
		who := w.peer()
		if who.Cluster != w.ID || who.Tenant != tenant || who.Role != identity.RoleOperator {
			t.Errorf("it became %+v", who)
		}
		cert, err := w.store.Get(t.Context(), certSecret)
		if err != nil || cert.Type != "kubernetes.io/tls" || cert.Labels["nstance.dev/managed"] != "true" || len(cert.Owners) != 0 {
			t.Errorf("%v %q %v %v", err, cert.Type, cert.Labels, cert.Owners)
		}
		if string(cert.Data["tls.key"]) != string(w.stored(keySecret, "private.key")) {
			t.Error("the key beside the certificate is another one")
		}
		w.mustStart()
		if n := w.registrations(); n != 1 {
			t.Errorf("%d registrations, want 1", n)
		}
	})
}

// Each call to the store fails once, before it has an effect and after, as if the operator
// had been killed there.
func TestO1_ACrashAfterAnyStepCostsNothing(t *testing.T) {
	for _, late := range []bool{false, true} {
		for step, through := 1, false; !through; step++ {
			t.Run(fmt.Sprintf("step %d, after it %v", step, late), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					killed := errors.New("killed")
					w.store.Break(func(call int, _ string) (before, after error) {
						switch {
						case call != step:
							return nil, nil
						case late:
							return nil, killed
						}
						return killed, nil
					})
					_, err := w.start()
					if err == nil {
						through = true // there is no such step
						return
					}
					if !errors.Is(err, killed) {
						t.Errorf("it ended with %v", err)
					}
					w.store.Break(nil)
					w.mustStart()
					first := w.peer()
					w.mustStart()
					if again := w.peer(); again.ID != first.ID {
						t.Errorf("it was %v and became %v", first.ID, again.ID)
					}
				})
			})
		}
	}
}

func TestO1_ALostAnswerIsGivenAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{LoseAnswers: map[string]int{"RegisterOperator": 2}})
		w.mustStart()
		if n := w.Shard("a").Count("RegisterOperator"); n != 3 {
			t.Errorf("%d registrations, want 3", n)
		}
	})
}

func TestO1_TwoThatStartAtOnceAgreeOnOneKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if _, err := w.start(); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if string(w.stored(certSecret, "tls.key")) != string(w.stored(keySecret, "private.key")) {
			t.Error("the key beside the certificate is another one")
		}
	})
}

func TestO1_ANonceRegistersOneKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustStart()
		who := w.peer()
		w.store.Remove(certSecret)
		w.mustStart()
		if again := w.peer(); again.ID != who.ID {
			t.Errorf("with the same key it was %v and became %v", who.ID, again.ID)
		}
		w.store.Remove(certSecret)
		w.store.Remove(keySecret)
		if _, err := w.start(); !errors.Is(err, registration.ErrNonceUsed) || !registration.Final(err) {
			t.Errorf("with another key: %v", err)
		}
	})
}

func TestO1_WhereTheFirstShardDoesNotLeadTheNextIsAsked(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.SetLeader("b")
		w.mustStart()
		if a, b := w.Shard("a").Count("RegisterOperator"), w.Shard("b").Count("RegisterOperator"); a != 1 || b != 1 {
			t.Errorf("asked a %d times and b %d times", a, b)
		}
	})
}

func TestO1_NoShardAtAllIsRetriedThenFatal(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		down := shardtest.Refusal(14, "DOWN", "down")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"": down}})
		w.Shard("b").Break(shardtest.Faults{Refuse: map[string]error{"": down}})
		began := time.Now()
		_, err := w.start()
		if !errors.Is(err, registration.ErrNoShard) || !strings.HasPrefix(err.Error(), "no shard answered the registration: shard ") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took < 4*time.Minute || took > 5*time.Minute {
			t.Errorf("it gave up after %v", took)
		}
		if registration.Final(err) {
			t.Error("shards may come back")
		}
		back := time.AfterFunc(time.Minute, func() { w.Shard("a").Break(shardtest.Faults{}) })
		defer back.Stop()
		w.mustStart()
	})
}

// A shard that does not have the tenant says no, and another one may say yes: a refusal
// ends neither the round nor the attempts.
func TestO1_ARefusalOfOneShardIsNotTheLastWord(t *testing.T) {
	for _, refused := range []struct {
		name string
		err  error
	}{
		{"not configured there", shardtest.Refusal(7, "REGISTRATION_REFUSED", "registration refused")},
		{"not let in there", shardtest.Refusal(16, "BAD_CERTIFICATE", "bad")},
	} {
		t.Run(refused.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				no := shardtest.Faults{Refuse: map[string]error{"": refused.err}}
				w.SetLeader("b")
				w.Shard("a").Break(no)
				w.mustStart() // at the next shard

				w.store.Remove(certSecret)
				w.Shard("b").Break(no)
				back := time.AfterFunc(time.Minute, func() { w.Shard("b").Break(shardtest.Faults{}) })
				defer back.Stop()
				w.mustStart() // at the next round that is answered

				w.store.Remove(certSecret)
				w.Shard("b").Break(no)
				if _, err := w.start(); !errors.Is(err, registration.ErrRefused) || registration.Final(err) {
					t.Errorf("refused everywhere: %v, want a refusal that may pass", err)
				}
			})
		})
	}
}

func TestO1_ANonceThatHasEndedIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.putNonce(w.Nonce(tenant, time.Second))
		w.after(2 * time.Second)
		if _, err := w.start(); !errors.Is(err, registration.ErrRefused) || registration.Final(err) {
			t.Errorf("%v, want a refusal that a new nonce mends", err)
		}
	})
}

func TestO1_WhatBelongsToAnotherTenantIsFatalBeforeAnyCall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustStart()
		calls := len(w.Dials())
		o := w.operator()
		o.Tenant = "other"
		if err := registration.Obtain(t.Context(), o); !errors.Is(err, registration.ErrTenant) || !registration.Final(err) {
			t.Errorf("a certificate: %v", err)
		}
		w.store.Remove(certSecret)
		if err := registration.Obtain(t.Context(), o); !errors.Is(err, registration.ErrTenant) {
			t.Errorf("a nonce: %v", err)
		}
		if n := len(w.Dials()); n != calls {
			t.Errorf("%d calls were made", n-calls)
		}
	})
}

func TestO1_WhatNoRepetitionMends(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(w *world)
		want  error
	}{
		{"no nonce", func(w *world) { w.store.Remove(nonce) }, registration.ErrNoNonce},
		{"a Secret without one", func(w *world) { w.store.Put(secrets.Secret{Name: nonce}) }, registration.ErrNoNonce},
		{"something else", func(w *world) { w.putNonce("eyJhbGciOiJFZERTQSJ9.bm90LWEtbm9uY2U.AAAA") }, registration.ErrNoNonce},
		{"a key that cannot be read", func(w *world) {
			w.store.Put(secrets.Secret{Name: keySecret, Data: map[string][]byte{"private.key": []byte("not a key, but secret")}})
		}, registration.ErrUnusable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.log.secret("not a key, but secret")
				test.spoil(w)
				began := time.Now()
				_, err := w.start()
				if !errors.Is(err, test.want) || !registration.Final(err) {
					t.Errorf("%v, want %v", err, test.want)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it took %v to say so", took)
				}
			})
		})
	}
}

// A certificate that cannot be used is no reason to give up while there is a nonce.
func TestO1_AnUnusableCertificateIsReplaced(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(w *world, s *secrets.Secret)
	}{
		{"not a certificate", func(_ *world, s *secrets.Secret) { s.Data["tls.crt"] = []byte("x") }},
		{"of an authority that is not trusted", func(w *world, s *secrets.Secret) {
			other := shardtest.NewCluster(w.t)
			id, err := identity.NewID(identity.OperatorPrefix)
			if err != nil {
				w.t.Fatal(err)
			}
			s.Data["tls.crt"] = other.Issue(publicHalf(w.t, s.Data["tls.key"]), tenant, id)
		}},
		{"ends within the minute", func(w *world, _ *secrets.Secret) { w.after(720*time.Hour - 30*time.Second) }},
		{"no key", func(_ *world, s *secrets.Secret) { delete(s.Data, "tls.key") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.putNonce(w.Nonce(tenant, 10000*time.Hour))
				w.mustStart()
				who := w.peer()
				s, err := w.store.Get(t.Context(), certSecret)
				if err != nil {
					t.Fatal(err)
				}
				test.spoil(w, &s)
				w.store.Put(s)
				w.mustStart()
				if again := w.peer(); again.ID != who.ID {
					t.Errorf("it was %v and became %v", who.ID, again.ID)
				}
			})
		})
	}
}

func TestObtainEndsWithItsContext(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"": shardtest.Refusal(14, "DOWN", "down")}})
		w.SetLeader("a")
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if err := registration.Obtain(ctx, w.operator()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
