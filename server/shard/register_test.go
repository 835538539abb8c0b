package shard

import (
	"crypto/ed25519"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
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

func TestF15_CrashWhileRegistering(t *testing.T) {
	for _, when := range []moment{beforeCall, answerLost, afterAnswer} {
		t.Run(when.String(), func(t *testing.T) {
			withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
				mine, thief := newKey(t), newKey(t)
				w.life.dieAt(1, when)
				_, err := register(w.term(), nonce, mine)
				if err == nil { // S2: after the answer, the lease is over
					t.Errorf("a certificate left a server that died %v", when)
				}
				w.stop()
				w.lead()
				if _, err := register(w.term(), nonce, mine); err != nil {
					t.Errorf("the same key after the crash: %v", err)
				}
				if _, err := register(w.term(), nonce, thief); !refusedWith(err, refusal.AlreadyExists) {
					t.Errorf("another key after the crash: %v, want AlreadyExists", err)
				}
			})
		})
	}
}

// TestS6_RegistrationInTheLastMomentCounts: the decision that an agent does not come
// was made before it came.
func TestS6_RegistrationInTheLastMomentCounts(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
		if _, err := register(w.term(), nonce, newKey(t)); err != nil {
			t.Fatal(err)
		}
		r := w.term()
		if err := r.planner.removals.Condemn(r.leadership.ctx, fleet.Condemn{ID: id, Reason: fleet.ReasonRegistrationTimeout}); err != nil {
			t.Fatal(err)
		}
		if rec := w.records()[0]; rec.Deletion != nil {
			t.Errorf("it is condemned: %+v", rec.Deletion)
		}
	})
}
