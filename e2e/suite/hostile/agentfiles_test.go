package hostile

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"nstance.dev/protos/identity"
)

// untouched is what an attempt comes to after which what is not the agent's is as it was.
const untouched = "what is not the agent's is untouched"

// agentFiles are attempts of somebody on a machine who may write to a directory of its agent,
// which is root.
func agentFiles() (rows []attempt) {
	for _, r := range []struct {
		promise, name string
		prepare       func(g *guest) error // before the agent starts
		running       func(g *guest) error // once it has its files; nil: nothing
	}{
		{"F53", "a link in place of the agent's staging directory, before it starts", func(g *guest) error {
			return os.Symlink(g.other, g.path("recv", ".staging"))
		}, nil},
		{"F53", "a link in place of the agent's staging directory, while it runs", nil, func(g *guest) error {
			staging := g.path("recv", ".staging")
			return errors.Join(os.RemoveAll(staging), os.Symlink(g.other, staging), os.Remove(g.path("recv", "client.crt")))
		}},
		{"F53", "a link in place of a file that is delivered", func(g *guest) error {
			return os.Symlink(filepath.Join(g.other, "precious"), g.path("recv", "client.crt"))
		}, nil},
		{"F53", "a link in place of a file that was delivered", nil, func(g *guest) error {
			path := g.path("recv", "client.crt")
			return errors.Join(os.Remove(path), os.Symlink(filepath.Join(g.other, "precious"), path))
		}},
		{"F53", "a link in place of the list of delivered files", func(g *guest) error {
			return os.Symlink(filepath.Join(g.other, "precious"), g.path("recv", ".manifest"))
		}, nil},
		{"F53", "a note of a commit that names files outside", func(g *guest) error {
			note := `{"hash": "sha256:0", "files": {"../../other/precious": {"size": 0}, "/etc/x": {"size": 0}}}`
			return errors.Join(os.Mkdir(g.path("recv", ".staging"), 0o700), os.WriteFile(g.path("recv", ".staging", ".commit"), []byte(note), 0o600))
		}, nil},
		{"F53", "a link in place of a private key", func(g *guest) error {
			return os.Symlink(filepath.Join(g.other, "precious"), g.path("keys", "client.key"))
		}, nil},
		{"F53", "a link in place of the hash of the files", func(g *guest) error {
			return os.Symlink(filepath.Join(g.other, "precious"), g.path("identity", "config.hash"))
		}, nil},
	} {
		rows = append(rows, attempt{r.promise, r.name, untouched, func(t *testing.T, w *world) string {
			g := w.guest(t)
			if r.prepare != nil {
				if err := r.prepare(g); err != nil {
					t.Fatal(err)
				}
			}
			g.start(t, w)
			await(t, "the agent has its files, or has given up", func() bool { return g.settled() })
			if r.running != nil {
				if err := r.running(g); err != nil {
					t.Fatal(err)
				}
				g.interrupt(t, w)
				await(t, "the agent has connected again, and its files", func() bool {
					return g.said("connected") > 1 && g.settled() || g.look() != untouched || g.said(".staging") > 0
				})
			}
			return g.look()
		}})
	}
	return append(rows, attempt{"F53", "a receive directory that everybody may write to", "refused", func(t *testing.T, w *world) string {
		g := w.guest(t)
		if err := os.Chmod(g.path("recv"), 0o777); err != nil {
			t.Fatal(err)
		}
		g.start(t, w)
		await(t, "the agent has its files, or has given up", func() bool { return g.settled() })
		if !g.ended() {
			return "it is taken"
		}
		return "refused"
	}})
}

// guest is an agent that a row starts, on a machine that did nothing until then, with
// directories of its own and one of somebody else.
type guest struct {
	outstanding
	dir, other string
	cmd        *exec.Cmd
	done       chan struct{}
}

func (g *guest) path(names ...string) string {
	return filepath.Join(append([]string{g.dir}, names...)...)
}

func (w *world) guest(t *testing.T) *guest {
	t.Helper()
	g := &guest{outstanding: w.outstanding(t, attacker), dir: t.TempDir(), done: make(chan struct{})}
	g.other = g.path("other")
	ca, err := os.ReadFile(filepath.Join(w.Identity(), "ca.crt"))
	for _, name := range []string{"identity", "keys", "recv", "other", "other/below"} {
		err = errors.Join(err, os.Mkdir(g.path(name), 0o700))
	}
	if err := errors.Join(err,
		os.WriteFile(g.path("identity", "ca.crt"), ca, 0o600), os.WriteFile(g.path("identity", "nonce.jwt"), []byte(g.token), 0o600),
		os.WriteFile(g.path("other", "precious"), []byte("precious"), 0o600), os.WriteFile(g.path("other", "below", "it"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return g
}

// start starts the agent. It ends with the test.
func (g *guest) start(t *testing.T, w *world) {
	t.Helper()
	g.cmd = exec.CommandContext(t.Context(), program(t, "nstance-agent"))
	g.cmd.Env = []string{
		identity.EnvInstanceID + "=" + g.id.String(), identity.EnvServerAddrFile + "=" + w.Path("machines", "leader.json"),
		identity.EnvIdentityDir + "=" + g.path("identity"), identity.EnvKeysDir + "=" + g.path("keys"), identity.EnvRecvDir + "=" + g.path("recv"),
		identity.EnvProvider + "=local", identity.EnvReportInterval + "=500ms", identity.EnvDebug + "=true",
	}
	log, err := os.Create(g.path("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the agent has its own
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(g.done)
		_ = g.cmd.Wait() // how it ends is of no interest
	}()
	t.Cleanup(func() {
		_ = g.cmd.Process.Kill() // it may have ended
		<-g.done
		if t.Failed() {
			text, _ := os.ReadFile(g.path("log"))
			t.Logf("the agent said:\n%.4000s", text)
		}
	})
}

func (g *guest) ended() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// interrupt ends the stream of the agent by a newer one of the same machine: what was staged is
// thrown away, and what is missing is sent as soon as the agent is back.
func (g *guest) interrupt(t *testing.T, w *world) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(g.path("identity", "identity.crt"), g.path("identity", "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.connect(t, cert, g.id); got != letIn {
		t.Fatal(got)
	}
}

// said is how often the agent has logged something.
func (g *guest) said(what string) int {
	text, _ := os.ReadFile(g.path("log")) // what is not there says nothing
	return bytes.Count(text, []byte(what))
}

// settled reports whether the agent has what the server sends it, cannot have it, or has ended.
func (g *guest) settled() bool {
	delivered := func(name string) bool {
		info, err := os.Lstat(g.path("recv", name))
		return err == nil && info.Mode().IsRegular()
	}
	return g.ended() || delivered("client.crt") && delivered("server.crt") || g.said("no key to submit") > 0
}

// look compares the directory of somebody else with what it was.
func (g *guest) look() string {
	var names []string
	err := filepath.WalkDir(g.other, func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(g.other, path) // it is below
		names = append(names, name)
		return err
	})
	text, readErr := os.ReadFile(filepath.Join(g.other, "precious"))
	if want := []string{".", "below", "below/it", "precious"}; err != nil || readErr != nil || !slices.Equal(names, want) || string(text) != "precious" {
		return fmt.Sprintf("it has %q, and precious is %q (%v)", names, text, errors.Join(err, readErr))
	}
	return untouched
}
