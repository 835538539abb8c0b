package cli_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/cli"
	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
)

// packed is a text as hosts hand it over.
func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Logs of hosts are listed, the newest first, and shown without what a terminal would obey.
func TestClusterHostLog(t *testing.T) {
	c := newConsole(t)
	flags, bucket, _ := emptyStorage(t)
	one, two := "knd068a3cp3thz5z2mv1gejwftabc", "knc068a3cp3thz5z2mv1gejwftabc"
	put := func(instance, operation string, at time.Time, content []byte) string {
		t.Helper()
		id, err := identity.ParseID(instance)
		if err != nil {
			t.Fatal(err)
		}
		key := layout.HostLog{Tenant: "default", Instance: id, At: at, Operation: operation}.Key("us-1a")
		file := filepath.Join(bucket, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return key
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	text := "kubelet: started\nkubelet: \x1b[2J\n"
	oldest := put(one, "0f2c0000-0000-4000-8000-000000000001", noon, packed(t, text))
	other := put(two, "0f2c0000-0000-4000-8000-000000000002", noon.Add(time.Minute), packed(t, "other"))
	newest := put(one, "0f2c0000-0000-4000-8000-000000000003", noon.Add(time.Hour), []byte("no logs"))
	run := func(args ...string) []string {
		return append(append([]string{"cluster", "hostlog"}, args...), flags...)
	}
	if got, want := c.ok(t, run("list", "-o", "name")...), newest+"\n"+other+"\n"+oldest+"\n"; got != want {
		t.Errorf("listed\n%swant\n%s", got, want)
	}
	if got := c.ok(t, run("list", "--instance", two)...); !strings.Contains(got, two+"   default   us-1a   2026-03-01T12:01:00Z") || strings.Contains(got, one) {
		t.Errorf("those of one: %s", got)
	}
	if got := c.ok(t, run("get", oldest)...); !strings.HasPrefix(got, "kubelet: started\n") || strings.Contains(got, "\x1b") {
		t.Errorf("shown: %q", got)
	}
	file := filepath.Join(t.TempDir(), "log")
	c.ok(t, run("get", oldest, "--to-file", file)...)
	if got, err := os.ReadFile(file); err != nil || string(got) != text {
		t.Errorf("written: %q, %v", got, err)
	}
	for key, want := range map[string]string{
		newest:                                "gzip",
		"config/us-1a.jsonc":                  "hostlog/{shard}",
		strings.Replace(other, "2c", "2d", 1): "nstance-admin cluster hostlog list",
	} {
		if got := c.fails(t, cli.ExitFailed, run("get", key)...); !strings.Contains(got, want) {
			t.Errorf("get %s: %q, want %q", key, got, want)
		}
	}
}
