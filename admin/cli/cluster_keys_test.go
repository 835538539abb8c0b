package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/admin/cli"
	"nstance.dev/server/objectstore/file"
	"nstance.dev/server/secrets"
)

// emptyStorage is a bucket with nothing in it and an encryption key; the flags
// lead to both.
func emptyStorage(t *testing.T) (flags []string, bucket, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	bucket, keyFile = filepath.Join(dir, "bucket"), filepath.Join(dir, "encryption.key")
	if _, err := file.New(bucket); err != nil {
		t.Fatal(err)
	}
	writeKeys(t, keyFile, "ab")
	return []string{"--storage-provider", "file", "--storage-bucket", bucket, "--key-provider", "file", "--key-source", keyFile}, bucket, keyFile
}

func writeKeys(t *testing.T, path string, keys ...string) {
	t.Helper()
	text := ""
	for _, key := range keys {
		text += "hex:" + strings.Repeat(key, secrets.KeySize) + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func cluster(command string, flags []string, more ...string) []string {
	return append(append([]string{"cluster", command}, more...), flags...)
}

func TestClusterInit(t *testing.T) {
	c := newConsole(t)
	flags, _, _ := emptyStorage(t)
	if got := c.ok(t, cluster("init", flags, "--cluster-id", "dev")...); strings.Count(got, ": made") != 2 {
		t.Errorf("first time:\n%s", got)
	}
	if got := c.ok(t, cluster("init", flags, "--cluster-id", "dev")...); strings.Count(got, ": was there") != 2 {
		t.Errorf("second time:\n%s", got)
	}
	if token := c.ok(t, cluster("nonce", flags, "--cluster-id", "dev", "--output", "-")...); strings.Count(token, ".") != 2 {
		t.Errorf("nonce %q", token)
	}
	c.fails(t, cli.ExitUsage, cluster("init", flags)...)
}

func TestClusterInspect(t *testing.T) {
	c := newConsole(t)
	flags, _, _ := emptyStorage(t)
	c.ok(t, cluster("init", flags, "--cluster-id", "dev")...)
	table := c.ok(t, cluster("inspect", flags)...)
	for _, want := range []string{"AUTHORITY", "CN=dev CA", "SECRET", "ca.key", "[secret]   true"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in:\n%s", want, table)
		}
	}
	var state struct {
		Instances []any
		Secrets   []struct{ Name, Value string }
	}
	if err := json.Unmarshal([]byte(c.ok(t, cluster("inspect", flags, "-o", "json")...)), &state); err != nil {
		t.Fatal(err)
	}
	if state.Instances == nil || len(state.Secrets) != 2 || state.Secrets[0].Value != "[secret]" {
		t.Errorf("state %+v", state)
	}
	if text := c.ok(t, cluster("inspect", flags, "-o", "yaml")...); !strings.Contains(text, "- name: ca.key") {
		t.Errorf("yaml:\n%s", text)
	}
	c.fails(t, cli.ExitUsage, cluster("inspect", flags, "-o", "name")...)
}

func TestClusterRotateKey(t *testing.T) {
	c := newConsole(t)
	flags, _, keyFile := emptyStorage(t)
	c.ok(t, cluster("init", flags, "--cluster-id", "dev")...)
	writeKeys(t, keyFile, "cd", "ab")
	if got := c.ok(t, cluster("rotate-key", flags, "--key", "encryption")...); !strings.Contains(got, "2 of 2 secrets changed") {
		t.Errorf("first time:\n%s", got)
	}
	if got := c.ok(t, cluster("rotate-key", flags, "--key", "encryption")...); !strings.Contains(got, "0 of 2 secrets changed") {
		t.Errorf("second time:\n%s", got)
	}
	writeKeys(t, keyFile, "cd")
	if got := c.ok(t, cluster("rotate-key", flags, "--key", "nonce", "--settle", "0s")...); !strings.Contains(got, "nonce keys: 2") || !strings.Contains(got, "--prune") {
		t.Errorf("nonce:\n%s", got)
	}
	if got := c.ok(t, cluster("rotate-key", flags, "--key", "nonce", "--prune", "--keep-old", "0s")...); !strings.Contains(got, "nonce keys: 1") {
		t.Errorf("prune:\n%s", got)
	}
	c.fails(t, cli.ExitUsage, cluster("rotate-key", flags, "--key", "other")...)
	c.fails(t, cli.ExitUsage, cluster("rotate-key", flags)...)
	writeKeys(t, keyFile, "ef")
	if got := c.fails(t, cli.ExitFailed, cluster("rotate-key", flags, "--key", "encryption")...); !strings.Contains(got, "Keep the old key") {
		t.Errorf("with a wrong key:\n%s", got)
	}
}

func TestS14_ClusterCommandsShowNoKey(t *testing.T) {
	c := newConsole(t)
	flags, bucket, keyFile := emptyStorage(t)
	c.ok(t, cluster("init", flags, "--cluster-id", "dev")...)
	c.ok(t, cluster("rotate-key", flags, "--key", "nonce", "--settle", "0s")...)
	c.ok(t, cluster("inspect", flags, "-o", "json")...)
	if err := os.WriteFile(keyFile, []byte("hex:MARKED"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"init --cluster-id dev", "nonce --cluster-id dev", "inspect", "rotate-key --key encryption", "rotate-key --key nonce"} {
		args := strings.Fields(command)
		c.fails(t, cli.ExitFailed, cluster(args[0], flags, args[1:]...)...)
	}
	shown := c.out.String() + c.err.String()
	err := filepath.WalkDir(bucket, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, readErr := os.ReadFile(path)
			shown, err = shown+string(data), readErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, marker := range []string{"MARKED", strings.Repeat("ab", 8), "PRIVATE KEY"} {
		if strings.Contains(shown, marker) {
			t.Errorf("%q shows", marker)
		}
	}
}

// bucketServer speaks as much of S3 as reading takes, from a folder.
func bucketServer(t *testing.T, dir string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/my-bucket"), "/")
		if key != "" {
			data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(key)))
			if err != nil {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte("<Error><Code>NoSuchKey</Code></Error>"))
				return
			}
			w.Header().Set("ETag", `"e"`)
			_, _ = w.Write(data)
			return
		}
		type object struct{ Key, ETag string }
		list := struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			Contents []object
		}{}
		names, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(r.URL.Query().Get("prefix"))+"*"))
		for _, name := range names {
			rel, _ := filepath.Rel(dir, name)
			list.Contents = append(list.Contents, object{filepath.ToSlash(rel), `"e"`})
		}
		_ = xml.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The provider of storage is S3 unless it is named, and the cluster is the one of
// the configurations.
func TestClusterNonceWithTheFewestFlags(t *testing.T) {
	c := newConsole(t)
	flags, bucket, _ := emptyStorage(t)
	c.ok(t, cluster("init", flags, "--cluster-id", "dev")...)
	if err := os.MkdirAll(filepath.Join(bucket, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bucket, "config", "zone-a.jsonc"), []byte(shardConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": bucketServer(t, bucket), "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id",
		"AWS_SECRET_ACCESS_KEY": "key", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
		"NSTANCE_ENCRYPTION_KEY": "hex:" + strings.Repeat("ab", secrets.KeySize),
	} {
		t.Setenv(name, value)
	}
	for _, line := range []string{
		"cluster nonce --storage-bucket my-bucket --key-provider env",
		"cluster nonce --storage-bucket my-bucket --key-provider env --expiry 1h",
	} {
		if got := c.ok(t, strings.Fields(line)...); !strings.Contains(got, "of tenant default in cluster dev") {
			t.Errorf("%s: %s", line, got)
		}
	}
}
