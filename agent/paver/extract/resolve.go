package extract

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// busy bounds how often the kernel may ask to resolve a path again.
const busy = 64

// resolve opens the directory at path with the tree as the root of all paths. Links in the
// path are followed as a process would that sees nothing but the tree.
func (t *Tree) resolve(path string) (*os.File, error) {
	if path == "" {
		path = "."
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	var fd int
	var err error
	for range busy {
		if fd, err = unix.Openat2(int(t.root.Fd()), path, &how); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return nil, fmt.Errorf("%w: its directory: %w", ErrRefused, err)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), t.root.Name()+"/"+path)
	if err := t.checkDepth(dir); err != nil {
		_ = dir.Close() // opened as a path
		return nil, err
	}
	return dir, nil
}

// checkDepth refuses directories that links have led to and whose own path is longer than
// that of any name.
func (t *Tree) checkDepth(dir *os.File) error {
	path, err := pathOf(dir)
	if errors.Is(err, unix.ENAMETOOLONG) || err == nil && len(path)-t.base > maxPath {
		return fmt.Errorf("%w: the path of its directory has more than %d bytes", ErrRefused, maxPath)
	}
	return err
}

// pathOf is the path of an open directory, without links.
func pathOf(dir *os.File) (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return "", fmt.Errorf("look at the path of a directory: %w", err)
	}
	return path, nil
}
