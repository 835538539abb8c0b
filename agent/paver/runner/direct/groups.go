package direct

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner/leader"
)

// group is a machine's directory in one hierarchy of cgroups.
type group struct {
	dir     string
	unified bool
}

// used are the hierarchies of version 1 in which a machine gets its own cgroup, where they exist.
var used = []string{"name=systemd", "memory", "pids", "cpu"}

// errNoGroups is matched by the error about a host on which no machine can have its own cgroup.
var errNoGroups = errors.New("no cgroup2 file system is mounted")

// hierarchies returns the mounted ones that are used, the unified one first.
func hierarchies() ([]group, error) {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var unified, legacy []group
	for _, m := range mounts {
		switch m.FSType {
		case "cgroup2":
			unified = append(unified, group{m.MountPoint, true})
		case "cgroup":
			for _, name := range used {
				if _, plain := m.SuperOptions[name]; plain || "name="+m.SuperOptions["name"] == name {
					legacy = append(legacy, group{m.MountPoint, false})
					break
				}
			}
		}
	}
	if len(unified) == 0 {
		return nil, errNoGroups
	}
	return append(unified[:1], legacy...), nil
}

// prefix is that of the names of all cgroups that are made here.
const prefix = "nstance-"

func groupsOf(machine string) ([]group, error) {
	all, err := hierarchies()
	for i := range all {
		all[i].dir = filepath.Join(all[i].dir, prefix+machine)
	}
	return all, err
}

func makeGroups(machine string) ([]group, error) {
	all, err := groupsOf(machine)
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		if err := os.Mkdir(g.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make cgroup: %w", err)
		}
	}
	return all, nil
}

// removeGroups removes a machine's cgroups with those that it made below.
func removeGroups(machine string) error {
	all, err := groupsOf(machine)
	if err != nil {
		return err
	}
	for _, g := range all {
		var dirs []string
		walkErr := filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		slices.Reverse(dirs) // what is below comes first
		for _, dir := range dirs {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				walkErr = errors.Join(walkErr, err)
			}
		}
		if walkErr != nil {
			return fmt.Errorf("remove cgroup: %w", walkErr)
		}
	}
	return nil
}

// members are the processes of a machine.
type members struct {
	all        []int
	supervisor int // systemd-nspawn; 0 if there is none
}

// members finds them by the machine's cgroup of version 2, where they are born and nobody else is,
// and by the PID namespace that the journal remembers.
func (r *Runner) members(slot journal.Slot) (m members, err error) {
	all, err := groupsOf(r.opts.Name(slot))
	if err != nil {
		return m, err
	}
	err = filepath.WalkDir(all[0].dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil //nolint:nilerr // a cgroup may go while it is looked at
		}
		text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil //nolint:nilerr // the same
		}
		m.add(pids(text)...)
		return nil
	})
	if err != nil {
		return m, fmt.Errorf("read cgroup: %w", err)
	}
	if known := r.opts.Known(slot); leader.Alive(known) {
		if err := m.addNamespace(known.PIDNamespace); err != nil {
			return m, err
		}
	}
	for _, pid := range m.all {
		if m.supervises(pid) {
			m.supervisor = pid
		}
	}
	return m, nil
}

// supervises reports whether a process is the systemd-nspawn that was started, and not a child of
// it that has not become the machine's first process yet.
func (m *members) supervises(pid int) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || string(bytes.TrimSpace(comm)) != "systemd-nspawn" || leader.First(pid) {
		return false
	}
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := proc.Stat()
	return err == nil && !slices.Contains(m.all, stat.PPID)
}

func (m *members) add(pids ...int) {
	for _, pid := range pids {
		if !slices.Contains(m.all, pid) {
			m.all = append(m.all, pid)
		}
	}
}

// addNamespace adds the processes of a PID namespace. Those of namespaces below it end with it.
func (m *members) addNamespace(inode uint64) error {
	if inode == 0 {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("read processes: %w", err)
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && leader.PIDNamespace(pid) == inode {
			m.add(pid)
		}
	}
	return nil
}

func pids(text []byte) (all []int) {
	for field := range bytes.FieldsSeq(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			all = append(all, pid)
		}
	}
	return all
}
