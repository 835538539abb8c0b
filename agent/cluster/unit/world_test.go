package unit

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/agent/cluster"
	"nstance.dev/agent/cluster/handover"
	"nstance.dev/protos/binding"
)

// envProcess has the test's binary be the program, on the machine in this directory.
const envProcess = "UNIT_TEST_MACHINE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envProcess); dir != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := New(optionsOf(dir), slog.New(slog.NewTextHandler(os.Stderr, nil))).Once(ctx); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func optionsOf(dir string) Options {
	return Options{
		Requests: filepath.Join(dir, "agent", "cluster"), State: filepath.Join(dir, "state"), Leave: filepath.Join(dir, "leave.d"),
		CloudInit: filepath.Join(dir, "cloud-init"), Runcmd: filepath.Join(dir, "runcmd"),
		Env: []string{"PATH=" + os.Getenv("PATH"), "MACHINE=" + dir}, Grace: 200 * time.Millisecond,
	}
}

// machine is a directory with everything, its agent's side, and the log.
type machine struct {
	t     *testing.T
	dir   string
	opts  Options
	agent *handover.Handover
	log   bytes.Buffer
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, dir: dir, opts: optionsOf(dir)}
	m.agent = handover.New(m.opts.Requests, filepath.Join(m.opts.State, statusFile))
	for _, d := range []string{"agent", "leave.d"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.write("leave.d/50-leave", "#!/bin/sh\necho left >>$MACHINE/ran\n", 0o755)
	m.once()
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) write(name, content string, mode os.FileMode) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path(name), []byte(content), mode); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Chmod(m.path(name), mode); err != nil {
		m.t.Fatal(err)
	}
}

// read returns the content of a file, "" if there is none.
func (m *machine) read(name string) string {
	data, err := os.ReadFile(m.path(name))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(data)
}

func (m *machine) unit() *Unit { return New(m.opts, slog.New(slog.NewTextHandler(&m.log, nil))) }

func (m *machine) once() {
	m.t.Helper()
	if err := m.unit().Once(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// joins hands a blob over and runs the program.
func (m *machine) joins(id, blob string) binding.Report {
	m.t.Helper()
	m.agent.Join(binding.Join{Binding: id, Blob: []byte(blob)})
	m.once()
	return m.report()
}

func (m *machine) leaves(id string) binding.Report {
	m.t.Helper()
	m.agent.Leave(id)
	m.once()
	return m.report()
}

func (m *machine) report() binding.Report {
	m.t.Helper()
	r, ok := m.agent.Report()
	if !ok {
		m.t.Fatal("the status cannot be read")
	}
	return r
}

func (m *machine) expect(what string, r binding.Report, id string, action binding.Action, state binding.State, exit int) {
	m.t.Helper()
	if r.Binding != id || r.Action != action || r.State != state || r.ExitCode != exit || (r.Error == "") != (state != binding.Failed) {
		m.t.Errorf("%s: %v; want %s: %s %s with %d", what, r, id, action, state, exit)
	}
}

// waitFor waits for a file of another process.
func (m *machine) waitFor(name string) {
	m.t.Helper()
	await(m.t, "file "+name, func() bool { return m.read(name) != "" })
}

func (m *machine) expectNoSecret(marked string) {
	m.t.Helper()
	if strings.Contains(m.log.String(), marked) {
		m.t.Errorf("logged %s", m.log.String())
	}
	err := filepath.WalkDir(m.opts.State, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == statusFile {
			return err
		}
		if data, err := os.ReadFile(path); err != nil || bytes.Contains(data, []byte(marked)) {
			m.t.Errorf("%s still holds the secret, %v", path, err)
		}
		return nil
	})
	if err != nil {
		m.t.Error(err)
	}
}

// status is what the program has written down.
func (m *machine) status() cluster.Status {
	m.t.Helper()
	s, err := cluster.DecodeStatus([]byte(m.read("state/status")))
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// await waits for what another process does.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	for again := time.Tick(time.Millisecond); !done(); {
		select {
		case <-again:
		case <-late:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}
