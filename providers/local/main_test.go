package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
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

func open(t testing.TB, dir string) *Driver {
	t.Helper()
	d, err := New(Options{Dir: dir, Agent: agent(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// empty returns a driver over a new directory, whose machines end with the test.
func empty(t testing.TB) *Driver {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		last := open(t, dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if p, err := readStart(filepath.Join(dir, e.Name())); err == nil {
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
func running(t testing.TB, d *Driver) (driver.CreateRequest, process) {
	t.Helper()
	req := request(t)
	_, err := d.Create(t.Context(), req)
	must(t, err)
	return req, awaitStatus(t, d, req.InstanceID, driver.Running)
}

// awaitStatus asks until the machine has the status, and returns its process.
func awaitStatus(t testing.TB, d *Driver, id identity.ID, want driver.Status) process {
	t.Helper()
	await(t, func() bool {
		m, err := d.Get(t.Context(), driver.Ref{InstanceID: id})
		must(t, err)
		return m.Status == want
	})
	p, err := readStart(d.dir(id))
	must(t, err)
	return p
}

func awaitGone(t testing.TB, d *Driver, id identity.ID) {
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

// kill ends a process like kill -9, and returns when it has ended. To bury it is left to
// the driver, as somebody else would have to.
func kill(t testing.TB, d *Driver, p process) {
	t.Helper()
	h, err := d.host.open(p)
	must(t, err)
	defer h.close()
	must(t, h.signal(unix.SIGKILL))
	must(t, h.ended(t.Context()))
}

// dies waits until a process has ended by itself.
func dies(t testing.TB, d *Driver, p process) {
	t.Helper()
	h, err := d.host.open(p)
	if errors.Is(err, os.ErrProcessDone) {
		return
	}
	must(t, err)
	defer h.close()
	must(t, h.ended(t.Context()))
}

// withBalancers makes the load balancers "www", with a stranger's file, and "api".
func withBalancers(t testing.TB, d *Driver) *Driver {
	t.Helper()
	for _, key := range []string{"www", "api"} {
		must(t, os.MkdirAll(filepath.Join(d.opts.Dir, balancersDir, key), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(d.opts.Dir, balancersDir, "www", "README"), nil, 0o644))
	return d
}

func wantKind(t testing.TB, err error, want driver.Kind) {
	t.Helper()
	if err == nil || driver.KindOf(err) != want {
		t.Errorf("error %v, want kind %s", err, want)
	}
}

func TestDriverKeepsTheContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		New:       func(t *testing.T) driver.Driver { return withBalancers(t, empty(t)) },
		Request:   func(req *driver.CreateRequest) { req.UserData = []byte(userData) },
		Balancers: []driver.LoadBalancer{{Key: "www"}, {Key: "api"}},
		Reopen:    func(t *testing.T, d driver.Driver) driver.Driver { return open(t, d.(*Driver).opts.Dir) },
		Kill: func(t *testing.T, d driver.Driver, id identity.ID) {
			p, err := readStart(d.(*Driver).dir(id))
			must(t, err)
			kill(t, d.(*Driver), p)
		},
	})
}
