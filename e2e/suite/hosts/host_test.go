//go:build hosts || hostservice || hostnodes || hostvm

package hosts_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var rootArchive = flag.String("root", "", "archive of a root file system with systemd; make e2e-hosts makes one")

// preflight says what machines that run on this box miss. More are programs by the packages that they are in.
func preflight(more map[string]string) error {
	programs := map[string]string{"systemd-nspawn": "systemd-container", "nsenter": "util-linux", "ip": "iproute2"}
	maps.Copy(programs, more)
	return missing(programs)
}

// missing says what is missing here of what all of these tests need, and of programs, by the packages that
// they are in.
func missing(programs map[string]string) error {
	var errs []error
	if os.Getuid() != 0 {
		errs = append(errs, errors.New("root: these tests start machines; run make e2e-hosts as root"))
	}
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%s: it is not installed; apt-get install %s", program, pkg))
		}
	}
	if _, err := os.Stat(*rootArchive); err != nil {
		errs = append(errs, fmt.Errorf("-root: %w; make e2e-hosts makes it", err))
	}
	return errors.Join(errs...)
}

// lockFile is held while tests of machines run. Machines of all of them have the same names, in control
// groups that the whole box shares.
const lockFile = "/run/lock/nstance-e2e-hosts.lock"

// alone waits until no other tests of machines run on this box, and keeps them out until this process
// ends.
func alone() error {
	fd, err := unix.Open(lockFile, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", lockFile, err)
	}
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "waiting until other tests of node machines on this box have ended")
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lockFile, err)
	}
	return nil
}

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// trees makes root file systems of those names, and returns the directory that they are in.
func trees(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		unpack(t, filepath.Join(dir, name))
	}
	return dir
}

func unpack(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "--extract", "--directory", path, "--file", *rootArchive).CombinedOutput(); err != nil {
		t.Fatalf("unpack the root: %v: %s", err, out)
	}
}

// cgroups are the mounted hierarchies.
func cgroups(t *testing.T) (dirs []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[2] == "cgroup" || f[2] == "cgroup2" {
			dirs = append(dirs, f[1])
		}
	}
	return dirs
}

// moveAll moves the processes of a cgroup and of those below it.
func moveAll(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			return nil //nolint:nilerr // a cgroup may go while it is looked at
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for pid := range strings.FieldsSeq(string(text)) {
			if err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(pid), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Logf("move %s to %s: %v", pid, to, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// expectNothingLeft: no process, cgroup or mount of the machines.
func expectNothingLeft(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		for _, dir := range cgroups(t) {
			if _, err := os.Stat(filepath.Join(dir, "nstance-"+name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("cgroup nstance-%s is left in %s: %v", name, dir, err)
			}
		}
		if out, err := exec.CommandContext(t.Context(), "pgrep", "--full", "--list-full", "[-]-machine="+name+"( |$)").CombinedOutput(); err == nil {
			t.Errorf("processes of %s are left: %s", name, out)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		for _, name := range names {
			if strings.Contains(line, "/"+name) {
				t.Errorf("a mount is left: %s", line)
			}
		}
	}
}
