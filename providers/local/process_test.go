package local

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// stranger is a process that is none of ours.
func stranger(t *testing.T, d *Driver) process {
	t.Helper()
	cmd := exec.Command(agent(t), "100000")
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p, err := d.host.identify(cmd.Process.Pid)
	must(t, err)
	return p
}

// TestStrangersAreNeverSignalled points the record of a dead machine at a
// process that came to its pid later.
func TestStrangersAreNeverSignalled(t *testing.T) {
	for name, c := range map[string]struct {
		recorded func(stranger process) process
		want     driver.Status
	}{
		"recycled pid": {func(p process) process { p.Started--; return p }, driver.Failed},
		"another boot": {func(p process) process { p.Boot = "another"; return p }, driver.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			d := empty(t)
			req, p := running(t, d)
			kill(t, d, p)
			other := stranger(t, d)
			must(t, record(d.dir(req.InstanceID), c.recorded(other)))

			awaitStatus(t, d, req.InstanceID, c.want)
			must(t, d.Halt(t.Context(), owner))
			must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
			awaitGone(t, d, req.InstanceID)
			if alive, err := d.host.alive(other); !alive || err != nil {
				t.Errorf("the stranger was killed: %v", err)
			}
			if _, err := d.host.open(c.recorded(other)); !errors.Is(err, os.ErrProcessDone) {
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

func TestChildrenAreBuried(t *testing.T) {
	d := empty(t)
	_, p := running(t, d)
	kill(t, d, p)
	await(t, func() bool { // the watcher may come after kill's own wait
		_, err := d.host.stat(p.PID)
		return errors.Is(err, os.ErrProcessDone)
	})
}

func TestRebootStopsAndResumeStarts(t *testing.T) {
	d := empty(t)
	req, p := running(t, d)
	kill(t, d, p) // as a reboot does
	next := open(t, d.opts.Dir)
	next.host.boot = "the boot after"

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
	must(t, d.build(unfinished))

	must(t, d.Halt(t.Context(), owner))
	if alive, err := d.host.alive(p); alive || err != nil {
		t.Errorf("halt returned while a machine runs: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.dir(req.InstanceID), pidFile)); !os.IsNotExist(err) {
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

	next := open(t, d.opts.Dir)
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
	must(t, os.WriteFile(filepath.Join(d.dir(req.InstanceID), stoppedFile), nil, 0o600))
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

func childOf(t *testing.T, d *Driver, id identity.ID) process {
	t.Helper()
	var pid int
	await(t, func() bool {
		text, err := os.ReadFile(filepath.Join(d.dir(id), "child"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	p, err := d.host.identify(pid)
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
func awaitStopped(t *testing.T, p process) {
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
	h, err := d.host.open(p)
	must(t, err)
	defer h.close()
	must(t, h.signal(unix.SIGSTOP))
	awaitStopped(t, p)
	must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
	m, err := d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
	if err != nil || m.Status != driver.Deleting {
		t.Errorf("right after the delete: %s, %v", m.Status, err)
	}
	must(t, h.wait(t.Context()))
	awaitGone(t, d, req.InstanceID)
}

func TestLeaderAddresses(t *testing.T) {
	d := empty(t)
	want := driver.Addresses{Registration: "127.0.0.1:1", Operator: "127.0.0.1:2", Agent: "127.0.0.1:3", Health: "127.0.0.1:4"}
	for range 2 {
		must(t, d.AssignLeaderNetwork(t.Context(), want))
	}
	data, err := os.ReadFile(filepath.Join(d.opts.Dir, "leader.json"))
	must(t, err)
	var got map[string]string
	must(t, json.Unmarshal(data, &got))
	if len(got) != 4 || got["registration"] != want.Registration || got["operator"] != want.Operator || got["agent"] != want.Agent || got["health"] != want.Health {
		t.Errorf("leader.json: %s", data)
	}
	must(t, d.ReleaseLeaderNetwork(t.Context()))
	if _, err := os.Stat(filepath.Join(d.opts.Dir, "leader.json")); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if list, err := d.List(t.Context(), owner); err != nil || len(list) > 0 {
		t.Errorf("list: %v, %v", list, err)
	}
}

func TestLimits(t *testing.T) {
	d := empty(t)
	if got, want := d.Limits(), (driver.Limits{Calls: driver.Bucket{Rate: 200, Burst: 50}}); got != want || d.Lag() != time.Duration(0) {
		t.Errorf("limits %+v, lag %v; want %+v, 0", got, d.Lag(), want)
	}
	id := request(t).InstanceID
	if got := d.ProviderURI(driver.Ref{InstanceID: id}); got != "nstance://local/"+string(id) {
		t.Errorf("URI %s", got)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for name, opts := range map[string]Options{
		"no dir":          {Agent: agent(t)},
		"no agent":        {Dir: t.TempDir(), Agent: "/nowhere/nstance-agent"},
		"agent is a dir":  {Dir: t.TempDir(), Agent: "/"},
		"default missing": {Dir: t.TempDir()},
	} {
		if d, err := New(opts); err == nil {
			d.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
