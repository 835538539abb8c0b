//go:build kube

package install_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/suite/install"
)

// The pages that are followed.
const (
	readme = "../../../README.md"
	page   = pages + "/install.md"
)

// reader is somebody with a shell who does what a page says: in a directory of his own,
// where the repository's operator and dist lie, and with our programs and the tools of
// others in his PATH.
type reader struct {
	dir   string
	env   []string
	names *strings.Replacer // what pages call something, and what it is called here
}

// newReader returns the administrator of a cluster.
func newReader(t *testing.T, c *kube.Cluster, names ...string) *reader {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.KubeconfigFile(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"helm", "kubectl", "clusterctl"} {
		if _, err := os.Stat(filepath.Join(root, "bin/tools", tool)); errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("bin/tools/%s: %v", tool, kube.ErrNotBuilt)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "operator"), filepath.Join(dir, "operator")); err != nil {
		t.Fatal(err)
	}
	return &reader{
		dir: dir,
		env: []string{
			"PATH=" + filepath.Join(root, "bin") + ":" + filepath.Join(root, "bin/tools") + ":/usr/bin:/bin",
			"KUBECONFIG=" + kubeconfig, "HOME=" + dir, "XDG_CONFIG_HOME=" + filepath.Join(dir, ".config"),
			"CLUSTERCTL_DISABLE_VERSIONCHECK=true",
		},
		names: strings.NewReplacer(names...),
	}
}

// has gives the reader a file.
func (r *reader) has(t *testing.T, name string, content []byte) {
	t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// follows does what the section of a page says, block by block.
func (r *reader) follows(t *testing.T, page, section string) {
	t.Helper()
	text, err := install.Section(page, section)
	if err != nil {
		t.Fatal(err)
	}
	blocks := install.Blocks(text, "sh")
	if len(blocks) == 0 {
		t.Fatalf("%s, %s: nothing to do", page, section)
	}
	r.types(t, strings.Join(blocks, "\n"))
}

// types has a shell run a script, every command of which must succeed.
func (r *reader) types(t *testing.T, script string) {
	t.Helper()
	start := time.Now()
	var said bytes.Buffer
	r.shell(t, "set -x\n"+script, &said, &said)
	t.Logf("after %v:\n%s", time.Since(start).Round(time.Second), &said)
}

// prints returns what a script prints, without what it says of errors.
func (r *reader) prints(t *testing.T, script string) string {
	t.Helper()
	var printed, said bytes.Buffer
	r.shell(t, script, &printed, &said)
	return printed.String()
}

// shell has a shell run a script. What stderr got is told if that fails.
func (r *reader) shell(t *testing.T, script string, stdout, stderr *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", r.names.Replace(script))
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// It ends with the test program, however that ends: the kernel takes the end of this
	// thread for that.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, stderr)
	}
}
