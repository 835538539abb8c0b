package registration_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/operator/credentials/registration"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func publicHalf(t *testing.T, private []byte) ed25519.PublicKey {
	t.Helper()
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	edKey, _ := key.(ed25519.PrivateKey)
	public, _ := edKey.Public().(ed25519.PublicKey)
	return public
}

// states keeps the states of shards in the order in which they came.
type states struct {
	mu  sync.Mutex
	all []string
}

func (s *states) StateChanged(shard string, st shards.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, shard+" "+string(st.State))
}
func (*states) Removed(string)                                 {}
func (*states) GroupsListed(string, shards.GroupList)          {}
func (*states) InstancesListed(string, shards.InstanceList)    {}
func (*states) GroupEvent(string, *nstancev1.GroupEvent)       {}
func (*states) InstanceEvent(string, *nstancev1.InstanceEvent) {}

func (s *states) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.all, ", ")
	s.all = nil
	return out
}

// connect runs a set of both shards with an operator's identity until the test ends.
func (w *world) connect(o registration.Options) (*shards.Set, *states) {
	seen := &states{}
	set := shards.NewSet(shards.Options{
		Cluster: w.ID, Tenant: tenant, Credentials: o.Identity, Sink: seen, Streams: []shards.Stream{shards.WatchGroups(seen), shards.WatchInstances(seen)}, Dial: w.DialContext,
		Random: func() float64 { return 0.5 },
	})
	set.Apply(o.Shards())
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = set.Run(ctx) // the reason of ctx
	}()
	w.t.Cleanup(func() {
		stop()
		<-done
	})
	w.after(time.Second)
	return set, seen
}

func TestO1_TheCertificateIsRenewedWhileStreamsGoOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.SetCertificateLife(55 * time.Minute) // from five minutes before
		o := w.mustStart()
		set, seen := w.connect(o)
		seen.take()
		said := w.keep(&registration.Keeper{Options: o, Renew: registration.RenewVia(set), Redial: set.Redial})
		_, first := o.Identity.Validity()
		who := w.peer()

		w.after(34 * time.Minute)
		if _, until := o.Identity.Validity(); !until.Equal(first) {
			t.Fatal("renewed before two thirds of its life")
		}
		w.SetLeader("b")
		w.after(2 * time.Minute)
		if _, until := o.Identity.Validity(); !until.After(first) {
			t.Fatal("not renewed after two thirds of its life")
		}
		if renewed, warned := said.count(); renewed != 1 || warned != 0 {
			t.Errorf("reported %d renewals and %d warnings", renewed, warned)
		}
		if got, want := seen.take(), "a Syncing, a Ready, b Syncing, b Ready"; got != want {
			t.Errorf("shards went through %s, want %s", got, want)
		}
		if again := w.peer(); again.ID != who.ID {
			t.Errorf("it was %v and became %v", who.ID, again.ID)
		}
		w.mustStart() // with what was stored
		if n := w.registrations(); n != 1 {
			t.Errorf("%d registrations, want 1", n)
		}
	})
}

// broken renews nothing.
func broken(context.Context, []byte) ([]byte, error) {
	return nil, &shards.Error{Shard: "a", Method: "RenewCertificate", Class: shards.Unavailable, Err: errors.New("away")}
}

func TestO1_TheEndOfACertificateIsSaidLongBefore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.mustStart() // for 30 days
		said := w.keep(&registration.Keeper{Options: o, Renew: broken})
		w.after(26 * 24 * time.Hour)
		if _, warned := said.count(); warned != 0 {
			t.Errorf("%d warnings before the last tenth", warned)
		}
		w.after(3 * 24 * time.Hour)
		if _, warned := said.count(); warned < 6 || warned > 9 {
			t.Errorf("%d warnings two days into the last tenth, want one every six hours", warned)
		}
		if n := w.registrations(); n != 1 {
			t.Errorf("%d registrations: the nonce was used before", n)
		}
	})
}

func TestO1_AfterItsEndANewNonceRegistersANewKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.mustStart()
		who, key := w.peer(), string(w.stored(keySecret, "private.key"))
		said := w.keep(&registration.Keeper{Options: o, Renew: broken})
		w.after(31 * 24 * time.Hour)
		w.Shard("a").Break(shardtest.Faults{LoseAnswers: map[string]int{"RegisterOperator": 1}})
		w.issue()
		w.after(3 * time.Hour)
		if renewed, _ := said.count(); renewed != 1 {
			t.Errorf("%d renewals", renewed)
		}
		if again := w.peer(); again.ID == who.ID {
			t.Error("it has the identity of before")
		}
		if string(w.stored(keySecret, "private.key")) == key || string(w.stored(certSecret, "tls.key")) == key {
			t.Error("it has the key of before")
		}
		if _, until := o.Identity.Validity(); time.Until(until) < 29*24*time.Hour {
			t.Errorf("until %v", until)
		}
	})
}

// A crash between the new key and its certificate leaves the old certificate, which has
// its key beside it, and the nonce for the new key.
func TestO1_ACrashWhileRegisteringAnewCostsNothing(t *testing.T) {
	for step, through := 1, false; !through; step++ {
		t.Run(fmt.Sprintf("step %d", step), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				o := w.mustStart()
				w.after(28 * 24 * time.Hour) // critical, and still good
				w.issue()
				calls := w.store.Calls()
				hit := false
				w.store.Break(func(call int, _ string) (before, after error) {
					if call == calls+step {
						hit = true
						return nil, errors.New("killed")
					}
					return nil, nil
				})
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				k := &registration.Keeper{Options: o, Renew: broken, Report: func(registration.RenewalResult) { stop() }}
				_ = k.Run(ctx) // until its first report
				if !hit {
					through = true
					return
				}
				w.store.Break(nil)
				o = w.mustStart() // the old certificate, or the new one
				said := w.keep(&registration.Keeper{Options: o, Renew: broken})
				w.after(3 * time.Hour)
				if _, until := o.Identity.Validity(); time.Until(until) < 29*24*time.Hour {
					t.Errorf("until %v", until)
				}
				if _, warned := said.count(); warned > 1 {
					t.Errorf("%d warnings", warned)
				}
			})
		})
	}
}

// refusing is a shard that refuses the certificate, or none.
type refusing struct{ atomic.Bool }

func (r *refusing) shard() string {
	if r.Load() {
		return "a"
	}
	return ""
}

// An operator whose record was deleted is refused long before its certificate ends. With a new nonce it registers
// again at any time, without a restart, and without a Secret being deleted.
func TestO1_WhileItIsRefusedANewNonceRegistersANewKey(t *testing.T) {
	for name, age := range map[string]time.Duration{"young": time.Hour, "to be renewed": 22 * 24 * time.Hour, "in its last days": 29 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				o := w.mustStart() // for 30 days
				who, key := w.peer(), string(w.stored(keySecret, "private.key"))
				var refused refusing
				var redialled atomic.Int32
				said := w.keep(&registration.Keeper{
					Options: o, Renew: broken, Refused: refused.shard, Redial: func(context.Context) { redialled.Add(1); refused.Store(false) },
				})
				w.after(age)
				if n := w.registrations(); n != 1 {
					t.Fatalf("%d registrations with one nonce", n)
				}
				refused.Store(true)
				w.after(2 * time.Minute) // from now on it looks for a nonce
				w.issue()
				w.after(2 * time.Minute)
				if again := w.peer(); again.ID == who.ID || string(w.stored(keySecret, "private.key")) == key {
					t.Error("it has the identity or the key of before")
				}
				refused.Store(true) // and it has no nonce that is left
				w.after(time.Hour)
				if renewed, _ := said.count(); renewed != 1 || redialled.Load() != 1 {
					t.Errorf("%d new certificates, connected again %d times", renewed, redialled.Load())
				}
				if n := w.registrations(); n != 2 {
					t.Errorf("%d registrations, want 2", n)
				}
			})
		})
	}
}

// A nonce of which nothing can come is not shown to the servers again and again: an attempt is counted there, and
// an alert is about it.
func TestO1_ANonceThatIsOfNoUseIsNotTriedAgain(t *testing.T) {
	for name, put := range map[string]struct {
		nonce func(w *world)
		most  int
	}{
		"it has ended":                  {func(w *world) { w.putNonce(w.Nonce(tenant, time.Minute)) }, 0},
		"another operator has used it":  {func(w *world) { w.issue(); w.stranger() }, 1},
		"it is that of the certificate": {func(*world) {}, 0},
		"there is none in its Secret":   {func(w *world) { w.putNonce(strings.Repeat("nonsense", 4)) }, 0},
		"it is for another tenant":      {func(w *world) { w.putNonce(w.Nonce("other", time.Hour)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				o := w.mustStart()
				who := w.peer()
				put.nonce(w)
				w.after(2 * time.Minute)
				before := w.registrations()
				var refused refusing
				refused.Store(true)
				w.keep(&registration.Keeper{Options: o, Renew: broken, Refused: refused.shard})
				w.after(2 * time.Hour)
				if n := w.registrations() - before; n > put.most {
					t.Errorf("it was shown %d times, want %d at most", n, put.most)
				}
				w.issue()
				w.after(2 * time.Minute)
				if w.peer().ID == who.ID {
					t.Error("the next one is not used")
				}
			})
		})
	}
}

// The API server stores the certificate, and its answer is lost: the operator takes it from there.
func TestO1_ACertificateThatWasStoredUnheardIsTaken(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.mustStart()
		who := w.peer()
		w.issue()
		var refused refusing
		refused.Store(true)
		calls := 0
		w.store.Break(func(_ int, name string) (before, after error) {
			if name != certSecret {
				return nil, nil
			}
			if calls++; calls == 3 { // it was read twice: for the nonce, and to be written
				return nil, errors.New("timeout")
			}
			return nil, nil
		})
		said := w.keep(&registration.Keeper{Options: o, Renew: broken, Refused: refused.shard, Redial: func(context.Context) { refused.Store(false) }})
		w.after(5 * time.Minute)
		w.store.Break(nil)
		if renewed, _ := said.count(); renewed != 1 || w.registrations() != 2 || w.peer().ID == who.ID {
			t.Errorf("%d new certificates after %d registrations", renewed, w.registrations())
		}
	})
}
