package machines

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

const unknownExit = "process ended; its exit status is unknown: only the server that started the machine records it, while it runs"

// L3: a machine that failed says how it ended, at the first look already, to every server
// and after the process was reaped.
func TestL3_FailedMachineSaysHowItsProcessEnded(t *testing.T) {
	for name, c := range map[string]struct {
		userData string
		signal   unix.Signal // sent to the process; 0: it ends by itself
		want     string
	}{
		"exit":      {"exit 3\n", 0, "process ended with exit status 3"},
		"no agent":  {"exec ./agent\n", 0, "process ended with exit status 127"},
		"killed":    {userData, unix.SIGKILL, "process was ended by signal 9 (killed)"},
		"terminate": {userData, unix.SIGTERM, "process was ended by signal 15 (terminated)"},
	} {
		t.Run(name, func(t *testing.T) {
			d := empty(t)
			req := request(t)
			req.UserData = []byte(c.userData)
			_, err := d.Create(t.Context(), req)
			must(t, err)
			p, err := store.ReadStart(d.store.Dir(req.InstanceID))
			must(t, err)
			if c.signal != 0 {
				awaitStatus(t, d, req.InstanceID, driver.Running)
				h, err := d.host.Open(p)
				must(t, err)
				must(t, h.Signal(c.signal))
				h.Close()
			}
			dies(t, d, p)

			check := func(when string, d *Machines) {
				t.Helper()
				m, err := d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
				if err != nil || m.Status != driver.Failed || m.Reason != c.want {
					t.Errorf("%s: %s, because %q, %v; want %q", when, m.Status, m.Reason, err, c.want)
				}
			}
			check("at once", d)
			awaitReaped(t, d, p)
			check("when it is reaped", d)
			if m, err := d.Create(t.Context(), req); err != nil || m.Reason != c.want {
				t.Errorf("a repeated create: %s, because %q, %v", m.Status, m.Reason, err)
			}
			d.Close()
			check("after a restart of the server", open(t, d.store.Root))
		})
	}
}

// TestM85_AMachineThatSwitchesItselfOff: it is stopped and not failed, for every server and after its process was
// reaped; it stays off when its server starts, and can be switched on.
func TestM85_AMachineThatSwitchesItselfOff(t *testing.T) {
	d := empty(t)
	req := request(t)
	req.UserData = []byte("[ ! -e once ] || exec sleep infinity\n: >once\nexit 0\n")
	_, err := d.Create(t.Context(), req)
	must(t, err)
	p, err := store.ReadStart(d.store.Dir(req.InstanceID))
	must(t, err)
	dies(t, d, p)
	ref := driver.Ref{InstanceID: req.InstanceID}
	check := func(when string, d *Machines) {
		t.Helper()
		m, err := d.Get(t.Context(), ref)
		if err != nil || m.Status != driver.Stopped || m.Reason != "process ended with exit status 0" {
			t.Errorf("%s: %s, because %q, %v", when, m.Status, m.Reason, err)
		}
	}
	check("at once", d)
	awaitReaped(t, d, p)
	check("when it is reaped", d)
	d.Close()
	d = open(t, d.store.Root)
	if n, err := d.Resume(t.Context(), owner); n != 0 || err != nil {
		t.Errorf("%d machines were resumed, %v", n, err)
	}
	check("after a restart of the server", d)
	must(t, d.Power(t.Context(), ref, driver.PowerOn))
	awaitStatus(t, d, req.InstanceID, driver.Running)
}

// awaitReaped waits until a process is not even a zombie.
func awaitReaped(t *testing.T, d *Machines, p process.ID) {
	t.Helper()
	await(t, func() bool {
		_, err := d.host.Stat(p.PID)
		return errors.Is(err, os.ErrProcessDone)
	})
}

func TestReasonsOfMachinesThatDoNotRun(t *testing.T) {
	d := empty(t)
	reasonOf := func(d *Machines, ref driver.Ref, want driver.Status) string {
		t.Helper()
		m, err := d.Get(t.Context(), ref)
		if err != nil || m.Status != want {
			t.Errorf("%s, %v; want %s", m.Status, err, want)
		}
		return m.Reason
	}
	req, _ := running(t, d)
	ref := driver.Ref{InstanceID: req.InstanceID}
	if got := reasonOf(d, ref, driver.Running); got != "" {
		t.Errorf("a running machine does not run because %q", got)
	}
	must(t, d.Power(t.Context(), ref, driver.PowerOff))
	if got := reasonOf(d, ref, driver.Stopped); got != "" {
		t.Errorf("somebody asked for that, and it says %q", got)
	}
	if there, err := store.Exists(filepath.Join(d.store.Dir(req.InstanceID), process.ExitFile)); there || err != nil {
		t.Errorf("an end that was asked for is recorded: %v", err)
	}
	must(t, d.Power(t.Context(), ref, driver.PowerOn))
	p := awaitStatus(t, d, req.InstanceID, driver.Running)
	kill(t, d, p)
	awaitReaped(t, d, p)
	rebooted := open(t, d.store.Root)
	rebooted.host.Boot = "the boot after"
	if got, want := reasonOf(rebooted, ref, driver.Stopped), "the box was booted since the machine was started"; got != want {
		t.Errorf("%q, want %q", got, want)
	}

	// The file of an earlier process is no reason, and neither is half a file.
	path := filepath.Join(d.store.Dir(req.InstanceID), process.ExitFile)
	text, err := os.ReadFile(path)
	must(t, err)
	other := p
	other.Started++
	must(t, store.Record(d.store.Dir(req.InstanceID), other))
	if got := reasonOf(d, ref, driver.Failed); got != unknownExit {
		t.Errorf("by the exit of another process: %q", got)
	}
	must(t, store.Record(d.store.Dir(req.InstanceID), p))
	for _, text := range [][]byte{text[:len(text)/2], nil} {
		must(t, os.WriteFile(path, text, 0o600))
		if got := reasonOf(d, ref, driver.Failed); got != unknownExit {
			t.Errorf("by %q: %q", text, got)
		}
	}
	must(t, os.Remove(path))
	if got := reasonOf(d, ref, driver.Failed); got != unknownExit {
		t.Errorf("without the file: %q", got)
	}
	must(t, d.Power(t.Context(), ref, driver.PowerCycle))
	awaitStatus(t, d, req.InstanceID, driver.Running)
}

func TestExitOf(t *testing.T) {
	d := empty(t)
	_, p := running(t, d)
	for name, of := range map[string]process.ID{
		"runs": p, "none": {}, "not ours": {PID: 1, Started: 1, Boot: d.host.Boot},
	} {
		if e, known := d.host.ExitOf(of); known {
			t.Errorf("%s: %s", name, e)
		}
	}
	stopped := p
	stopped.Started--
	kill(t, d, p)
	if e, known := d.host.ExitOf(stopped); known {
		t.Errorf("of an earlier process with the pid: %s", e)
	}
}
