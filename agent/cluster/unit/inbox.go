package unit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/cluster"
)

// maxListed bounds how many requests are looked at in one go.
const maxListed = 64

// inbox is the agent's directory with requests, which is not believed in anything: it is opened
// without following links, and used by its open file alone.
type inbox struct{ dir *os.File }

// openInbox opens the directory; the error matches [fs.ErrNotExist] where there is none.
func openInbox(path string) (*inbox, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /: %w", err)
	}
	names := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for i, name := range names {
		flags := unix.O_PATH
		if i == len(names)-1 {
			flags = unix.O_RDONLY
		}
		next, err := unix.Openat(fd, name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd) // it was only a step on the path
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil, fmt.Errorf("open requests: /%s is no directory, or a link: name the directory by a path without links", filepath.Join(names[:i+1]...))
		}
		if err != nil {
			return nil, fmt.Errorf("open requests in %s: %w", path, err)
		}
		fd = next
	}
	return &inbox{os.NewFile(uintptr(fd), path)}, nil
}

func (b *inbox) close() { _ = b.dir.Close() } // nothing was written

// names are the files with requests, a leave behind its join.
func (b *inbox) names() ([]string, error) {
	if _, err := b.dir.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("list requests: %w", err)
	}
	all, err := b.dir.Readdirnames(maxListed)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list requests: %w", err)
	}
	names := slices.DeleteFunc(all, func(name string) bool { return !cluster.IsRequest(name) })
	slices.Sort(names)
	return names, nil
}

// read reads a request, in one go: what is in the file afterwards does not matter.
func (b *inbox) read(name string) (cluster.Request, error) {
	// Not blocking: opening a pipe would wait for somebody to write to it.
	fd, err := unix.Openat(int(b.dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return cluster.Request{}, fmt.Errorf("open: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	switch {
	case err != nil:
		return cluster.Request{}, err
	case !info.Mode().IsRegular():
		return cluster.Request{}, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, cluster.MaxRequest+1))
	if err != nil {
		return cluster.Request{}, fmt.Errorf("read: %w", err)
	}
	return cluster.DecodeRequest(data)
}

// remove takes a request away; one that does not exist is no error.
func (b *inbox) remove(name string) error {
	err := unix.Unlinkat(int(b.dir.Fd()), name, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove request: %w", err)
	}
	if err := b.dir.Sync(); err != nil {
		return fmt.Errorf("remove request: %w", err)
	}
	return nil
}
