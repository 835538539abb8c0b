//go:build console

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// columns and rows are the size of a window, in characters: the least that everything has to work at.
const columns, rows = 80, 24

// terminal is a window of tmux with a shell, of which everything that is written to it is recorded.
type terminal struct {
	t      *testing.T
	socket string
	began  time.Time

	mu    sync.Mutex
	tape  []frame
	ended chan struct{} // closed when nothing is recorded any more
}

// frame is what was written to a terminal at a time.
type frame struct {
	at   time.Duration // since the terminal was opened
	text string
}

// openTerminal opens a window whose shell is in a directory. It is closed with the test.
func openTerminal(t *testing.T, dir string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("tmux is not installed: apt-get install -y tmux")
	}
	private, err := os.MkdirTemp("", "tmux-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	w := &terminal{t: t, socket: filepath.Join(private, "s"), began: time.Now(), ended: make(chan struct{})}
	tape := filepath.Join(private, "tape")
	if err := syscall.Mkfifo(tape, 0o600); err != nil {
		t.Fatal(err)
	}
	start := filepath.Join(private, "start") // of the shell: to root it would say that it is root's
	if err := os.WriteFile(start, []byte("PS1='$ '\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.tmux("new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "-c", dir, "-e", "ENV="+start, "-e", "NSTANCE_ADMIN_CONTEXT=", "sh")
	w.tmux("set-option", "-g", "history-limit", "10000")
	file, err := os.OpenFile(tape, os.O_RDWR, 0) // so that it opens without a writer, and does not end with one
	if err != nil {
		t.Fatal(err)
	}
	w.tmux("pipe-pane", "-t", "0", "exec cat > "+tape)
	go w.record(file)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows\n%s", w.screen())
		}
		_ = exec.Command("tmux", "-S", w.socket, "kill-server").Run() // it may have ended with its shell
		_ = file.Close()
		<-w.ended
		_ = os.RemoveAll(private)
	})
	w.shows("$ ")
	return w
}

func (w *terminal) record(file *os.File) {
	defer close(w.ended)
	buffer := make([]byte, 64<<10)
	for {
		n, err := file.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.tape = append(w.tape, frame{time.Since(w.began), string(buffer[:n])})
		w.mu.Unlock()
	}
}

// tmux runs a command of tmux.
func (w *terminal) tmux(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tmux", append([]string{"-S", w.socket, "-f", os.DevNull}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// screen is what the window shows, with lines that were too long for it in one.
func (w *terminal) screen() string { return w.tmux("capture-pane", "-p", "-J", "-t", "0") }

// all is what the window has shown since it was opened.
func (w *terminal) all() string { return w.tmux("capture-pane", "-p", "-J", "-S", "-", "-t", "0") }

// types types a line.
func (w *terminal) types(line string) {
	w.t.Helper()
	w.tmux("send-keys", "-t", "0", "-l", line)
	w.tmux("send-keys", "-t", "0", "Enter")
}

// press presses a key, as tmux names it.
func (w *terminal) press(key string) {
	w.t.Helper()
	w.tmux("send-keys", "-t", "0", key)
}

// shows waits until the window shows all of some texts.
func (w *terminal) shows(texts ...string) {
	w.t.Helper()
	w.until(strings.Join(texts, ", "), func() bool {
		screen := w.screen()
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// answers waits until what the window shows after a line that was typed has some texts.
func (w *terminal) answers(line string, texts ...string) {
	w.t.Helper()
	w.until(line+" shows "+strings.Join(texts, ", "), func() bool {
		all := w.all()
		_, answer, _ := strings.Cut(all[max(0, strings.LastIndex(all, line)):], "\n")
		for _, text := range texts {
			if !strings.Contains(answer, text) {
				return false
			}
		}
		return true
	})
}

// prompts waits until the shell awaits the next line.
func (w *terminal) prompts() {
	w.t.Helper()
	w.until("the prompt", func() bool { return strings.HasSuffix(strings.TrimRight(w.screen(), "\n "), "\n$") })
}

func (w *terminal) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(2 * patience); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("the terminal does not show %s", what)
		}
	}
}

// cast returns the recording as asciicast, version 2: https://docs.asciinema.org/manual/asciicast/v2/.
func (w *terminal) cast(title string) []byte {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []byte
	line := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(append(out, text...), '\n')
	}
	line(map[string]any{"version": 2, "width": columns, "height": rows, "timestamp": w.began.Unix(), "title": title, "idle_time_limit": 2})
	for _, f := range w.tape {
		line([]any{float64(f.at.Milliseconds()) / 1000, "o", f.text})
	}
	return out
}
