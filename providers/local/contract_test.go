package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/rules"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sleeper is a program that does nothing until it is told to end.
func sleeper(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const script = `exec "$NSTANCE_AGENT" 100000`

func openDriver(t testing.TB, dir string) *Driver {
	t.Helper()
	d, err := New(Options{Dir: dir, Agent: sleeper(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// emptyDriver returns a driver over a new directory, whose machines end with the test.
func emptyDriver(t testing.TB) *Driver {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		last := openDriver(t, dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if id, err := identity.ParseID(e.Name()); err == nil {
				endMachine(t, last, id)
			}
		}
	})
	return openDriver(t, dir)
}

// endMachine deletes a machine, and returns when it is gone.
func endMachine(t testing.TB, d *Driver, id identity.ID) {
	t.Helper()
	ctx, ref := context.WithoutCancel(t.Context()), driver.Ref{InstanceID: id}
	if err := d.Delete(ctx, ref); err != nil {
		t.Error(err)
		return
	}
	for {
		if _, err := d.Get(ctx, ref); driver.IsNotFound(err) {
			return
		}
		_, _ = unix.Poll(nil, 2) // others have to work
	}
}

// killMachine ends a machine's process like kill -9, and returns when it has ended. To reap it is
// left to the driver, as somebody else would have to.
func killMachine(t testing.TB, d *Driver, id identity.ID) {
	t.Helper()
	p, err := store.ReadStart(filepath.Join(d.opts.Dir, string(id)))
	check(t, err)
	box, err := process.OpenHost()
	check(t, err)
	h, err := box.Open(p)
	check(t, err)
	defer h.Close()
	check(t, h.Signal(unix.SIGKILL))
	check(t, h.Ended(t.Context()))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withBalancers makes the load balancers "www", with a stranger's file, and "api".
func withBalancers(t testing.TB, d *Driver) *Driver {
	t.Helper()
	for _, key := range []string{"www", "api"} {
		check(t, os.MkdirAll(filepath.Join(d.opts.Dir, balancersDir, key), 0o755))
	}
	check(t, os.WriteFile(filepath.Join(d.opts.Dir, balancersDir, "www", "README"), nil, 0o644))
	return d
}

func TestDriverKeepsTheContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		New:       func(t *testing.T) driver.Driver { return withBalancers(t, emptyDriver(t)) },
		Request:   func(req *driver.CreateRequest) { req.UserData = []byte(script) },
		Capacity:  rules.Capacity(),
		Many:      20,
		Balancers: []driver.LoadBalancer{{Key: "www"}, {Key: "api"}},
		Reopen:    func(t *testing.T, d driver.Driver) driver.Driver { return openDriver(t, d.(*Driver).opts.Dir) },
		Kill: func(t *testing.T, d driver.Driver, id identity.ID) {
			killMachine(t, d.(*Driver), id)
		},
		Write: func(t *testing.T, d driver.Driver, id identity.ID, text string) {
			log, err := os.OpenFile(filepath.Join(d.(*Driver).opts.Dir, string(id), store.LogFile), os.O_APPEND|os.O_WRONLY, 0)
			check(t, err)
			_, err = log.WriteString(text)
			check(t, err)
			check(t, log.Close())
		},
	})
}
