package secrets_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/secrets"
)

func TestReseal(t *testing.T) {
	objects := memory.New(memory.Options{})
	old := sealed(t, objects, key(t, "a"))
	if err := old.Put(t.Context(), "n", secrets.Secret("value"), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	both := sealed(t, objects, key(t, "b"), key(t, "a"))
	for i, want := range []bool{true, false} {
		if changed, err := both.Reseal(t.Context(), "n"); err != nil || changed != want {
			t.Errorf("time %d: changed %v, %v, want %v", i+1, changed, err, want)
		}
	}
	if got, err := sealed(t, objects, key(t, "b")).Get(t.Context(), "n"); err != nil || string(got) != "value" {
		t.Errorf("the new key alone: %q, %v", []byte(got), err)
	}
	if _, err := old.Get(t.Context(), "n"); !errors.Is(err, secrets.ErrUnreadable) {
		t.Errorf("the old key alone: %v, want ErrUnreadable", err)
	}
}

func TestResealBindsTheName(t *testing.T) {
	objects := memory.New(memory.Options{})
	nonce := []byte("twelve bytes")
	data := gcm(t, "a").Seal(bytes.Clone(nonce), nonce, []byte("value"), nil)
	if _, err := objects.PutIfAbsent(t.Context(), "secret/n", data); err != nil {
		t.Fatal(err)
	}
	if changed, err := sealed(t, objects, key(t, "a")).Reseal(t.Context(), "n"); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	object, err := objects.Get(t.Context(), "secret/n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gcm(t, "a").Open(nil, object.Data[:12], object.Data[12:], []byte("n")); err != nil {
		t.Errorf("the name is not bound: %v", err)
	}
}

// busy is a store on which somebody else writes just before the first replacement.
type busy struct {
	objectstore.Store
	before func()
}

func (b *busy) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if before := b.before; before != nil {
		b.before = nil
		before()
	}
	return b.Store.PutIfMatch(ctx, key, data, etag)
}

func TestResealBesideAWriterLosesNothing(t *testing.T) {
	objects := memory.New(memory.Options{})
	old := sealed(t, objects, key(t, "a"))
	put := func(value string) {
		if err := old.Put(t.Context(), "n", secrets.Secret(value), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
	}
	put("first")
	both := sealed(t, &busy{objects, func() { put("second") }}, key(t, "b"), key(t, "a"))
	if changed, err := both.Reseal(t.Context(), "n"); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if got, err := sealed(t, objects, key(t, "b")).Get(t.Context(), "n"); err != nil || string(got) != "second" {
		t.Errorf("after it: %q, %v, want what the writer wrote", []byte(got), err)
	}
}

func TestF19_LostResealAnswer(t *testing.T) {
	objects := memory.New(memory.Options{})
	if err := sealed(t, objects, key(t, "a")).Put(t.Context(), "n", secrets.Secret("value"), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	lost := false
	objects.SetFaults(func(c memory.Call) memory.Fault {
		if c.Op == memory.OpPut && !lost {
			lost = true
			return memory.Fault{After: objectstore.ErrUnavailable}
		}
		return memory.Fault{}
	})
	if changed, err := sealed(t, objects, key(t, "b"), key(t, "a")).Reseal(t.Context(), "n"); err != nil || !changed {
		t.Errorf("changed %v, %v", changed, err)
	}
}

func TestResealThatCannotBe(t *testing.T) {
	objects := memory.New(memory.Options{})
	if err := sealed(t, objects, key(t, "a")).Put(t.Context(), "n", secrets.Secret("value"), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		store  *secrets.Sealed
		secret string
		want   error
	}{
		"absent":      {sealed(t, objects, key(t, "a")), "other", secrets.ErrNotFound},
		"a lost key":  {sealed(t, objects, key(t, "b")), "n", secrets.ErrUnreadable},
		"no key":      {sealed(t, objects), "n", secrets.ErrKey},
		"no good key": {sealed(t, objects, key(t, "a")), "../n", secrets.ErrName},
	} {
		if changed, err := tt.store.Reseal(t.Context(), tt.secret); !errors.Is(err, tt.want) || changed {
			t.Errorf("%s: changed %v, %v, want %v", name, changed, err, tt.want)
		}
	}
	if got, err := sealed(t, objects, key(t, "a")).Get(t.Context(), "n"); err != nil || string(got) != "value" {
		t.Errorf("after all that: %q, %v", []byte(got), err)
	}
}
