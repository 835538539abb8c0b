package machines

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var owner = driver.Owner{Cluster: "dev", Shard: "local"}

// agent is a program that does nothing until it is told to end.
func agent(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const userData = `exec "$NSTANCE_AGENT" 100000`

func open(t testing.TB, dir string, change ...func(*Options)) *Machines {
	t.Helper()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Store: s, Agent: agent(t), LeaderFile: filepath.Join(dir, "leader.json"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	for _, c := range change {
		c(&opts)
	}
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// empty returns a driver over a new directory, whose machines end with the test.
func empty(t testing.TB) *Machines {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		last := open(t, dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if p, err := store.ReadStart(filepath.Join(dir, e.Name())); err == nil {
				if err := last.stop(context.WithoutCancel(t.Context()), identity.ID(e.Name()), p); err != nil {
					t.Error(err)
				}
			}
		}
	})
	return open(t, dir)
}

func request(t testing.TB) driver.CreateRequest {
	t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	return driver.CreateRequest{
		InstanceID: id, Owner: owner, Tenant: "default", Group: "web", Template: "worker",
		Kind: "knc", Arch: "amd64", UserData: []byte(userData), CreatedAt: id.CreatedAt(),
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running makes a machine and returns once its user data runs.
func running(t testing.TB, d *Machines) (driver.CreateRequest, process.ID) {
	t.Helper()
	req := request(t)
	_, err := d.Create(t.Context(), req)
	must(t, err)
	return req, awaitStatus(t, d, req.InstanceID, driver.Running)
}

// awaitStatus asks until the machine has the status, and returns its process.
func awaitStatus(t testing.TB, d *Machines, id identity.ID, want driver.Status) process.ID {
	t.Helper()
	await(t, func() bool {
		m, err := d.Get(t.Context(), driver.Ref{InstanceID: id})
		must(t, err)
		return m.Status == want
	})
	p, err := store.ReadStart(d.store.Dir(id))
	must(t, err)
	return p
}

func awaitGone(t testing.TB, d *Machines, id identity.ID) {
	t.Helper()
	await(t, func() bool {
		_, err := d.Get(t.Context(), driver.Ref{InstanceID: id})
		if err != nil && !driver.IsNotFound(err) {
			t.Fatal(err)
		}
		return err != nil
	})
}

// await yields to other processes until what is only theirs to do is done; the
// test's own time limit is the limit.
func await(t testing.TB, done func() bool) {
	t.Helper()
	for !done() {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		_, _ = unix.Poll(nil, 2)
	}
}

// kill ends a process like kill -9, and returns when it has ended. To reap it is left to
// the driver, as somebody else would have to.
func kill(t testing.TB, d *Machines, p process.ID) {
	t.Helper()
	h, err := d.host.Open(p)
	must(t, err)
	defer h.Close()
	must(t, h.Signal(unix.SIGKILL))
	must(t, h.Ended(t.Context()))
}

// dies waits until a process has ended by itself.
func dies(t testing.TB, d *Machines, p process.ID) {
	t.Helper()
	h, err := d.host.Open(p)
	if errors.Is(err, os.ErrProcessDone) {
		return
	}
	must(t, err)
	defer h.Close()
	must(t, h.Ended(t.Context()))
}

func wantKind(t testing.TB, err error, want driver.ErrorClass) {
	t.Helper()
	if err == nil || driver.ClassOf(err) != want {
		t.Errorf("error %v, want kind %s", err, want)
	}
}
