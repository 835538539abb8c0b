package unit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/cluster"
	"nstance.dev/agent/durable"
	"nstance.dev/protos/binding"
)

// Files in the program's own directory.
const (
	statusFile = "status"
	lockFile   = "lock"
	nodeFile   = "node.env"
	privateDir = "private" // for what is open to the program alone
	blobFile   = "blob"
)

// store is the program's own directory. Nobody else may write into it, so what is in it is
// believed.
type store struct {
	dir  string
	gid  int // of the group that may read the status; -1: the program's own
	lock *os.File
}

var errTooOpen = errors.New("it must be a directory of the user that the program runs as, into which no other user may write")

// openStore makes the directory where it is missing, and locks it: two programs at once would
// run a binding twice. It waits for the other one.
func openStore(dir string, gid int) (*store, error) {
	private := filepath.Join(dir, privateDir)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the agent reads the status
		return nil, fmt.Errorf("open state: %w", err)
	}
	if err := os.Mkdir(private, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open state: %w", err)
	}
	for _, path := range []string{dir, private} {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return nil, fmt.Errorf("open state: %s: %w", path, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return nil, fmt.Errorf("open state: %s: %w", path, errTooOpen)
		}
	}
	if err := os.Chmod(private, 0o700); err != nil { //nolint:gosec // a directory
		return nil, fmt.Errorf("open state: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state: %w", err)
	}
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock state: %w", err)
	}
	return &store{dir, gid, lock}, nil
}

func (s *store) close() { _ = s.lock.Close() } // which unlocks it

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }
func (s *store) blob() string            { return filepath.Join(s.dir, privateDir, blobFile) }

// status reads the status; that of a new machine where there is none.
func (s *store) status() (cluster.Status, error) {
	data, err := os.ReadFile(s.path(statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return cluster.Status{}, nil
	}
	if err != nil {
		return cluster.Status{}, fmt.Errorf("read status: %w", err)
	}
	status, err := cluster.DecodeStatus(data)
	if err != nil { // what has run is not known any more: nothing is run
		return cluster.Status{}, fmt.Errorf("%s: %w", s.path(statusFile), err)
	}
	return status, nil
}

// keep writes the status, in one step and durably.
func (s *store) keep(status cluster.Status) error {
	data, err := status.Encode()
	if err != nil {
		return err
	}
	beside := filepath.Join(s.dir, privateDir, statusFile+".new")
	if err := durable.WriteFile(beside, data, 0o640); err != nil {
		return fmt.Errorf("keep status: %w", err)
	}
	if err := os.Chown(beside, -1, s.gid); err != nil {
		return fmt.Errorf("keep status: %w", err)
	}
	if err := os.Rename(beside, s.path(statusFile)); err != nil {
		return fmt.Errorf("keep status: %w", err)
	}
	return durable.SyncDir(s.dir)
}

// keepBlob writes the copy of a blob that is run.
func (s *store) keepBlob(blob []byte) error {
	if err := durable.WriteFile(s.blob(), blob, 0o700); err != nil {
		return fmt.Errorf("keep blob: %w", err)
	}
	return nil
}

// removePrivate removes what a binding has left that is secret, also when it was interrupted.
func (s *store) removePrivate() error {
	entries, err := os.ReadDir(s.path(privateDir))
	if err != nil {
		return fmt.Errorf("remove blob: %w", err)
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(s.dir, privateDir, e.Name())))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove blob: %w", err)
	}
	return nil
}

// keepNode writes the file from which a kubelet can be started.
func (s *store) keepNode(n binding.Node) error {
	text := envLabels + "=" + n.LabelFlag() + "\n" + envTaints + "=" + n.TaintFlag() + "\n"
	if err := durable.WriteFile(s.path(nodeFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("keep labels and taints: %w", err)
	}
	return nil
}

func (s *store) removeNode() error { return durable.Remove(s.path(nodeFile)) }

// owningGroup is the group of a directory of the agent; false if there is none.
func owningGroup(path string) (gid int, ok bool) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, false
	}
	return int(st.Gid), true
}
