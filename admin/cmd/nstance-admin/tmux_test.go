//go:build tmux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// asProgram makes this test binary the program.
const asProgram = "NSTANCE_ADMIN_IS_TESTED"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// terminal is a window of tmux.
type terminal struct {
	t      *testing.T
	socket string
}

func (w *terminal) tmux(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tmux", append([]string{"-S", w.socket, "-f", os.DevNull}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (w *terminal) screen() string { return w.tmux("capture-pane", "-p", "-t", "0") }

// press sends keys and waits until the screen shows a text.
func (w *terminal) press(want string, keys ...string) {
	w.t.Helper()
	if len(keys) > 0 {
		w.tmux(append([]string{"send-keys", "-t", "0"}, keys...)...)
	}
	w.shows(want)
}

func (w *terminal) shows(want string) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(w.screen(), want) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%q does not come:\n%s", want, w.screen())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *terminal) lacks(text string) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for strings.Contains(w.screen(), text) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%q does not go:\n%s", text, w.screen())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The dashboard in a real terminal: it starts, follows, obeys keys, is resized, and gives
// the terminal back.
func TestTopInTmux(t *testing.T) {
	shard := &shardtest.Shard{}
	shard.AddGroup(&nstancev1.GroupStatus{Key: "web", Tenant: "default", Template: "worker", Size: 2})
	shard.AddGroup(&nstancev1.GroupStatus{Key: "api", Tenant: "default", Template: "worker", Size: 1})
	cluster := shardtest.NewCluster(t)
	address, identity := cluster.Listen(t, "local", shard), cluster.Identity(t, "default")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nstance-tmux")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &terminal{t, filepath.Join(dir, "s")}
	command := fmt.Sprintf("%s=1 %s top --interval 200ms --servers local=%s --identity-dir %s; echo the shell is back; exec sleep 60", asProgram, program, address, identity)
	w.tmux("new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", command)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", w.socket, "kill-server").Run() })

	w.shows("running 3 of 3")
	w.shows("> api")
	w.press("> web", "Down")
	w.press("── describe group web", "Enter")
	w.press("enter describe  e explain", "Escape")
	w.press("size (now 2; fewer deletes machines)", "s")
	w.press("> 4_", "4")
	w.press("group web: size set to 4", "Enter")
	w.shows("running 5 of 5")
	w.press("[2 instances]", "2")
	w.press("/api_", "/", "a", "p", "i")
	w.tmux("send-keys", "-t", "0", "Escape")
	w.lacks("/api")
	w.press("[3 events]", "3")
	w.shows("created in web")
	w.tmux("resize-window", "-x", "120", "-y", "40")
	w.press("── events ──", "1")
	w.press("the shell is back", "q")
}
