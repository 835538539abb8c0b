package serve

import (
	"encoding/json"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/secrets"
)

// TestS26_NamesAreThoseOfTheStores: a configuration may name what the stores take, and
// nothing else.
func TestS26_NamesAreThoseOfTheStores(t *testing.T) {
	names := []string{"a", "A.b_c-9", "a/b", ".a", "-a", "_a", "a.", "9", "a b", "ä", "a\\b", "a\x01", "ca.crt"}
	names = append(names, strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 200), strings.Repeat("a", 201))
	for _, name := range names {
		if got, want := loads(t, "secret", name), secrets.ValidateName(name) == nil; got != want {
			t.Errorf("secret %q: the configuration takes it: %t, the store: %t", name, got, want)
		}
	}
	for _, rest := range append(names, "", "/", "a/", "a//b", "a/.b", "a/../b", "a/b/c.d", strings.Repeat("a/", 510)+"a", strings.Repeat("a/", 600)+"a") {
		key := "files/" + rest
		if got, want := loads(t, "storage", key), objectstore.ValidateKey(key) == nil; got != want {
			t.Errorf("object %q: the configuration takes it: %t, the store: %t", key, got, want)
		}
	}
}

// loads reports whether a configuration with a file of the kind and source is valid.
func loads(t *testing.T, kind, source string) bool {
	t.Helper()
	file, err := json.Marshal(map[string]string{"kind": kind, "source": source})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(devConfig(t, 1)), `"kind": "dev",`, `"kind": "dev", "files": { "f": `+string(file)+` },`, 1)
	_, err = config.Load("f", []byte(text), config.LoadOptions{})
	return err == nil
}
