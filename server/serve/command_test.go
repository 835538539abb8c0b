package serve

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func command(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command(Provider{Kind: "local"}, "v9")
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	code = exitCode(cmd.ExecuteContext(t.Context()), &out)
	return code, out.String()
}

func TestServe_namesEveryMissingFlag(t *testing.T) {
	code, out := command(t, "serve")
	for _, flag := range []string{"--id", "--shard", "--storage", "--bucket"} {
		if !strings.Contains(out, flag+" is required") {
			t.Errorf("%s is not named in:\n%s", flag, out)
		}
	}
	if code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}

func TestServe_namesTheKindsOfStorage(t *testing.T) {
	code, out := command(t, "serve", "--id", "a", "--shard", "s", "--storage", "nfs", "--bucket", "b")
	if code != 2 || !strings.Contains(out, `--storage: unknown kind of storage "nfs": it is one of s3, gcs, file`) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestServe_refusesABucketThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	code, out := command(t, "serve", "--id", "a", "--shard", "s", "--storage", "file",
		"--bucket", filepath.Join(dir, "typo"), "--cachedir", filepath.Join(dir, "cache"))
	if code != 1 || !strings.Contains(out, "--bucket") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "typo")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory was made")
	}
}

func TestServe_validatesAFileWithoutStorage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonc")
	if err := os.WriteFile(path, devConfig(t, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := command(t, "serve", "--validate="+path); code != 0 || !strings.Contains(out, "is valid") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if err := os.WriteFile(path, []byte("{\n  \"servr\": {},\n  \"groups\": 5\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := command(t, "serve", "--validate="+path)
	if code != 1 || !strings.Contains(out, "c.jsonc:2:") || !strings.Contains(out, "c.jsonc:3:") {
		t.Errorf("exit code %d, want 1 with both lines:\n%s", code, out)
	}
}

func TestVersion(t *testing.T) {
	if code, out := command(t, "version"); code != 0 || out != "v9\n" {
		t.Errorf("exit code %d, output %q", code, out)
	}
}

func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{context.Canceled, 0},
		{errors.New("boom"), 1},
		{&usageError{errors.New("what?")}, 2},
	} {
		if got := exitCode(tt.err, &bytes.Buffer{}); got != tt.want {
			t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}
