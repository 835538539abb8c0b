package clusterops_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/clusterops"
	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

func (w *world) setKeys(t *testing.T, keys ...string) {
	t.Helper()
	var lines []string
	for _, key := range keys {
		lines = append(lines, "hex:"+strings.Repeat(key, secrets.KeySize))
	}
	if err := os.WriteFile(w.settings.KeySource, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRotateEncryption(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	rotate := func() []string {
		var changed []string
		err := w.open(t).RotateEncryption(t.Context(), func(name string, did bool) {
			if did {
				changed = append(changed, name)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	w.setKeys(t, "cd", "ab")
	if got := rotate(); !slices.Equal(got, []string{"ca.key", "registration-nonce.key"}) {
		t.Errorf("changed %q", got)
	}
	if got := rotate(); len(got) > 0 {
		t.Errorf("the second time changed %q", got)
	}
	w.setKeys(t, "cd")
	if _, err := w.open(t).Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: "red", Expiry: time.Hour, Now: now}); err != nil {
		t.Errorf("with the new key alone: %v", err)
	}
}

func TestRotateEncryptionGoesOnPastWhatItCannotOpen(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	if _, err := w.objects.PutIfAbsent(t.Context(), "secret/a-damaged-one", []byte("damaged, and long enough to be sealed")); err != nil {
		t.Fatal(err)
	}
	w.setKeys(t, "cd", "ab")
	done := 0
	err := w.open(t).RotateEncryption(t.Context(), func(string, bool) { done++ })
	if !errors.Is(err, secrets.ErrUnreadable) || !strings.Contains(err.Error(), "a-damaged-one") || done != 2 {
		t.Errorf("%d secrets done, %v", done, err)
	}
}

// rotation is one whose waiting takes no time; during is what happens meanwhile.
func rotation(clock *time.Time, during func() error) clusterops.NonceRotation {
	return clusterops.NonceRotation{
		Settle: 3 * time.Minute, Keep: 24 * time.Hour,
		Now: func() time.Time { return *clock },
		Sleep: func(_ context.Context, d time.Duration) error {
			if during != nil {
				if err := during(); err != nil {
					return err
				}
			}
			*clock = clock.Add(d)
			return nil
		},
		Log: func(string) {},
	}
}

func TestRotateNonce(t *testing.T) {
	w := newWorld(t)
	old := w.bootstrap(t)
	clock := now
	request := clusterops.NonceRequest{ClusterID: "dev", Tenant: "red", Expiry: 3 * time.Hour, Now: now}
	before, err := w.open(t).Nonce(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := w.open(t).RotateNonce(t.Context(), rotation(&clock, func() error {
		// While servers learn the new key, the old one signs.
		token, err := w.open(t).Nonce(t.Context(), request)
		if err != nil {
			return err
		}
		_, err = pki.NewNonceVerifier("dev", old).Verify(token, now)
		return err
	}))
	if err != nil || len(keys) != 2 || keys[0].Key.Equal(old[0]) || !keys[1].Key.Equal(old[0]) {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	if waited := clock.Sub(now); waited != 3*time.Minute {
		t.Errorf("it waited %v", waited)
	}
	after, err := w.open(t).Nonce(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := pki.EnsureNonceKeys(t.Context(), w.secrets, pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{before, after} {
		if _, err := pki.NewNonceVerifier("dev", stored).Verify(token, now); err != nil {
			t.Error(err)
		}
	}
	if header, err := identity.DecodeNonceHeader(after); err != nil || header.KeyID == pki.KeyID(old[0].Public().(ed25519.PublicKey)) {
		t.Errorf("the old key still signs: %v", err)
	}

	prune := rotation(&clock, nil)
	prune.PruneOnly = true
	retired := clock
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{24*time.Hour - time.Second, 2}, {24 * time.Hour, 1}} {
		clock = retired.Add(tt.after)
		if keys, err := w.open(t).RotateNonce(t.Context(), prune); err != nil || len(keys) != tt.want {
			t.Errorf("after %v: %d keys, %v, want %d", tt.after, len(keys), err, tt.want)
		}
	}
}

func TestRotateNonceGoesOnAfterAnInterruption(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	clock := now
	interrupted := errors.New("interrupted")
	if _, err := w.open(t).RotateNonce(t.Context(), rotation(&clock, func() error { return interrupted })); !errors.Is(err, interrupted) {
		t.Fatal(err)
	}
	between, err := pki.ReadNonceKeys(t.Context(), w.secrets)
	if err != nil || len(between) != 2 {
		t.Fatalf("in between: %d keys, %v", len(between), err)
	}
	clock = clock.Add(time.Minute)
	keys, err := w.open(t).RotateNonce(t.Context(), rotation(&clock, nil))
	if err != nil || len(keys) != 2 || !keys[0].Key.Equal(between[1].Key) || clock.Sub(now) != 3*time.Minute {
		t.Errorf("%d keys after %v, %v", len(keys), clock.Sub(now), err)
	}
}

func TestRotateNonceNeedsACluster(t *testing.T) {
	clock := now
	if _, err := newWorld(t).open(t).RotateNonce(t.Context(), rotation(&clock, nil)); !errors.Is(err, pki.ErrNotInitialized) {
		t.Errorf("%v, want ErrNotInitialized", err)
	}
}
