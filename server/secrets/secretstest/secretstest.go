// Package secretstest is the contract of a [secrets.Store] in the form of tests.
// Every kind of store passes it, within the limits of what it can hold.
package secretstest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"nstance.dev/server/secrets"
)

// Run tests the stores that open returns, a new and empty one for each test.
func Run(t *testing.T, limits secrets.Limits, open func(*testing.T) secrets.Store) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, secrets.Store)
	}{
		{"put and get", testPutGet},
		{"what is absent", testAbsent},
		{"create only", testCreateOnly},
		{"F8: one of many creators wins", testManyCreators},
		{"delete", testDelete},
		{"list", testList},
		{"names", testNames},
		{"limits", func(t *testing.T, s secrets.Store) { testLimits(t, s, limits) }},
		{"values belong to the caller", testOwnership},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, open(t)) })
	}
}

func testPutGet(t *testing.T, s secrets.Store) {
	for _, want := range []string{"first", "second", "lines\nänd \"signs\" {}\n"} {
		if err := s.Put(t.Context(), "a.key", secrets.Secret(want), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), "a.key")
		if err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", []byte(got), err, want)
		}
	}
}

func testAbsent(t *testing.T, s secrets.Store) {
	if v, err := s.Get(t.Context(), "absent"); !errors.Is(err, secrets.ErrNotFound) || v != nil {
		t.Errorf("Get = %q, %v, want ErrNotFound", []byte(v), err)
	}
	if err := s.Delete(t.Context(), "absent"); err != nil {
		t.Errorf("Delete = %v, want nil", err)
	}
	if names, err := s.List(t.Context(), ""); err != nil || len(names) != 0 {
		t.Errorf("List = %q, %v, want nothing", names, err)
	}
}

func testCreateOnly(t *testing.T, s secrets.Store) {
	if err := s.Put(t.Context(), "a", secrets.Secret("first"), secrets.CreateOnly); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"first", "second"} {
		if err := s.Put(t.Context(), "a", secrets.Secret(value), secrets.CreateOnly); !errors.Is(err, secrets.ErrExists) {
			t.Errorf("creating it again with %q: %v, want ErrExists", value, err)
		}
	}
	if got, err := s.Get(t.Context(), "a"); err != nil || string(got) != "first" {
		t.Errorf("got %q, %v, want the first value", []byte(got), err)
	}
}

func testManyCreators(t *testing.T, s secrets.Store) {
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := s.Put(t.Context(), "a", secrets.Secret(fmt.Sprint("value ", i)), secrets.CreateOnly)
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, secrets.ErrExists):
				t.Errorf("creator %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d creators won, want 1", won.Load())
	}
}

func testDelete(t *testing.T, s secrets.Store) {
	if err := s.Put(t.Context(), "a", secrets.Secret("v"), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("after Delete: %v, want ErrNotFound", err)
	}
	if err := s.Put(t.Context(), "a", secrets.Secret("w"), secrets.CreateOnly); err != nil {
		t.Errorf("creating it after Delete: %v", err)
	}
}

func testList(t *testing.T, s secrets.Store) {
	for _, name := range []string{"b", "a.key", "a.old", "ab"} {
		if err := s.Put(t.Context(), name, secrets.Secret("v"), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string][]string{
		"":   {"a.key", "a.old", "ab", "b"},
		"a":  {"a.key", "a.old", "ab"},
		"a.": {"a.key", "a.old"},
		"c":  nil,
	} {
		if got, err := s.List(t.Context(), prefix); err != nil || !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, %v, want %q", prefix, got, err, want)
		}
	}
}

func testNames(t *testing.T, s secrets.Store) {
	for _, name := range []string{"", ".", "..", "../ca.key", "a/b", "a b", "ключ", "a\n", ".hidden"} {
		_, getErr := s.Get(t.Context(), name)
		putErr := s.Put(t.Context(), name, secrets.Secret("v"), secrets.Overwrite)
		deleteErr := s.Delete(t.Context(), name)
		for _, err := range []error{getErr, putErr, deleteErr} {
			if !errors.Is(err, secrets.ErrName) {
				t.Errorf("name %q: %v, want ErrName", name, err)
			}
		}
	}
}

// testLimits puts what the store can hold at most, and then what it can't, which
// leaves the value alone.
func testLimits(t *testing.T, s secrets.Store, limits secrets.Limits) {
	most := strings.Repeat("x", limits.Size)
	for _, value := range []string{most, most + "x", "bytes \x00\xff\n", ""} {
		want := limits.Check("a", secrets.Secret(value))
		before, beforeErr := s.Get(t.Context(), "a")
		if beforeErr != nil && !errors.Is(beforeErr, secrets.ErrNotFound) {
			t.Fatalf("reading it before a value of %d bytes: %v", len(value), beforeErr)
		}
		err := s.Put(t.Context(), "a", secrets.Secret(value), secrets.Overwrite)
		got, getErr := s.Get(t.Context(), "a")
		switch {
		case getErr != nil:
			t.Errorf("a value of %d bytes: reading it: %v", len(value), getErr)
		case want == nil && (err != nil || string(got) != value):
			t.Errorf("a value of %d bytes: %v, and %d bytes are stored", len(value), err, len(got))
		case want != nil && (errors.Is(want, secrets.ErrTooLarge) != errors.Is(err, secrets.ErrTooLarge) || errors.Is(want, secrets.ErrValue) != errors.Is(err, secrets.ErrValue)):
			t.Errorf("a value of %d bytes: %v, want %v", len(value), err, want)
		case want != nil && !bytes.Equal(got, before):
			t.Errorf("a value of %d bytes was refused and changed what is stored", len(value))
		}
	}
}

func testOwnership(t *testing.T, s secrets.Store) {
	value := secrets.Secret("value")
	if err := s.Put(t.Context(), "a", value, secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	clear(value)
	for range 2 {
		got, err := s.Get(t.Context(), "a")
		if err != nil || !bytes.Equal(got, []byte("value")) {
			t.Fatalf("got %q, %v, want the value as it was put", []byte(got), err)
		}
		clear(got)
	}
}
