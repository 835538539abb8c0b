package process

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// ExitFile is the name of the file in a machine's directory that says how its process ended.
const ExitFile = "exit"

// Exit is how a machine's process ended. Only the parent of a process learns that, and
// that is the server which started the machine; the file is for those after it.
type Exit struct {
	ID              // that ended; the file may be that of an earlier one
	Status     int  `json:"exit_status"`      // as a shell has it: 128 and the signal's number where a signal ended it
	Signal     int  `json:"signal,omitempty"` // 0: none
	CoreDumped bool `json:"core_dumped,omitempty"`
}

// String is for people.
func (e Exit) String() string {
	switch {
	case e.Signal == 0:
		return fmt.Sprintf("process ended with exit status %d", e.Status)
	case e.CoreDumped:
		return fmt.Sprintf("process was ended by signal %d (%s, core dumped)", e.Signal, unix.Signal(e.Signal))
	default:
		return fmt.Sprintf("process was ended by signal %d (%s)", e.Signal, unix.Signal(e.Signal))
	}
}

// HowEnded says how p, the process of the machine in dir, ended, and whether that was by itself and in
// order, with exit status 0.
func (h Host) HowEnded(dir string, p ID) (how string, inOrder bool) {
	// The parent writes the file before it reaps the process, so that who looks in this
	// order misses neither.
	e, known := h.ExitOf(p)
	if !known {
		e, known = readExit(dir, p)
	}
	if !known {
		return "process ended; its exit status is unknown: only the server that started the machine records it, while it runs", false
	}
	return e.String(), e.Status == 0 && e.Signal == 0
}

// RecordExit writes into dir how p ended, if it is our child and was not reaped yet.
func (h Host) RecordExit(dir string, p ID) error {
	e, known := h.ExitOf(p)
	if !known {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, ExitFile), append(data, '\n'), 0o600)
}

// readExit returns how p ended, if the file of its machine says so.
func readExit(dir string, p ID) (e Exit, known bool) {
	data, err := os.ReadFile(filepath.Join(dir, ExitFile))
	if err != nil || json.Unmarshal(data, &e) != nil {
		return Exit{}, false
	}
	return e, e.ID == p
}

// childInfo is what the kernel says of a child in a [unix.Siginfo], which has no names
// for it.
type childInfo struct {
	_, _, code int32
	_          [unsafe.Sizeof(uintptr(0))/4 - 1]int32
	pid        int32
	_          uint32
	status     int32
}

// ExitOf returns how p ended, if it has, is our child and was not reaped yet.
func (h Host) ExitOf(p ID) (e Exit, known bool) {
	if p.PID <= 0 {
		return Exit{}, false
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, p.PID, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
		return Exit{}, false
	}
	child := (*childInfo)(unsafe.Pointer(&info))
	if child.pid == 0 {
		return Exit{}, false // it runs
	}
	if now, err := h.Identify(p.PID); err != nil || now != p {
		return Exit{}, false
	}
	const exited, dumped = 1, 3 // CLD_EXITED, CLD_DUMPED
	e = Exit{ID: p, Status: int(child.status)}
	if child.code != exited {
		e.Signal, e.CoreDumped = e.Status, child.code == dumped
		e.Status += 128
	}
	return e, true
}
