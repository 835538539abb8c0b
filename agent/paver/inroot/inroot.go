// Package inroot writes files into a directory tree that was made by others, as if that were the
// whole file system: an absolute symbolic link in it begins at the tree's root, and no path leads
// out of it. What stands in the place of a file is replaced, never written through.
//
// Owner and group of everything that it makes are root, where the process is.
package inroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is a directory tree. Close ends its use.
type Root struct{ dir *os.File }

// Open opens the tree at path.
func Open(path string) (*Root, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Root{os.NewFile(uintptr(fd), path)}, nil
}

// Close ends the use of the tree.
func (r *Root) Close() error { return r.dir.Close() }

// Sync makes all that was written to the tree's file system durable.
func (r *Root) Sync() error {
	if err := unix.Syncfs(int(r.dir.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", r.dir.Name(), err)
	}
	return nil
}

// File writes a file, durable only after [Root.Sync]. Missing directories are made with mode 0755.
func (r *Root) File(name string, content []byte, mode fs.FileMode) error {
	return r.replace(name, func(parent *os.File, temporary string) error {
		fd, err := unix.Openat(int(parent.Fd()), temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), name)
		_, err = f.Write(content)
		return errors.Join(err, f.Chmod(mode.Perm()), f.Close())
	})
}

// Link writes a symbolic link.
func (r *Root) Link(name, target string) error {
	return r.replace(name, func(parent *os.File, temporary string) error {
		return unix.Symlinkat(target, int(parent.Fd()), temporary)
	})
}

// temporary is the name of what is being written. One that a crash has left is overwritten.
const temporary = ".nstance-new"

func (r *Root) replace(name string, write func(parent *os.File, temporary string) error) error {
	clean := path.Clean("/" + name)
	if clean == "/" {
		return &os.PathError{Op: "write", Path: name, Err: unix.EISDIR}
	}
	parent, err := r.mkdir(path.Dir(clean), 0o755)
	if err != nil {
		return err
	}
	defer parent.Close()
	dir := int(parent.Fd())
	if err := unix.Unlinkat(dir, temporary, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	if err := write(parent, temporary); err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	if err := unix.Renameat(dir, temporary, dir, path.Base(clean)); err != nil {
		_ = unix.Unlinkat(dir, temporary, 0)
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// Remove removes a file or a link; what does not exist is no error.
func (r *Root) Remove(name string) error {
	clean := path.Clean("/" + name)
	parent, err := r.resolve(path.Dir(clean))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	defer parent.Close()
	if err := unix.Unlinkat(int(parent.Fd()), path.Base(clean), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// Mkdir makes a directory and those above it; new ones get the mode.
func (r *Root) Mkdir(name string, mode fs.FileMode) error {
	dir, err := r.mkdir(path.Clean("/"+name), mode)
	if err != nil {
		return err
	}
	return dir.Close()
}

// Read reads a file of at most limit bytes.
func (r *Root) Read(name string, limit int64) ([]byte, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: confined}
	fd, err := unix.Openat2(int(r.dir.Fd()), relative(name), how)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("read %s: it is no file of at most %d bytes", name, limit)
	}
	text := make([]byte, info.Size())
	n, err := f.ReadAt(text, 0)
	if err != nil && n < len(text) {
		return nil, err
	}
	return text, nil
}

const confined = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

func relative(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}

func (r *Root) resolve(name string) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: confined}
	fd, err := unix.Openat2(int(r.dir.Fd()), relative(name), how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (r *Root) mkdir(name string, mode fs.FileMode) (*os.File, error) {
	dir, err := r.resolve(name)
	if err == nil || !errors.Is(err, unix.ENOENT) || name == "/" {
		if err != nil {
			return nil, &os.PathError{Op: "open directory", Path: name, Err: err}
		}
		return dir, nil
	}
	parent, err := r.mkdir(path.Dir(name), mode)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	switch err := unix.Mkdirat(int(parent.Fd()), path.Base(name), 0o700); {
	case errors.Is(err, unix.EEXIST): // a link to nothing
		return nil, &os.PathError{Op: "make directory", Path: name, Err: unix.ENOTDIR}
	case err != nil:
		return nil, &os.PathError{Op: "make directory", Path: name, Err: err}
	}
	if err := unix.Fchmodat(int(parent.Fd()), path.Base(name), uint32(mode.Perm()), 0); err != nil {
		return nil, &os.PathError{Op: "make directory", Path: name, Err: err}
	}
	if dir, err = r.resolve(name); err != nil {
		return nil, &os.PathError{Op: "open directory", Path: name, Err: err}
	}
	return dir, nil
}
