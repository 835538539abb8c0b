package tree

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrMount is matched by the error about a mount point within a tree.
var ErrMount = errors.New("something is mounted within the tree")

// open opens the entry name of the directory parent without following a link or crossing a
// mount.
func open(parent *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat2(int(parent.Fd()), name, &unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("open %s: %w", where(parent, name), ErrMount)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: where(parent, name), Err: err}
	}
	return os.NewFile(uintptr(fd), parent.Name()+"/"+name), nil
}

// openTop opens the directory at path, which may be reached through links.
func openTop(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// lstat is the state of the entry name itself.
func lstat(parent *os.File, name string) (st unix.Stat_t, err error) {
	if err := unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, &os.PathError{Op: "stat", Path: where(parent, name), Err: err}
	}
	return st, nil
}

// where names an entry in errors. Names are bytes of others: they are quoted.
func where(parent *os.File, name string) string {
	return fmt.Sprintf("%q", parent.Name()+"/"+name)
}

// namesAtOnce bounds how many names of a directory are in memory.
const namesAtOnce = 1024

// EachName calls do for the names in an open directory. What do adds need not be seen; what
// it removes may hide others, on some file systems.
func EachName(dir *os.File, do func(name string) error) error {
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read directory: %w", err)
		}
	}
}

func isDir(st unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
