package backends_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/backends"
)

func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	s, err := backends.Open(t.Context(), backends.Location{Kind: backends.File, Bucket: dir, Prefix: "/env/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutIfAbsent(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	whole, err := backends.Open(t.Context(), backends.Location{Kind: backends.File, Bucket: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := whole.Get(t.Context(), "env/k"); err != nil {
		t.Errorf("what was put below the prefix: %v", err)
	}
}

// The clouds' stores ask for the bucket and the key below the prefix.
func TestOpenTheStoresOfClouds(t *testing.T) {
	paths := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	for name, value := range map[string]string{
		"STORAGE_EMULATOR_HOST": server.URL, "AWS_ENDPOINT_URL": server.URL, "AWS_S3_USE_PATH_STYLE": "true",
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	for _, kind := range []string{backends.S3, backends.GCS} {
		s, err := backends.Open(t.Context(), backends.Location{Kind: kind, Bucket: "some-bucket", Prefix: "env"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Get(t.Context(), "k")
		if path := <-paths; err == nil || path != "/some-bucket/env/k" {
			t.Errorf("%s: path %s, %v", kind, path, err)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		at   backends.Location
		want error
		text string
	}{
		"an unknown kind":       {backends.Location{Kind: "nfs", Bucket: dir}, backends.ErrKind, `"nfs": it is one of s3, gcs, file`},
		"no bucket":             {backends.Location{Kind: backends.S3}, backends.ErrBucket, "no name"},
		"a missing directory":   {backends.Location{Kind: backends.File, Bucket: filepath.Join(dir, "typo")}, backends.ErrBucket, "no such file"},
		"a prefix that climbs":  {backends.Location{Kind: backends.File, Bucket: dir, Prefix: "../x"}, objectstore.ErrKey, "prefix"},
		"a prefix with a break": {backends.Location{Kind: backends.File, Bucket: dir, Prefix: "a//b"}, objectstore.ErrKey, "prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := backends.Open(t.Context(), tt.at)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
