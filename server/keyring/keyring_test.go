package keyring

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

func encryptionKey(t *testing.T, fill string) secrets.Key {
	t.Helper()
	key, err := secrets.NewKey([]byte(strings.Repeat(fill, secrets.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// keyWorld is a cluster whose keys servers read from the same storage.
type keyWorld struct {
	objects objectstore.Store
	keys    []secrets.Key // of encryption, as a source has them at the moment
	log     sharedLog
}

// sharedLog is what several servers log, to be read when they pause.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newKeyWorld(t *testing.T, objects objectstore.Store) *keyWorld {
	t.Helper()
	w := &keyWorld{objects: objects, keys: []secrets.Key{encryptionKey(t, "a")}}
	opts := pki.Options{Create: true}
	store := w.store(t)
	if _, err := pki.EnsureCA(t.Context(), store, objects, "dev", pki.CATemplate{}, opts); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureNonceKeys(t.Context(), store, opts); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *keyWorld) store(t *testing.T) *secrets.Sealed {
	t.Helper()
	store, err := secrets.NewSealed(w.objects, "", w.keys)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// server starts a keyring, which ends with the test.
func (w *keyWorld) server(t *testing.T) *Keyring {
	t.Helper()
	k := &Keyring{
		cluster: "dev", store: w.objects, secrets: w.store(t), log: slog.New(slog.NewTextHandler(&w.log, nil)), now: time.Now,
		open:  func(context.Context) (secrets.Store, error) { return secrets.NewSealed(w.objects, "", w.keys) },
		ready: make(chan struct{}), try: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	<-k.ready
	return k
}

func (w *keyWorld) change(t *testing.T, change func([]pki.NonceKey) []pki.NonceKey) {
	t.Helper()
	keys, err := pki.ReadNonceKeys(t.Context(), w.store(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteNonceKeys(t.Context(), w.store(t), change(keys)); err != nil {
		t.Fatal(err)
	}
}

func nonceOf(t *testing.T, keys *pki.Keys) string {
	t.Helper()
	token, err := keys.Nonces.Sign(identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: "dev", ClusterID: "dev", Tenant: "default",
		IssuedAt: time.Now().Unix(), ExpiresAt: time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestANewNonceKeyComesIntoForceWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newKeyWorld(t, memory.New(memory.Options{}))
		early, late := w.server(t), (*Keyring)(nil)
		time.Sleep(keyRefresh / 2)
		late = w.server(t) // its looks lie between those of the other
		agree := func(when string) {
			for _, signer := range []*Keyring{early, late} {
				for _, verifier := range []*Keyring{early, late} {
					if _, err := verifier.Current().Verifier.Verify(nonceOf(t, signer.Current()), time.Now()); err != nil {
						t.Errorf("%s: %v", when, errors.Unwrap(err))
					}
				}
			}
		}
		first := early.Current().Nonces.KeyID()
		before := nonceOf(t, early.Current())
		w.change(t, func(keys []pki.NonceKey) []pki.NonceKey {
			next, err := pki.AnnounceNonceKey(keys, time.Now(), func() (ed25519.PrivateKey, error) { return pki.NewPrivateKey(nil) })
			if err != nil {
				t.Fatal(err)
			}
			return next
		})
		for range 4 {
			time.Sleep(keyRefresh / 2)
			agree("announced")
		}
		w.change(t, func(keys []pki.NonceKey) []pki.NonceKey {
			next, _ := pki.PromoteNonceKey(keys, time.Now(), keyRefresh)
			return next
		})
		for range 4 {
			time.Sleep(keyRefresh / 2)
			agree("promoted")
		}
		if early.Current().Nonces.KeyID() == first || late.Current().Nonces.KeyID() == first {
			t.Error("the old key still signs")
		}
		if _, err := early.Current().Verifier.Verify(before, time.Now()); err != nil {
			t.Errorf("a nonce of the old key is refused: %v", err)
		}
		w.change(t, func(keys []pki.NonceKey) []pki.NonceKey { return pki.PruneNonceKeys(keys, time.Now(), 0) })
		early.look()
		synctest.Wait()
		if _, err := early.Current().Verifier.Verify(before, time.Now()); err == nil {
			t.Error("a nonce of a key that is gone is accepted")
		}
		if authority := early.Current().Authority; authority == nil {
			t.Error("the authority is gone")
		}
	})
}

func TestKeysStayWhateverHappensInStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := memory.New(memory.Options{})
		w := newKeyWorld(t, objects)
		k := w.server(t)
		before := k.Current()
		objects.Down(true)
		time.Sleep(3 * keyRefresh)
		objects.Down(false)
		if err := w.store(t).Put(t.Context(), pki.NonceKeySecret, secrets.Secret("no key"), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * keyRefresh)
		if err := w.store(t).Delete(t.Context(), pki.NonceKeySecret); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * keyRefresh)
		synctest.Wait()
		if k.Current() != before {
			t.Error("the keys are others")
		}
		if !strings.Contains(w.log.String(), "those before stay in force") {
			t.Errorf("nobody is told; log:\n%s", w.log.String())
		}
	})
}

func TestANewEncryptionKeyIsReadFromItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newKeyWorld(t, memory.New(memory.Options{}))
		k := w.server(t)
		w.keys = []secrets.Key{encryptionKey(t, "b"), encryptionKey(t, "a")}
		if changed, err := w.store(t).Reseal(t.Context(), pki.NonceKeySecret); err != nil || !changed {
			t.Fatalf("changed %v, %v", changed, err)
		}
		w.change(t, func(keys []pki.NonceKey) []pki.NonceKey {
			key, err := pki.NewPrivateKey(nil)
			if err != nil {
				t.Fatal(err)
			}
			return append([]pki.NonceKey{{Key: key}}, keys...)
		})
		first := k.Current().Nonces.KeyID()
		time.Sleep(2 * keyRefresh)
		synctest.Wait()
		if k.Current().Nonces.KeyID() == first {
			t.Errorf("the new key is not in force; log:\n%s", w.log.String())
		}
	})
}

func TestS14_TheKeyringLogsNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newKeyWorld(t, memory.New(memory.Options{}))
		w.server(t)
		const marked = "-----BEGIN PRIVATE KEY-----\nMARKED\n-----END PRIVATE KEY-----\n"
		if err := w.store(t).Put(t.Context(), pki.NonceKeySecret, secrets.Secret(marked), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * keyRefresh)
		synctest.Wait()
		if log := w.log.String(); !strings.Contains(log, "keys not read again") || strings.Contains(log, "MARKED") {
			t.Errorf("log:\n%s", log)
		}
	})
}
