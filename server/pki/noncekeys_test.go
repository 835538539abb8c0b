package pki_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

var rotationStart = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func freshKey() (ed25519.PrivateKey, error) { return pki.NewPrivateKey(nil) }

// reread is what the servers see of keys.
func reread(t *testing.T, keys []pki.NonceKey) []pki.NonceKey {
	t.Helper()
	data, err := pki.EncodeNonceKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pki.ParseNonceKeys(data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func private(keys []pki.NonceKey) []ed25519.PrivateKey {
	var out []ed25519.PrivateKey
	for _, k := range keys {
		out = append(out, k.Key)
	}
	return out
}

// accepts reports whether a server that knows some keys accepts what one signs
// that knows others.
func accepts(t *testing.T, server, signer []pki.NonceKey, now time.Time) bool {
	t.Helper()
	s, err := pki.NewNonceSigner(private(signer), nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.Sign(identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: "dev", ClusterID: "dev", Tenant: "default",
		IssuedAt: now.Unix(), ExpiresAt: now.Add(time.Hour).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = pki.NewNonceVerifier("dev", private(server)).Verify(token, now)
	return err == nil
}

func TestChangingTheNonceKeyRefusesNobody(t *testing.T) {
	first, err := freshKey()
	if err != nil {
		t.Fatal(err)
	}
	const settle, life = 3 * time.Minute, 24 * time.Hour
	now := rotationStart
	versions := [][]pki.NonceKey{{{Key: first}}}
	next := func(keys []pki.NonceKey) {
		versions = append(versions, reread(t, keys))
	}
	last := func() []pki.NonceKey { return versions[len(versions)-1] }

	announced, err := pki.AnnounceNonceKey(last(), now, freshKey)
	if err != nil {
		t.Fatal(err)
	}
	next(announced)
	if again, err := pki.AnnounceNonceKey(last(), now, freshKey); err != nil || len(again) != 2 {
		t.Errorf("announced twice: %d keys, %v", len(again), err)
	}
	now = now.Add(settle - time.Minute)
	if keys, wait := pki.PromoteNonceKey(last(), now, settle); wait != time.Minute || !keys[0].Key.Equal(first) {
		t.Errorf("too early: wait %v", wait)
	}
	now = now.Add(time.Minute)
	promoted, wait := pki.PromoteNonceKey(last(), now, settle)
	if wait != 0 || promoted[0].Key.Equal(first) || !promoted[1].Retired.Equal(now) {
		t.Fatalf("not promoted: wait %v", wait)
	}
	next(promoted)
	if kept := pki.PruneNonceKeys(last(), now.Add(life-1), life); len(kept) != 2 {
		t.Errorf("pruned too early: %d keys", len(kept))
	}
	pruned := pki.PruneNonceKeys(last(), now.Add(life), life)
	if len(pruned) != 1 || pruned[0].Key.Equal(first) {
		t.Errorf("not pruned: %d keys", len(pruned))
	}
	next(pruned)
	// Of two versions in a row some servers have one and some the other.
	for i := range len(versions) - 2 {
		if !accepts(t, versions[i], versions[i+1], now) || !accepts(t, versions[i+1], versions[i], now) {
			t.Errorf("servers of step %d and %d refuse each other's nonces", i, i+1)
		}
	}
}

func TestKeysThatSomebodyPutByHand(t *testing.T) {
	a, _ := freshKey()
	b, _ := freshKey()
	keys := pki.PruneNonceKeys([]pki.NonceKey{{Key: a}, {Key: b}}, rotationStart, time.Hour)
	if len(keys) != 2 || !keys[1].Retired.Equal(rotationStart) || !keys[0].Retired.IsZero() {
		t.Errorf("keys without times become %d, retired %v", len(keys), keys[1].Retired)
	}
	if same, wait := pki.PromoteNonceKey(keys, rotationStart, 0); wait != 0 || !same[0].Key.Equal(a) {
		t.Error("a retired key is promoted")
	}
}

func TestOlderServersReadKeysWithTimes(t *testing.T) {
	a, _ := freshKey()
	b, _ := freshKey()
	data, err := pki.EncodeNonceKeys([]pki.NonceKey{{Key: a}, {Key: b, Retired: rotationStart}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pki.ParsePrivateKeys(data)
	if err != nil || len(keys) != 2 || !keys[0].Equal(a) || !keys[1].Equal(b) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	bad := strings.Replace(string(data), "Retired: 2026", "Retired: soon", 1)
	if _, err := pki.ParseNonceKeys([]byte(bad)); err == nil || !strings.Contains(err.Error(), "Retired") {
		t.Errorf("a bad time: %v", err)
	}
}

func TestWriteNonceKeys(t *testing.T) {
	s := newStores(t)
	if _, err := pki.ReadNonceKeys(t.Context(), s.secrets); !errors.Is(err, pki.ErrNotInitialized) {
		t.Errorf("without any: %v", err)
	}
	a, _ := freshKey()
	b, _ := freshKey()
	want := []pki.NonceKey{{Key: a}, {Key: b, Announced: rotationStart}}
	if err := pki.WriteNonceKeys(t.Context(), s.secrets, want); err != nil {
		t.Fatal(err)
	}
	got, err := pki.ReadNonceKeys(t.Context(), s.secrets)
	if err != nil || len(got) != 2 || !got[1].Key.Equal(b) || !got[1].Announced.Equal(rotationStart) {
		t.Errorf("%d keys, %v", len(got), err)
	}
}

func FuzzParseNonceKeys(f *testing.F) {
	a, _ := freshKey()
	data, err := pki.EncodeNonceKeys([]pki.NonceKey{{Key: a}, {Key: a, Retired: rotationStart}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(data))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := pki.ParseNonceKeys(data)
		if err == nil && len(keys) == 0 {
			t.Fatal("no keys and no error")
		}
	})
}
