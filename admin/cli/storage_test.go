package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/server/objectstore/file"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

// newStorage sets up the storage of cluster dev as its first leader does, and
// returns the flags that lead to it.
func newStorage(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	keyFile, bucket := filepath.Join(dir, "encryption.key"), filepath.Join(dir, "bucket")
	if err := os.WriteFile(keyFile, []byte("hex:"+strings.Repeat("ab", secrets.KeySize)), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := file.New(bucket)
	if err != nil {
		t.Fatal(err)
	}
	source, err := secrets.OpenKeySource("file", keyFile)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secrets.LoadKeys(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	store, err := secrets.NewSealed(objects, "", keys)
	if err != nil {
		t.Fatal(err)
	}
	opts := pki.Options{Create: true}
	if _, err := pki.EnsureCA(t.Context(), store, objects, "dev", pki.CATemplate{}, opts); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureNonceKeys(t.Context(), store, opts); err != nil {
		t.Fatal(err)
	}
	return []string{"--storage-provider", "file", "--storage-bucket", bucket, "--key-provider", "file", "--key-source", keyFile}
}
