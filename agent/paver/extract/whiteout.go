package extract

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/tree"
)

const (
	whiteoutPrefix = ".wh."
	// opaque in a directory removes all that earlier layers have put into it.
	opaque = ".wh..wh..opq"
	// reserved is how names begin that one file system keeps its own records under.
	reserved = ".wh..wh."
)

// whiteout removes what earlier layers have brought. What this layer has brought remains,
// wherever in the archive the whiteout stands.
func (l *layer) whiteout(dir []string, name string) error {
	target := strings.TrimPrefix(name, whiteoutPrefix)
	switch {
	case name == opaque:
	case strings.HasPrefix(name, reserved):
		return nil
	case target == "" || target == "." || target == "..":
		return fmt.Errorf("%w: a whiteout without a name", ErrRefused)
	}
	parent, err := l.tree.resolve(strings.Join(dir, "/"))
	if errors.Is(err, unix.ENOENT) {
		return nil // the earlier layers have nothing there
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	if name == opaque {
		return l.empty(parent)
	}
	return l.removeEarlier(parent, target)
}

// removeEarlier removes the entry name, except for what this layer has brought.
func (l *layer) removeEarlier(parent *os.File, name string) error {
	var failed error
	l.leave()
	err := tree.RemoveWhere(parent, name, func(dir *os.File, name string) bool {
		var st unix.Stat_t
		if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
			failed = fmt.Errorf("look at a directory: %w", err)
			return true
		}
		return l.isTouched(st.Ino, name)
	})
	return errors.Join(failed, err)
}

func (l *layer) empty(parent *os.File) error {
	// The directory was opened as a path; names are read through another descriptor.
	fd, err := unix.Openat(int(parent.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	dir := os.NewFile(uintptr(fd), parent.Name())
	defer dir.Close()
	return tree.EachName(dir, func(name string) error { return l.removeEarlier(dir, name) })
}
