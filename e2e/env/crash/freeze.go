package crash

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/e2e/env/box"
)

// FreezeServer stops a server in the middle of whatever it does, until the returned
// function lets it go on. One moment is left out: where the storage is a directory,
// a frozen writer would keep its file locks, and with them every other server from
// writing; storage that is a server of its own lets nobody do that.
func (w *World) FreezeServer(id string) (thaw func()) {
	w.t.Helper()
	p := w.Server(id)
	thaw = func() { p.Signal(syscall.SIGCONT) }
	w.Await("server "+id+" is frozen and holds up no writer", func() error {
		p.Signal(syscall.SIGSTOP)
		if err := stopped(p); err != nil {
			return err
		}
		if err := w.writable(); err != nil {
			thaw()
			return err
		}
		return nil
	})
	return thaw
}

// stopped waits until no thread of a process runs any more.
func stopped(p *box.Process) error {
	for deadline := time.Now().Add(box.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(p.PID), "task", "*", "stat"))
		if err != nil || len(threads) == 0 {
			return errors.New("the server has ended")
		}
		runs := false
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			// The state follows the name, which stands in parentheses.
			if i := bytes.LastIndexByte(stat, ')'); err != nil || i < 0 || !bytes.HasPrefix(stat[i+1:], []byte(" T")) {
				runs = true
			}
		}
		if !runs {
			return nil
		}
	}
	return errors.New("the server does not stop")
}

// writable returns nil if nobody holds a lock of a directory that is storage.
func (w *World) writable() error {
	locks, err := filepath.Glob(w.Path("bucket", ".lock", "*"))
	if err != nil {
		return err
	}
	for _, path := range locks {
		if err := free(path); err != nil {
			return err
		}
	}
	return nil
}

// free takes a file's lock and gives it back.
func free(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}
