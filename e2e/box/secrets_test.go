package box_test

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nstance.dev/e2e/box"
	"nstance.dev/server/objectstore/file"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

// After a whole life of a cluster, no secret may be where it can be read by
// accident: in what processes print, in their titles, in the bucket, in the context
// file, in metrics.
func TestS14_SecretsAreNowhereToBeSeen(t *testing.T) {
	t.Parallel()
	b, p := up(t, 2)
	b.AdminOK("group", "scale", "web", "3", "--wait", "--timeout", "90s")
	b.Admin("instance", "delete", b.RecordIDs()[0]) // deletes, and a replacement
	b.AdminOK("cluster", "register-operator", "--storage-provider", "file", "--storage-bucket", b.Path("bucket"),
		"--key-provider", "file", "--key-source", b.Path("encryption.key"), "--output-dir", b.Path("operator"))

	hidden := hiddenThings(t, b)
	for place, content := range publicPlaces(t, b, p) {
		for what, secret := range hidden {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s contains %s", place, what)
			}
		}
	}
}

// hiddenThings returns every secret of a box by what it is, in the forms in which it
// could leak.
func hiddenThings(t *testing.T, b *box.Box) map[string]string {
	t.Helper()
	hidden := map[string]string{}
	addKey := func(what string, text []byte) {
		block, _ := pem.Decode(text)
		if block == nil {
			t.Fatalf("%s is no PEM", what)
		}
		// An Ed25519 seed is the last 32 bytes; base64 of it as it stands in the file.
		body := strings.Split(strings.TrimSpace(string(text)), "\n")[1]
		hidden[what+" (PEM)"] = body
		seed := block.Bytes[len(block.Bytes)-32:]
		hidden[what+" (raw)"] = string(seed)
		hidden[what+" (hex)"] = fmt.Sprintf("%x", seed)
		hidden[what+" (base64)"] = strings.TrimRight(base64.StdEncoding.EncodeToString(seed), "=")
	}
	for _, pattern := range []string{b.Path("machines", "*", "identity", "identity.key"), b.Path("*", "identity.key")} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no keys at %s (%v)", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			addKey(path, text)
		}
	}
	sealed := openSecrets(t, b)
	for _, name := range []string{pki.CAKeySecret, pki.NonceKeySecret} {
		text, err := sealed.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		addKey(name, text)
	}
	for _, m := range b.Machines() {
		hidden["the nonce of "+m.ID] = nonceOf(t, b, m.ID)
	}
	key, err := os.ReadFile(b.Path("encryption.key"))
	if err != nil {
		t.Fatal(err)
	}
	hidden["the encryption key"] = strings.TrimPrefix(strings.TrimSpace(string(key)), "hex:")
	return hidden
}

// openSecrets opens the sealed secrets of a box with its key.
func openSecrets(t *testing.T, b *box.Box) secrets.Store {
	t.Helper()
	source, err := secrets.OpenKeySource(secrets.KeyProviderFile, b.Path("encryption.key"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secrets.LoadKeys(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	store, err := file.New(b.Path("bucket"))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := secrets.NewSealed(store, secrets.DefaultPrefix, keys)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// publicPlaces returns the content of every place that is not made for secrets.
func publicPlaces(t *testing.T, b *box.Box, p *box.Process) map[string][]byte {
	t.Helper()
	places := map[string][]byte{"the output of dev": []byte(p.Output())}
	read := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v", err)
		}
		places[path] = data
	}
	for _, m := range b.Machines() {
		read(filepath.Join("/proc", strconv.Itoa(m.PID), "cmdline"))
		read(filepath.Join("/proc", strconv.Itoa(m.PID), "environ"))
		read(b.Path("machines", m.ID, "log"))
		read(b.Path("machines", m.ID, "machine.json"))
	}
	read(filepath.Join("/proc", strconv.Itoa(p.PID), "cmdline"))
	read(b.Path("server.log"))
	read(b.Path("admin.json"))
	for _, dir := range []string{b.Path("bucket"), b.Path("cache")} {
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				read(path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	addrs, err := b.Leader()
	if err != nil {
		t.Fatal(err)
	}
	places["metrics"] = get(t, "http://"+addrs.Health+"/metrics")
	return places
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", url, response.Status)
	}
	return body
}
