//go:build hosts

package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/agent/paver/render"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// TestM100_Login: a key of a template lets its user in while it is written, and not after; a user whom
// the host does not allow has no file. The host's sshd is asked, with a configuration of the test's.
func TestM100_Login(t *testing.T) {
	if _, err := os.Stat(render.SSHDir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s exists: this host has keys of node machines, which a test must not touch (%v)", render.SSHDir, err)
	}
	dir := t.TempDir()
	for _, name := range []string{"user", "host"} {
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "user.pub"))
	if err != nil {
		t.Fatal(err)
	}
	plan := func(users ...string) map[string]render.File {
		key := strings.TrimSpace(string(public))
		p, err := render.Render(&nstancev1.MachineAssignment{
			MachineName: "m", NodeName: "n", Epoch: 1, Configuration: &nstancev1.MachineConfigurationVersion{Name: "c", Version: 1, Hash: "sha256:" + strings.Repeat("0", 64)},
			ApiServer: &nstancev1.MachineApiServer{Endpoint: "https://192.0.2.1", CaBundle: bundle(t)},
			Template: &nstancev1.MachineTemplate{
				Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3"},
				Host:       &nstancev1.MachineHostSettings{SshKeys: []*nstancev1.MachineSshUser{{User: "root", Keys: []string{key}}, {User: "nobody", Keys: []string{key}}}},
			},
		}, render.Host{Machine: "login-a", Paths: map[string]string{}, SSHUsers: users}, nil)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]render.File{}
		for _, f := range p.Of(render.OnHost) {
			files[f.Path] = f
		}
		return files
	}
	files := plan("root")
	t.Cleanup(func() {
		if err := os.RemoveAll(render.SSHDir); err != nil {
			t.Error(err)
		}
		_ = os.Remove(filepath.Dir(render.SSHDir)) // others may have files there
	})
	dropIn := filepath.Join(dir, "50-nstance.conf")
	for path, f := range map[string]render.File{render.SSHDir + "/root": files[render.SSHDir+"/root"], dropIn: files[render.SSHDropIn]} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(f.Content), f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	if _, there := files[render.SSHDir+"/nobody"]; there {
		t.Error("a user whom the host does not allow has keys")
	}

	port := sshd(t, dir, dropIn)
	login := func() error {
		out, err := exec.CommandContext(t.Context(), "ssh", "-F", "/dev/null", "-i", filepath.Join(dir, "user"), "-p", itoa(port), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes",
			"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "root@127.0.0.1", "echo", "in").CombinedOutput()
		if err == nil && !strings.HasSuffix(string(out), "in\n") {
			return fmt.Errorf("unexpected answer %q", out)
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := login(); err != nil {
		t.Errorf("the key does not let its user in: %v", err)
	}
	if err := os.Remove(render.SSHDir + "/root"); err != nil {
		t.Fatal(err)
	}
	if login() == nil {
		t.Error("the key lets its user in after it was removed")
	}
}

// sshd starts one with a drop-in, waits until it listens, and returns its port.
func sshd(t *testing.T, dir, dropIn string) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	config := fmt.Sprintf("Include %s\nListenAddress 127.0.0.1:%d\nHostKey %s\nPidFile none\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nUsePAM no\n",
		dropIn, port, filepath.Join(dir, "host"))
	name := filepath.Join(dir, "sshd_config")
	if err := errors.Join(listener.Close(), os.WriteFile(name, []byte(config), 0o600), os.MkdirAll("/run/sshd", 0o755)); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("sshd")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "-D", "-e", "-f", name)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd said:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
			return port
		}
		if time.Now().After(deadline) {
			t.Fatalf("sshd does not listen: %v", err)
		}
	}
}
