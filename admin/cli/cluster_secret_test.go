package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/admin/cli"
)

const usesToken = `{
  "server": { "cluster_id": "dev", "shard": "local", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } },
  "templates": { "web": { "kind": "web", "arch": "amd64", "instance_type": "small", "subnet_pool": "p",
    "files": { "token": { "kind": "secret", "source": "app-token" } } } }
}`

// secret is a command about secrets.
func secret(command string, flags []string, more ...string) []string {
	return append(append([]string{"cluster", "secret", command}, more...), flags...)
}

func TestClusterSecret(t *testing.T) {
	c := newConsole(t)
	flags, bucket, _ := emptyStorage(t)
	value := "line one\nline two\x00\n"
	c.in = value
	if got := c.ok(t, secret("put", flags, "app-token", "--dry-run")...); got != "secret app-token: created, 19 bytes (dry run: nothing was done)\n" {
		t.Errorf("dry run: %q", got)
	}
	c.fails(t, cli.ExitFailed, secret("get", flags, "app-token", "--to-file", "-")...)
	if got := c.ok(t, secret("put", flags, "app-token")...); got != "secret app-token: created, 19 bytes\n" {
		t.Errorf("put: %q", got)
	}
	if got := c.ok(t, secret("put", flags, "app-token")...); got != "secret app-token: unchanged, 19 bytes\n" {
		t.Errorf("the same again: %q", got)
	}
	if got := c.ok(t, secret("get", flags, "app-token", "--to-file", "-")...); got != value {
		t.Errorf("get: %q", got)
	}
	c.fails(t, cli.ExitUsage, secret("get", flags, "app-token")...) // a value shows only when it is asked for

	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(t, cli.ExitFailed, secret("put", flags, "app-token", "--from-file", file, "--create-only")...)
	if got := c.ok(t, secret("put", flags, "app-token", "--from-file", file)...); got != "secret app-token: replaced, 7 bytes\n" {
		t.Errorf("replaced: %q", got)
	}
	out := filepath.Join(t.TempDir(), "out")
	if got := c.ok(t, secret("get", flags, "app-token", "--to-file", out)...); strings.Contains(got, "another") {
		t.Errorf("the value was printed: %q", got)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	for path, data := range filesIn(t, bucket) {
		if strings.Contains(data, "another") {
			t.Errorf("S14: the value lies in the clear in %s", path)
		}
	}

	for name, args := range map[string][]string{
		"no value":    {"put", "empty", "--from-file", os.DevNull},
		"a bad name":  {"put", "../x"},
		"two names":   {"put", "a", "b"},
		"no name":     {"delete"},
		"no such one": {"get", "none", "--to-file", "-"},
	} {
		if code := c.run(t.Context(), secret(args[0], flags, args[1:]...)...); code == cli.ExitOK {
			t.Errorf("%s: succeeded", name)
		}
	}
}

func TestClusterSecretListAndDelete(t *testing.T) {
	c := newConsole(t)
	flags, bucket, _ := emptyStorage(t)
	c.ok(t, cluster("init", flags, "--cluster-id", "dev")...)
	if err := os.MkdirAll(filepath.Join(bucket, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bucket, "config", "local.jsonc"), []byte(usesToken), 0o600); err != nil {
		t.Fatal(err)
	}
	c.in = "the value of both"
	c.ok(t, secret("put", flags, "app-token")...)
	c.ok(t, secret("put", flags, "app-spare")...)

	table := c.ok(t, secret("list", flags)...)
	for _, want := range []string{"app-spare", "app-token                local/web/token", "ca.key                   the cluster itself"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if got := c.ok(t, secret("list", flags, "app-", "-o", "name")...); got != "app-spare\napp-token\n" {
		t.Errorf("names: %q", got)
	}
	var list []struct {
		Name       string
		ClusterKey bool     `json:"cluster_key"`
		UsedBy     []string `json:"used_by"`
	}
	if err := json.Unmarshal([]byte(c.ok(t, secret("list", flags, "-o", "json")...)), &list); err != nil || len(list) != 4 || !list[2].ClusterKey || list[0].UsedBy == nil {
		t.Errorf("list: %+v, %v", list, err)
	}

	if said := c.fails(t, cli.ExitFailed, secret("delete", flags, "app-token")...); !strings.Contains(said, "local/web/token") || !strings.Contains(said, "--force") {
		t.Errorf("deleted while used: %q", said)
	}
	c.ok(t, secret("delete", flags, "app-token", "--force", "--dry-run")...)
	if got := c.ok(t, secret("list", flags, "app-t", "-o", "name")...); got != "app-token\n" {
		t.Errorf("after the dry run: %q", got)
	}
	c.ok(t, secret("delete", flags, "app-token", "--force")...)
	if got := c.ok(t, secret("delete", flags, "app-token")...); got != "secret app-token: absent\n" {
		t.Errorf("deleted again: %q", got)
	}

	// The cluster's own keys are neither shown nor changed, whatever is asked.
	for _, name := range []string{"ca.key", "registration-nonce.key"} {
		for _, args := range [][]string{{"get", name, "--to-file", "-"}, {"put", name}, {"delete", name, "--force"}} {
			if said := c.fails(t, cli.ExitFailed, secret(args[0], flags, args[1:]...)...); !strings.Contains(said, "key of the cluster") {
				t.Errorf("%q: %q", args, said)
			}
		}
	}
	if all := c.out.String() + c.err.String(); strings.Contains(all, "the value of both") || strings.Contains(all, "PRIVATE KEY") {
		t.Errorf("S14: a value was printed:\n%s", all)
	}
}

// filesIn reads all files of a folder, of which there must be some.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}
