//go:build kube

package stories_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nstance.dev/e2e/env/kube"
)

// TestQuickStart follows docs/demand/start.md to the letter: a Pod that is pending runs on a machine that was bought for it,
// three minutes after the Pod is gone there is none, and nothing is left when it was interrupted. What the page shows is printed.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	page := blocks(t, filepath.Join(root, "docs", "demand", "start.md"))
	first, second := page[0], page[1:]
	terminal := open(t, root, first.commands)
	kube.Await(t, "everything is ready", func(context.Context) error {
		return terminal.shows(first.printed)
	})
	settings := ""
	for _, b := range second {
		began := time.Now()
		out, err := shell(t.Context(), root, settings+b.commands).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", b.commands, err, out)
		}
		if err := shows(string(out), b.printed); err != nil {
			t.Errorf("%s: %v", b.commands, err)
		}
		if took := time.Since(began); strings.Contains(b.commands, "kubectl delete") && took > 3*time.Minute {
			t.Errorf("machines are gone %v after their Pod, want at most 3m", took)
		}
		for line := range strings.Lines(b.commands) {
			if strings.HasPrefix(line, "export ") {
				settings += line
			}
		}
	}
	terminal.interrupt()
	if _, err := os.Stat(filepath.Join(root, ".dev-demand")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf(".dev-demand is left: %v", err)
	}
	if left := programs(t, filepath.Join(root, ".dev-demand")); len(left) > 0 {
		t.Errorf("programs are left:\n%s", strings.Join(left, "\n"))
	}
}

// block is what one is told to type, and what the page shows of the answer.
type block struct{ commands, printed string }

var fence = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")

// blocks are those of a page, in order. The first one stays in a terminal of its own.
func blocks(t *testing.T, path string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		switch {
		case m[1] == "sh":
			all = append(all, block{commands: m[2]})
		case len(all) == 0:
			t.Fatalf("%s shows an answer before the first command", path)
		default:
			all[len(all)-1].printed += m[2]
		}
	}
	if len(all) < 4 {
		t.Fatalf("%s has %d blocks of commands: the test looks for the wrong thing", path, len(all))
	}
	return all
}

func shell(ctx context.Context, dir, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	// The page makes a cluster of its own, wherever those of other tests are.
	cmd.Env = append(os.Environ(), "NSTANCE_TEST_PLACE="+string(kube.Here))
	return cmd
}

// variable is what differs each time: ids of machines and Pods, times, and the decimals of measures.
var variable = regexp.MustCompile(`dev[0-9a-z]{26}|hungry-[0-9a-f]{8}|\b([0-9]+[hms])+\b|"time":"[^"]*"|127\.0\.0\.1:[0-9]+`)

// plain is a line without what differs each time.
func plain(line string) string {
	return strings.Join(strings.Fields(variable.ReplaceAllString(line, "~")), " ")
}

// shows says which line of what the page shows was not printed.
func shows(printed, page string) error {
	have := map[string]bool{}
	for line := range strings.Lines(printed) {
		have[plain(line)] = true
	}
	for line := range strings.Lines(page) {
		if !have[plain(line)] {
			return fmt.Errorf("the page shows\n%s\nand this was printed:\n%s", line, printed)
		}
	}
	return nil
}

// terminal is where a command runs until it is interrupted.
type terminal struct {
	t   *testing.T
	cmd *exec.Cmd

	mu  sync.Mutex
	out bytes.Buffer
}

// Write keeps what the command prints.
func (w *terminal) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *terminal) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// open starts a command, which is ended with the test at the latest.
func open(t *testing.T, dir, script string) *terminal {
	t.Helper()
	w := &terminal{t: t, cmd: shell(context.WithoutCancel(t.Context()), dir, script)}
	w.cmd.Stdout, w.cmd.Stderr = w, w
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			w.interrupt()
		}
		if t.Failed() {
			t.Logf("%s:\n%s", script, w.text())
		}
	})
	return w
}

func (w *terminal) shows(page string) error {
	if syscall.Kill(w.cmd.Process.Pid, 0) != nil {
		return errors.New("it has ended")
	}
	return shows(w.text(), page)
}

// interrupt is Ctrl-C.
func (w *terminal) interrupt() {
	w.t.Helper()
	if err := syscall.Kill(-w.cmd.Process.Pid, syscall.SIGINT); err != nil {
		w.t.Error(err)
	}
	_ = w.cmd.Wait() // make and the shell say that they were interrupted
	if !strings.Contains(w.text(), "dev-demand: ending\n") || strings.Contains(w.text(), "dev-demand: logs") {
		w.t.Errorf("it did not end as it should:\n%s", w.text())
	}
}

// programs are those that run and have a path in their arguments or environment.
func programs(t *testing.T, path string) (all []string) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		args, _ := os.ReadFile(filepath.Join(p, "cmdline")) // it may have ended, or be another user's
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		if bytes.Contains(args, []byte(path)) || bytes.Contains(env, []byte(path)) {
			all = append(all, filepath.Base(p)+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return all
}
