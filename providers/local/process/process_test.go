package process

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// child starts a process that does nothing, and ends it with the test.
func child(t *testing.T) (Host, ID) {
	t.Helper()
	box, err := OpenHost()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "100000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p, err := box.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return box, p
}

// A process is known by more than its pid: one that has the pid of another time, or that ran
// before the box was booted, is not opened.
func TestOnlyTheProcessItselfIsRecognized(t *testing.T) {
	box, p := child(t)
	earlier, rebooted := p, p
	earlier.Started--
	rebooted.Boot = "another"
	for name, c := range map[string]struct {
		id   ID
		want bool
	}{"itself": {p, true}, "one that had its pid": {earlier, false}, "one before a reboot": {rebooted, false}, "none": {ID{}, false}} {
		if alive, err := box.Alive(c.id); alive != c.want || err != nil {
			t.Errorf("%s: alive %t, %v; want %t", name, alive, err, c.want)
		}
		h, err := box.Open(c.id)
		if c.want && err == nil {
			h.Close()
		}
		if (err == nil) != c.want || err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: open: %v", name, err)
		}
	}
}

func TestHowAChildEnded(t *testing.T) {
	box, p := child(t)
	if e, known := box.ExitOf(p); known {
		t.Fatalf("while it runs: %s", e)
	}
	h, err := box.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := h.Ended(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, known := box.ExitOf(p)
	if !known || e.Status != 128+9 || e.Signal != 9 || e.String() != "process was ended by signal 9 (killed)" {
		t.Errorf("%+v, %t: %s", e, known, e)
	}
	dir := t.TempDir()
	if err := box.RecordExit(dir, p); err != nil {
		t.Fatal(err)
	}
	if err := h.Reap(); err != nil {
		t.Fatal(err)
	}
	if got, inOrder := box.HowEnded(dir, p); got != e.String() || inOrder {
		t.Errorf("out of the file: %q, in order %t, want %q", got, inOrder, e)
	}
	p.Started++
	if got, _ := box.HowEnded(dir, p); got == e.String() {
		t.Errorf("of another process: %q", got)
	}
}
