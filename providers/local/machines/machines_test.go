package machines

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// stranger is a process that is none of ours.
func stranger(t *testing.T, d *Machines) process.ID {
	t.Helper()
	cmd := exec.Command(agent(t), "100000")
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p, err := d.host.Identify(cmd.Process.Pid)
	must(t, err)
	return p
}

// TestStrangersAreNeverSignalled points the record of a dead machine at a
// process that came to its pid later.
func TestStrangersAreNeverSignalled(t *testing.T) {
	for name, c := range map[string]struct {
		recorded func(stranger process.ID) process.ID
		want     driver.Status
	}{
		"recycled pid": {func(p process.ID) process.ID { p.Started--; return p }, driver.Failed},
		"another boot": {func(p process.ID) process.ID { p.Boot = "another"; return p }, driver.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			d := empty(t)
			req, p := running(t, d)
			kill(t, d, p)
			other := stranger(t, d)
			must(t, store.Record(d.store.Dir(req.InstanceID), c.recorded(other)))

			awaitStatus(t, d, req.InstanceID, c.want)
			must(t, d.Halt(t.Context(), owner))
			must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
			awaitGone(t, d, req.InstanceID)
			if alive, err := d.host.Alive(other); !alive || err != nil {
				t.Errorf("the stranger was killed: %v", err)
			}
			if _, err := d.host.Open(c.recorded(other)); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("a stranger could be opened: %v", err)
			}
		})
	}
}

func TestF28_KilledMachineFailsAtOnce(t *testing.T) {
	d := empty(t)
	req, p := running(t, d)
	kill(t, d, p)
	m, err := d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
	if err != nil || m.Status != driver.Failed {
		t.Errorf("after kill -9: %s, %v", m.Status, err)
	}
	if m, err = d.Create(t.Context(), req); err != nil || m.Status != driver.Failed {
		t.Errorf("a repeated create: %s, %v; a dead machine stays dead", m.Status, err)
	}
}

func TestChildrenAreReaped(t *testing.T) {
	d := empty(t)
	_, p := running(t, d)
	kill(t, d, p)
	await(t, func() bool { // the watcher may come after kill's own wait
		_, err := d.host.Stat(p.PID)
		return errors.Is(err, os.ErrProcessDone)
	})
}

func TestRebootStopsAndResumeStarts(t *testing.T) {
	d := empty(t)
	req, p := running(t, d)
	kill(t, d, p) // as a reboot does
	next := open(t, d.store.Root)
	next.host.Boot = "the boot after"

	awaitStatus(t, next, req.InstanceID, driver.Stopped)
	if n, err := next.Resume(t.Context(), owner); n != 1 || err != nil {
		t.Fatalf("resume: %d, %v", n, err)
	}
	again := awaitStatus(t, next, req.InstanceID, driver.Running)
	if again.Boot != "the boot after" || again == p {
		t.Errorf("resumed as %+v, it was %+v", again, p)
	}
	must(t, next.Halt(t.Context(), owner))
}

func TestHaltAndResume(t *testing.T) {
	d := empty(t)
	req, p := running(t, d)
	failed, dead := running(t, d)
	kill(t, d, dead)
	unfinished := request(t)
	must(t, d.store.Build(unfinished))

	must(t, d.Halt(t.Context(), owner))
	if alive, err := d.host.Alive(p); alive || err != nil {
		t.Errorf("halt returned while a machine runs: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.store.Dir(req.InstanceID), store.PIDFile)); !os.IsNotExist(err) {
		t.Errorf("a stopped machine has a pid: %v", err)
	}
	for id, want := range map[identity.ID]driver.Status{
		req.InstanceID:        driver.Stopped,
		unfinished.InstanceID: driver.Stopped,
		failed.InstanceID:     driver.Failed,
	} {
		if m, err := d.Get(t.Context(), driver.Ref{InstanceID: id}); err != nil || m.Status != want {
			t.Errorf("%s is %s, %v; want %s", id, m.Status, err, want)
		}
	}
	d.Close()

	next := open(t, d.store.Root)
	if n, err := next.Resume(t.Context(), owner); n != 2 || err != nil {
		t.Errorf("resume: %d, %v; want 2", n, err)
	}
	awaitStatus(t, next, req.InstanceID, driver.Running)
	awaitStatus(t, next, unfinished.InstanceID, driver.Running)
	awaitStatus(t, next, failed.InstanceID, driver.Failed)
}

// TestInterruptedHaltIsResumed finds a machine that a dying server had marked
// as stopped without having stopped it.
func TestInterruptedHaltIsResumed(t *testing.T) {
	d := empty(t)
	req, p := running(t, d)
	must(t, os.WriteFile(filepath.Join(d.store.Dir(req.InstanceID), store.StoppedFile), nil, 0o600))
	awaitStatus(t, d, req.InstanceID, driver.Stopping)
	if n, err := d.Resume(t.Context(), owner); n != 1 || err != nil {
		t.Errorf("resume: %d, %v", n, err)
	}
	if now := awaitStatus(t, d, req.InstanceID, driver.Running); now == p {
		t.Error("the machine was not stopped before it was started")
	}
}

// TestDeleteEndsTheWholeSession has a first process that ignores the polite
// signal, and a child that outlives it.
func TestDeleteEndsTheWholeSession(t *testing.T) {
	for name, script := range map[string]string{
		"stubborn":         `trap '' TERM; "$NSTANCE_AGENT" 100000 & echo $! > child; while :; do wait; done`,
		"child of another": `(trap '' TERM; exec "$NSTANCE_AGENT" 100000) & echo $! > child; ` + userData,
	} {
		t.Run(name, func(t *testing.T) {
			d := empty(t)
			req := request(t)
			req.UserData = []byte(script)
			_, err := d.Create(t.Context(), req)
			must(t, err)
			first := awaitStatus(t, d, req.InstanceID, driver.Running)
			child := childOf(t, d, req.InstanceID)

			must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
			dies(t, d, first)
			dies(t, d, child)
			awaitGone(t, d, req.InstanceID)
		})
	}
}

func childOf(t *testing.T, d *Machines, id identity.ID) process.ID {
	t.Helper()
	var pid int
	await(t, func() bool {
		text, err := os.ReadFile(filepath.Join(d.store.Dir(id), "child"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	p, err := d.host.Identify(pid)
	must(t, err)
	return p
}

func TestDeleteOfADeadMachineEndsItsChildren(t *testing.T) {
	d := empty(t)
	req := request(t)
	req.UserData = []byte(`"$NSTANCE_AGENT" 100000 & echo $! > child; ` + userData)
	_, err := d.Create(t.Context(), req)
	must(t, err)
	first := awaitStatus(t, d, req.InstanceID, driver.Running)
	child := childOf(t, d, req.InstanceID)
	kill(t, d, first)
	must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
	dies(t, d, child)
	awaitGone(t, d, req.InstanceID)
}

// awaitStopped returns when the stop signal has taken effect: until then another
// signal may overtake it.
func awaitStopped(t *testing.T, p process.ID) {
	t.Helper()
	await(t, func() bool {
		proc, err := procfs.NewProc(p.PID)
		must(t, err)
		stat, err := proc.Stat()
		must(t, err)
		return stat.State == "T"
	})
}

// TestDeleteDoesNotWait deletes a stopped process, which only the killing
// signal ends, and returns before that.
func TestDeleteDoesNotWait(t *testing.T) {
	d := empty(t)
	req, p := running(t, d)
	h, err := d.host.Open(p)
	must(t, err)
	defer h.Close()
	must(t, h.Signal(unix.SIGSTOP))
	awaitStopped(t, p)
	must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
	m, err := d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
	if err != nil || m.Status != driver.Deleting {
		t.Errorf("right after the delete: %s, %v", m.Status, err)
	}
	must(t, h.Wait(t.Context()))
	awaitGone(t, d, req.InstanceID)
}
