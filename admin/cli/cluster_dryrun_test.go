package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/admin/cli"
)

// contents are the files below a folder, with what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A dry run says what would be done, and writes nothing.
func TestClusterCommandsRunDry(t *testing.T) {
	c := newConsole(t)
	flags, bucket, keyFile := emptyStorage(t)
	out := filepath.Join(t.TempDir(), "operator")
	dry := func(want string, command string, more ...string) {
		t.Helper()
		before := contents(t, bucket)
		if got := c.ok(t, cluster(command, flags, append(more, "--dry-run")...)...); !strings.Contains(got, want) {
			t.Errorf("%s %q printed %q, want %q", command, more, got, want)
		}
		if diff := cmp.Diff(before, contents(t, bucket)); diff != "" {
			t.Errorf("%s %q has changed the bucket:\n%s", command, more, diff)
		}
	}
	register := []string{"--cluster-id", "dev", "--output-dir", out, "--operator-id", "opr068a3cp3thz5z2mv1gejwftabc"}

	dry("authority of cluster dev: would be made\nnonce key of cluster dev: would be made\n", "init", "--cluster-id", "dev")
	c.fails(t, cli.ExitFailed, cluster("register-operator", flags, append(register, "--dry-run")...)...)
	c.ok(t, cluster("init", flags, "--cluster-id", "dev")...)
	dry("authority of cluster dev: is there\nnonce key of cluster dev: is there\n", "init", "--cluster-id", "dev")

	dry("0 of 1 keys would be removed\na new key would be announced\nit would sign in 3m0s\n", "rotate-key", "--key", "nonce")
	dry("0 of 1 keys would be removed\n", "rotate-key", "--key", "nonce", "--prune")
	dry("0 of 2 secrets would be changed\n", "rotate-key", "--key", "encryption")
	writeKeys(t, keyFile, "cd", "ab")
	dry("2 of 2 secrets would be changed\n", "rotate-key", "--key", "encryption")

	dry("operator opr068a3cp3thz5z2mv1gejwftabc of tenant default in cluster dev would be registered\n", "register-operator", register...)
	dry("viewer with a new id of tenant default in cluster dev would be registered\n", "register-operator", "--cluster-id", "dev", "--role", "viewer")
	if _, err := os.Stat(out); err == nil {
		t.Error("a dry run has made the folder of the identity")
	}
	c.ok(t, cluster("register-operator", flags, register...)...)
	if got := c.fails(t, cli.ExitFailed, cluster("register-operator", flags, append(register, "--dry-run")...)...); !strings.Contains(got, "operator exists") {
		t.Errorf("an id that is taken: %q", got)
	}
}
