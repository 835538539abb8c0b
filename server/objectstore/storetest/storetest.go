// Package storetest is the contract of objectstore.Store as a test suite: every
// backend passes [Run], and so does every wrapper.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/objectstore"
)

// A Lack is a part of the contract that some server of object storage is known not
// to keep. All are about deletions: no store may lack a condition on writes.
type Lack int

// What a store may lack.
const (
	// ConditionalDeletes: a deletion ignores its etag. The store is used through
	// [objectstore.Probed], whose test has to find just that.
	ConditionalDeletes Lack = iota + 1

	// DeleteRaces: of a deletion and a write under way at once both may win.
	DeleteRaces

	// DeletesOfNothing: a deletion of what is absent succeeds.
	DeletesOfNothing
)

// Run checks that the stores made by open honour the contract, except for what
// they lack. Each subtest opens a store of its own, which must be empty.
func Run(t *testing.T, open func(t *testing.T) objectstore.Store, lacks ...Lack) {
	if slices.Contains(lacks, ConditionalDeletes) {
		lacks = append(lacks, DeleteRaces) // reading first leaves room for them
		open = probed(open)
	}
	for _, c := range contract {
		if !slices.Contains(lacks, c.lack) {
			t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
		}
	}
}

func probed(open func(t *testing.T) objectstore.Store) func(t *testing.T) objectstore.Store {
	return func(t *testing.T) objectstore.Store {
		s := objectstore.NewProbed(open(t))
		report, err := s.SelfTest(t.Context(), "probe/self-test")
		if err != nil || !report.DeleteUnconditional {
			t.Fatalf("self-test: %+v, %v; want a store that ignores conditions on deletions alone", report, err)
		}
		return s
	}
}

// clause is one promise of the contract.
type clause struct {
	name string
	test func(*testing.T, objectstore.Store)
	lack Lack // of the stores that are not asked for it
}

var contract = []clause{
	{name: "what was put is got", test: putThenGet},
	{name: "any content survives", test: contents},
	{name: "data is copied both ways", test: copies},
	{name: "create only where absent", test: createOnce},
	{name: "replace only the version known", test: staleETag},
	{name: "delete only the version known", test: deletes},
	{name: "delete only what is there", test: deletesOfNothing, lack: DeletesOfNothing},
	{name: "a deleted key can be created again", test: recreate},
	{name: "bad keys are refused", test: badKeys},
	{name: "an ended context is its error", test: ended},
	{name: "F8 one of many creators wins", test: raceToCreate},
	{name: "S1 one of many writers wins each round", test: raceToReplace},
	{name: "a deleter and a writer do not both win", test: raceToDelete, lack: DeleteRaces},
	{name: "no increment is lost", test: counter},
	{name: "list by prefix", test: listPrefix},
	{name: "list in byte order", test: listOrder},
	{name: "list page by page", test: listPages},
	{name: "list more than a page", test: listMany},
	{name: "list says what get says", test: listInfo},
	{name: "the store heeds conditions by its own test", test: selfTest},
}

func putThenGet(t *testing.T, s objectstore.Store) {
	_, err := s.Get(t.Context(), "a/b.json")
	wantError(t, "get of an absent key", err, objectstore.ErrNotFound)
	_, err = s.Get(t.Context(), "a")
	wantError(t, "get of an absent folder", err, objectstore.ErrNotFound)
	etag := create(t, s, "a/b.json", "one")
	wantObject(t, s, "a/b.json", "one", etag)
	_, err = s.Get(t.Context(), "a")
	wantError(t, "get of a folder", err, objectstore.ErrNotFound)
	_, err = s.Get(t.Context(), "a/b.json/c")
	wantError(t, "get below an object", err, objectstore.ErrNotFound)
	next := replace(t, s, "a/b.json", "two", etag)
	if next == etag {
		t.Errorf("other content, same etag %s", etag)
	}
	wantObject(t, s, "a/b.json", "two", next)
}

func contents(t *testing.T, s objectstore.Store) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for key, data := range map[string][]byte{
		"empty": {}, "binary": every, "line-ends": []byte("a\r\nb\n"),
		"large": bytes.Repeat(every, 5<<20/len(every)),
	} {
		etag := create(t, s, key, string(data))
		wantObject(t, s, key, string(data), etag)
	}
	if _, err := s.PutIfAbsent(t.Context(), "nil", nil); err != nil {
		t.Fatalf("put of nil: %v", err)
	}
	o, err := s.Get(t.Context(), "nil")
	if err != nil || len(o.Data) != 0 {
		t.Errorf("nil came back as %q, %v", o.Data, err)
	}
}

func copies(t *testing.T, s objectstore.Store) {
	data := []byte("one")
	etag, err := s.PutIfAbsent(t.Context(), "k", data)
	if err != nil {
		t.Fatal(err)
	}
	data[0] = 'X'
	wantObject(t, s, "k", "one", etag)
	o, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	o.Data[0] = 'Y'
	wantObject(t, s, "k", "one", etag)
}

func createOnce(t *testing.T, s objectstore.Store) {
	etag := create(t, s, "k", "one")
	for _, data := range []string{"one", "two", ""} {
		_, err := s.PutIfAbsent(t.Context(), "k", []byte(data))
		wantError(t, "create of what exists", err, objectstore.ErrPrecondition)
	}
	wantObject(t, s, "k", "one", etag)
}

func staleETag(t *testing.T, s objectstore.Store) {
	_, err := s.PutIfMatch(t.Context(), "k", []byte("x"), "absent")
	wantError(t, "replace of an absent key", err, objectstore.ErrPrecondition)
	first := create(t, s, "k", "one")
	second := replace(t, s, "k", "two", first)
	for _, etag := range []string{first, "other", `"quoted"`} {
		_, err := s.PutIfMatch(t.Context(), "k", []byte("three"), etag)
		wantError(t, "replace with etag "+etag, err, objectstore.ErrPrecondition)
	}
	if _, err := s.PutIfMatch(t.Context(), "k", []byte("three"), ""); err == nil || errors.Is(err, objectstore.ErrPrecondition) {
		t.Errorf("an empty etag is answered with %v", err)
	}
	wantObject(t, s, "k", "two", second)
}

func deletes(t *testing.T, s objectstore.Store) {
	first := create(t, s, "k", "one")
	second := replace(t, s, "k", "two", first)
	wantError(t, "delete with a stale etag", s.DeleteIfMatch(t.Context(), "k", first), objectstore.ErrPrecondition)
	if err := s.DeleteIfMatch(t.Context(), "k", ""); err == nil || errors.Is(err, objectstore.ErrPrecondition) {
		t.Errorf("an empty etag is answered with %v", err)
	}
	wantObject(t, s, "k", "two", second)
	if err := s.DeleteIfMatch(t.Context(), "k", second); err != nil {
		t.Fatalf("delete: %v", err)
	}
	_, err := s.Get(t.Context(), "k")
	wantError(t, "get after delete", err, objectstore.ErrNotFound)
	_, err = s.PutIfMatch(t.Context(), "k", []byte("x"), second)
	wantError(t, "replace after delete", err, objectstore.ErrPrecondition)
}

func deletesOfNothing(t *testing.T, s objectstore.Store) {
	wantError(t, "delete of an absent key", s.DeleteIfMatch(t.Context(), "k", "any"), objectstore.ErrNotFound)
	etag := create(t, s, "k", "one")
	if err := s.DeleteIfMatch(t.Context(), "k", etag); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantError(t, "second delete", s.DeleteIfMatch(t.Context(), "k", etag), objectstore.ErrNotFound)
}

func recreate(t *testing.T, s objectstore.Store) {
	first := create(t, s, "a/k", "one")
	if err := s.DeleteIfMatch(t.Context(), "a/k", first); err != nil {
		t.Fatal(err)
	}
	wantObject(t, s, "a/k", "two", create(t, s, "a/k", "two"))
}

func badKeys(t *testing.T, s objectstore.Store) {
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "./a", "a/.b", ".lock/00",
		"a\x00b", "a\\b", "a\nb", "\xff", strings.Repeat("a/", 600) + "a", strings.Repeat("a", 250),
	} {
		_, err := s.Get(t.Context(), key)
		wantError(t, "get "+key, err, objectstore.ErrKey)
		_, err = s.PutIfAbsent(t.Context(), key, nil)
		wantError(t, "create "+key, err, objectstore.ErrKey)
		_, err = s.PutIfMatch(t.Context(), key, nil, "etag")
		wantError(t, "replace "+key, err, objectstore.ErrKey)
		wantError(t, "delete "+key, s.DeleteIfMatch(t.Context(), key, "etag"), objectstore.ErrKey)
	}
	for _, prefix := range []string{"/", "../", "a//", "a/../b", "a\x00", "a\\", ".l"} {
		_, err := s.List(t.Context(), prefix, "", 0)
		wantError(t, "list "+prefix, err, objectstore.ErrKey)
	}
}

func ended(t *testing.T, s objectstore.Store) {
	etag := create(t, s, "k", "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, "k")
	wantError(t, "get", err, context.Canceled)
	_, err = s.PutIfAbsent(ctx, "new", nil)
	wantError(t, "create", err, context.Canceled)
	_, err = s.PutIfMatch(ctx, "k", nil, etag)
	wantError(t, "replace", err, context.Canceled)
	wantError(t, "delete", s.DeleteIfMatch(ctx, "k", etag), context.Canceled)
	_, err = s.List(ctx, "", "", 0)
	wantError(t, "list", err, context.Canceled)
	wantObject(t, s, "k", "one", etag)
}

func selfTest(t *testing.T, s objectstore.Store) {
	for range 2 {
		report, err := objectstore.SelfTest(t.Context(), s, "probe/self-test")
		if err != nil || report != (objectstore.Report{}) {
			t.Fatalf("self-test: %+v, %v", report, err)
		}
	}
	wantKeys(t, s, "")
}

func create(t *testing.T, s objectstore.Store, key, data string) string {
	t.Helper()
	etag, err := s.PutIfAbsent(t.Context(), key, []byte(data))
	if err != nil || etag == "" {
		t.Fatalf("create %s: etag %q, %v", key, etag, err)
	}
	return etag
}

func replace(t *testing.T, s objectstore.Store, key, data, etag string) string {
	t.Helper()
	next, err := s.PutIfMatch(t.Context(), key, []byte(data), etag)
	if err != nil || next == "" {
		t.Fatalf("replace %s: etag %q, %v", key, next, err)
	}
	return next
}

func wantObject(t *testing.T, s objectstore.Store, key, data, etag string) {
	t.Helper()
	o, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if o.Key != key || string(o.Data) != data || o.ETag != etag || o.Modified.IsZero() {
		t.Errorf("get %s: %q with %d bytes, etag %s, modified %v; want %d bytes, etag %s",
			key, o.Key, len(o.Data), o.ETag, o.Modified, len(data), etag)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%q: error %v, want %v", what, err, want)
	}
}
