//go:build packages

package packages_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner/direct"
)

var (
	rootArchive = flag.String("root", "", "archive of a Debian with systemd")
	newPackages = flag.String("new", "", "directory with the packages of this tree")
	oldPackages = flag.String("old", "", "directory with the packages of the release before")
)

// TestMain fails with what is missing: a level that cannot run is not a level that passed.
func TestMain(m *testing.M) {
	flag.Parse()
	var errs []error
	if os.Getuid() != 0 {
		errs = append(errs, errors.New("root: these tests start a machine"))
	}
	for _, program := range []string{"systemd-nspawn", "nsenter", "rpm", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%s: it is not installed; apt-get install systemd-container util-linux rpm tar", program))
		}
	}
	for _, path := range []string{*rootArchive, *newPackages, *oldPackages} {
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("make test-packages makes what is missing: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(os.Stderr, "preflight of test-packages failed:\n%v\n", err)
		os.Exit(1) //nolint:forbidigo // the process of tests has no other way to say so
	}
	os.Exit(m.Run()) //nolint:forbidigo // as testing does
}

// machine is a Debian with systemd.
type machine struct {
	t      *testing.T
	root   string
	runner *direct.Runner
}

const slot = journal.A

func unpack(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "--extract", "--directory", path, "--file", *rootArchive).CombinedOutput(); err != nil {
		t.Fatalf("unpack the root: %v: %s", err, out)
	}
}

func boot(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	name := fmt.Sprintf("packages-%d", os.Getpid())
	m := &machine{t: t, root: filepath.Join(dir, name)}
	unpack(t, m.root)
	m.runner = direct.New(direct.Options{
		Machines: dir, Logs: filepath.Join(dir, "logs"), Name: func(journal.Slot) string { return name },
		Known:     func(journal.Slot) journal.Leader { return journal.Leader{} },
		Arguments: []string{"--private-network"},
	})
	t.Cleanup(func() {
		if err := m.runner.Kill(context.WithoutCancel(t.Context()), slot); err != nil {
			t.Errorf("end the machine: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := m.runner.Boot(ctx, slot); err != nil {
		t.Fatal(err)
	}
	return m
}

// try runs a command line in the machine.
func (m *machine) try(line string) (string, int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 3*time.Minute)
	defer cancel()
	out, err := m.runner.Exec(ctx, slot, "/bin/sh", "-c", line+"")
	if err != nil {
		m.t.Fatalf("%s: %v", line, err)
	}
	return strings.TrimSpace(string(out.Text)), out.Code
}

// run is [machine.try] for what must succeed.
func (m *machine) run(line string) string {
	m.t.Helper()
	out, code := m.try(line)
	if code != 0 {
		m.t.Fatalf("%s: exit code %d: %s", line, code, out)
	}
	return out
}

// until looks again until a check succeeds.
func (m *machine) until(what string, check func() error) time.Duration {
	m.t.Helper()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			journal, _ := m.try("journalctl --no-pager --lines=60 --unit=nstance-server; systemctl status nstance-server --no-pager")
			m.t.Fatalf("%s: not within a minute: %v\n%s", what, err, journal)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// install copies a package into the machine and installs it.
func (m *machine) install(dir, name string) {
	m.t.Helper()
	file := only(m.t, filepath.Join(dir, name+"_*.deb"))
	data, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.root, "root", filepath.Base(file)), data, 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.run("dpkg --install /root/" + filepath.Base(file))
}

func only(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v, %v, want one file", pattern, files, err)
	}
	return files[0]
}

// content are the files below a folder of the machine, with sums of what is in them.
func (m *machine) content(dir string) map[string]string {
	m.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(m.root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		sum := sha256.Sum256(data)
		all[strings.TrimPrefix(path, m.root)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return all
}
