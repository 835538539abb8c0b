package box

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
)

// Machine is a process that belongs to a machine of the box. A machine that is as
// it should be has exactly one.
type Machine struct {
	ID  string // of the instance
	PID int

	// Begun says that the process does what the machine's user data says. Before, it
	// waits until the server that made it has recorded it, and ends with that server.
	Begun bool

	dir string // of all machines
}

// Machines returns the processes of all machines, as the operating system knows
// them: whether a server, a record or a pid file knows them too makes no difference.
// It is safe for concurrent use.
func (b *Box) Machines() []Machine {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		b.t.Error(err)
		return nil
	}
	var found []Machine
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if id := machineOf(pid, b.Path("machines")); id != "" {
			found = append(found, Machine{ID: id, PID: pid, Begun: begun(pid), dir: b.Path("machines")})
		}
	}
	slices.SortFunc(found, func(a, b Machine) int { return strings.Compare(a.ID, b.ID) })
	return found
}

// machineOf returns the machine in dir that a process belongs to; none if it has
// ended, is another user's, or is none.
func machineOf(pid int, dir string) string {
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if id, ok := strings.CutPrefix(string(variable), identity.EnvMachineDir+"="+dir+"/"); ok {
			return id
		}
	}
	return ""
}

// begun reports whether a process of a machine runs a file: the user data, or the
// agent. What waits runs a line that its shell was given.
func begun(pid int) bool {
	title, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && !bytes.HasPrefix(title, []byte("/bin/sh\x00-c\x00"))
}

// Signal reaches the process if it still is the machine's.
func (m Machine) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(m.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// Who has the pid now has had it since it was opened.
	if machineOf(m.PID, m.dir) != m.ID {
		return os.ErrProcessDone
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// kill ends the process; one that has ended already is fine.
func (m Machine) kill() error {
	err := m.Signal(unix.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (m Machine) String() string { return fmt.Sprintf("%s (pid %d)", m.ID, m.PID) }

// IDs returns the machines' ids, each once, in order.
func IDs(machines []Machine) []string {
	ids := make([]string, len(machines))
	for i, m := range machines {
		ids[i] = m.ID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Directories returns the ids of the machines that have a directory, in order. It is
// safe for concurrent use.
func (b *Box) Directories() []string {
	entries, err := os.ReadDir(b.Path("machines"))
	if err != nil {
		return nil // there is none yet
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

// MachineLog returns what the agent of a machine has printed.
func (b *Box) MachineLog(id string) string {
	data, err := os.ReadFile(b.Path("machines", id, "log"))
	if err != nil {
		b.t.Error(err)
	}
	return string(data)
}

// PID returns what the pid file of a machine says; 0 without one.
func (b *Box) PID(id string) int {
	data, err := os.ReadFile(b.Path("machines", id, "pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		b.t.Errorf("pid file of %s: %v", id, err)
	}
	return pid
}
