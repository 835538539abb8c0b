//go:build storage

package storage_test

import (
	"errors"
	"testing"

	"nstance.dev/e2e/env/storage"
	"nstance.dev/server/objectstore"
)

// While the server is away every outcome is unknown; after it is back etags are
// still those of the same versions.
func TestF1_TheServerOfS3IsKilledAndComesBack(t *testing.T) {
	server := storage.S3(t)
	server.Setenv(t)
	s := open(t, server)
	etag, err := s.PutIfAbsent(t.Context(), "k", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for name, call := range map[string]func() error{
		"get":     func() error { _, err := s.Get(t.Context(), "k"); return err },
		"replace": func() error { _, err := s.PutIfMatch(t.Context(), "k", []byte("lost"), etag); return err },
		"delete":  func() error { return s.DeleteIfMatch(t.Context(), "k", etag) },
		"list":    func() error { _, err := s.List(t.Context(), "", "", 0); return err },
	} {
		if err := call(); !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("%s without a server: %v", name, err)
		}
	}
	server.Start()
	o, err := s.Get(t.Context(), "k")
	if err != nil || string(o.Data) != "one" || o.ETag != etag {
		t.Fatalf("after the restart: %q with etag %s, %v; had %s", o.Data, o.ETag, err, etag)
	}
	if _, err := objectstore.Put(t.Context(), s, "k", []byte("two"), etag, objectstore.RetryPolicy{}); err != nil {
		t.Error(err)
	}
}

// A mistyped name is an error and looks like no empty bucket.
func TestABucketThatIsNotThere(t *testing.T) {
	for _, start := range []func(testing.TB) *storage.Server{storage.S3, storage.GCS} {
		server := start(t)
		server.Setenv(t)
		s := openBucket(t, server, "typo")
		_, err := s.Get(t.Context(), "k")
		checkPermanent(t, server.Kind+" get", err)
		_, err = s.PutIfAbsent(t.Context(), "k", nil)
		checkPermanent(t, server.Kind+" create", err)
		_, err = s.List(t.Context(), "", "", 0)
		checkPermanent(t, server.Kind+" list", err)
	}
}

func checkPermanent(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, objectstore.ErrPrecondition) || objectstore.Retryable(err) {
		t.Errorf("%s: error is %v", what, err)
	}
}
