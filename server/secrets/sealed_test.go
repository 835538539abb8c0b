package secrets_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/secretstest"
)

func key(t testing.TB, fill string) secrets.Key {
	t.Helper()
	k, err := secrets.NewKey([]byte(strings.Repeat(fill, secrets.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sealed(t testing.TB, objects objectstore.Store, keys ...secrets.Key) *secrets.Sealed {
	t.Helper()
	s, err := secrets.NewSealed(objects, "", keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	for name, open := range map[string]func(*testing.T) secrets.Store{
		"encrypted": func(t *testing.T) secrets.Store {
			return sealed(t, memory.New(memory.Options{}), key(t, "a"))
		},
		"in clear": func(t *testing.T) secrets.Store {
			return sealed(t, memory.New(memory.Options{}))
		},
		"cached": func(t *testing.T) secrets.Store {
			return secrets.NewCached(sealed(t, memory.New(memory.Options{}), key(t, "a")), time.Hour, nil)
		},
	} {
		t.Run(name, func(t *testing.T) { secretstest.Run(t, secrets.Limits{Size: secrets.MaxSealedSize}, open) })
	}
}

func TestS14_ObjectStorageSeesNoSecret(t *testing.T) {
	objects := memory.New(memory.Options{OnWrite: func(w memory.Write) {
		if bytes.Contains(w.Data, []byte("marked")) {
			t.Errorf("%s is written in clear", w.Key)
		}
	}})
	s := sealed(t, objects, key(t, "a"))
	if err := s.Put(t.Context(), "ca.key", secrets.Secret("a marked value"), secrets.CreateOnly); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Get(t.Context(), "secret/ca.key"); err != nil {
		t.Error(err)
	}
	if s.Plaintext() {
		t.Error("a store with a key says that it has none")
	}
	if !sealed(t, objects).Plaintext() {
		t.Error("a store without a key does not say so")
	}
}

func TestTheFormatOfAnEncryptedValue(t *testing.T) {
	objects := memory.New(memory.Options{})
	if err := sealed(t, objects, key(t, "a")).Put(t.Context(), "n", secrets.Secret("value"), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	object, err := objects.Get(t.Context(), "secret/n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := gcm(t, "a").Open(nil, object.Data[:12], object.Data[12:], []byte("n"))
	if err != nil || string(got) != "value" {
		t.Errorf("opened by hand: %q, %v", got, err)
	}
}

func gcm(t *testing.T, fill string) cipher.AEAD {
	t.Helper()
	block, err := aes.NewCipher([]byte(strings.Repeat(fill, 32)))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return aead
}

func TestValuesWithoutABoundNameAreRead(t *testing.T) {
	objects := memory.New(memory.Options{})
	nonce := []byte("twelve bytes")
	data := gcm(t, "a").Seal(bytes.Clone(nonce), nonce, []byte("value"), nil)
	if _, err := objects.PutIfAbsent(t.Context(), "secret/n", data); err != nil {
		t.Fatal(err)
	}
	got, err := sealed(t, objects, key(t, "b"), key(t, "a")).Get(t.Context(), "n")
	if err != nil || string(got) != "value" {
		t.Errorf("got %q, %v", []byte(got), err)
	}
}

func TestChangingTheKey(t *testing.T) {
	objects := memory.New(memory.Options{})
	if err := sealed(t, objects, key(t, "a")).Put(t.Context(), "n", secrets.Secret("value"), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	both := sealed(t, objects, key(t, "b"), key(t, "a"))
	got, err := both.Get(t.Context(), "n")
	if err != nil || string(got) != "value" {
		t.Fatalf("with both keys: %q, %v", []byte(got), err)
	}
	if err := both.Put(t.Context(), "n", got, secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	if got, err := sealed(t, objects, key(t, "b")).Get(t.Context(), "n"); err != nil || string(got) != "value" {
		t.Errorf("with the new key alone: %q, %v", []byte(got), err)
	}
	if _, err := sealed(t, objects, key(t, "a")).Get(t.Context(), "n"); !errors.Is(err, secrets.ErrUnreadable) {
		t.Errorf("with the old key alone: %v, want ErrUnreadable", err)
	}
}

func TestValuesThatDoNotOpen(t *testing.T) {
	objects := memory.New(memory.Options{})
	s := sealed(t, objects, key(t, "a"))
	if err := s.Put(t.Context(), "mine", secrets.Secret("value"), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	mine, err := objects.Get(t.Context(), "secret/mine")
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(mine.Data)
	damaged[len(damaged)-1] ^= 1
	for name, data := range map[string][]byte{"moved": mine.Data, "damaged": damaged, "short": []byte("short"), "empty": {}, "clear": []byte("a value that was never encrypted")} {
		if _, err := objects.PutIfAbsent(t.Context(), "secret/"+name, data); err != nil {
			t.Fatal(err)
		}
		if v, err := s.Get(t.Context(), name); !errors.Is(err, secrets.ErrUnreadable) || v != nil {
			t.Errorf("%s: %q, %v, want ErrUnreadable", name, []byte(v), err)
		}
	}
}

func TestF19_LostPutAnswer(t *testing.T) {
	objects := memory.New(memory.Options{})
	s := sealed(t, objects, key(t, "a"))
	lost := false
	objects.SetFaults(func(c memory.Call) memory.Fault {
		if c.Op == memory.OpPut && !lost {
			lost = true
			return memory.Fault{After: objectstore.ErrUnavailable}
		}
		return memory.Fault{}
	})
	if err := s.Put(t.Context(), "n", secrets.Secret("value"), secrets.CreateOnly); err != nil {
		t.Errorf("creating a secret whose first answer was lost: %v", err)
	}
}

func TestAFailingStoreIsNotAnAbsentSecret(t *testing.T) {
	objects := memory.New(memory.Options{})
	s := sealed(t, objects, key(t, "a"))
	objects.Down(true)
	_, getErr := s.Get(t.Context(), "n")
	_, listErr := s.List(t.Context(), "")
	for _, err := range []error{getErr, listErr, s.Delete(t.Context(), "n"), s.Put(t.Context(), "n", nil, secrets.Overwrite)} {
		if !errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, secrets.ErrNotFound) {
			t.Errorf("error %v, want ErrUnavailable", err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	s := sealed(t, memory.New(memory.Options{}), key(t, "a"))
	if err := s.Put(t.Context(), "n", make([]byte, secrets.MaxSealedSize), secrets.Overwrite); err != nil {
		t.Errorf("the largest value: %v", err)
	}
	if err := s.Put(t.Context(), "n", make([]byte, secrets.MaxSealedSize+1), secrets.Overwrite); !errors.Is(err, secrets.ErrTooLarge) {
		t.Errorf("a byte more: %v, want ErrTooLarge", err)
	}
}

func TestABadPrefix(t *testing.T) {
	if _, err := secrets.NewSealed(memory.New(memory.Options{}), "/x/", nil); !errors.Is(err, objectstore.ErrKey) {
		t.Errorf("error %v, want ErrKey", err)
	}
}

func TestCached(t *testing.T) {
	objects := memory.New(memory.Options{})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	direct := sealed(t, objects, key(t, "a"))
	cached := secrets.NewCached(direct, time.Minute, func() time.Time { return now })
	put := func(s secrets.Store, value string) {
		if err := s.Put(t.Context(), "n", secrets.Secret(value), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when, want string) {
		if got, err := cached.Get(t.Context(), "n"); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", when, []byte(got), err, want)
		}
	}
	if _, err := cached.Get(t.Context(), "n"); !errors.Is(err, secrets.ErrNotFound) {
		t.Fatal(err)
	}
	put(direct, "one")
	expect("after an absence, which is not remembered", "one")
	put(direct, "two")
	now = now.Add(time.Minute - 1)
	expect("just before the end", "one")
	now = now.Add(1)
	expect("at the end", "two")
	put(cached, "three")
	expect("after an own write", "three")

	off := secrets.NewCached(direct, 0, nil)
	if _, err := off.Get(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	put(direct, "four")
	if got, err := off.Get(t.Context(), "n"); err != nil || string(got) != "four" {
		t.Errorf("without a ttl: %q, %v", []byte(got), err)
	}
}
