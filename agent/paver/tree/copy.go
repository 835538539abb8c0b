package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Copy copies the tree at from to the path to, which must not exist, and returns what it
// copied. Nothing is synced. After an error a part of the copy may exist; it is the
// caller's to remove.
//
// Sockets are left out: they mean nothing without the process that made them.
func Copy(ctx context.Context, from, to string) (Usage, error) {
	source, err := openTop(from)
	if err != nil {
		return Usage{}, err
	}
	defer source.Close()
	parent, err := openTop(filepath.Dir(to))
	if err != nil {
		return Usage{}, err
	}
	defer parent.Close()
	c := copying{ctx: ctx, linked: map[uint64]string{}}
	name := filepath.Base(to)
	target, err := makeDir(parent, name)
	if err != nil {
		return Usage{}, err
	}
	defer target.Close()
	c.top = target
	if err := c.within(source, target, ""); err != nil {
		return c.usage, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(source.Fd()), &st); err != nil {
		return c.usage, &os.PathError{Op: "stat", Path: from, Err: err}
	}
	return c.usage, finishOpen(source, target, parent, name, st)
}

// copying is one call of Copy.
type copying struct {
	ctx    context.Context //nolint:containedctx // of one call of Copy
	top    *os.File        // of the copy
	linked map[uint64]string
	usage  Usage
	// noClone is set once the file system has said that it cannot share content.
	noClone bool
	buffer  []byte
}

// within copies what source holds into target; below is target's path in the copy.
func (c *copying) within(source, target *os.File, below string) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	return EachName(source, func(name string) error { return c.entry(source, target, name, path.Join(below, name)) })
}

func (c *copying) entry(source, target *os.File, name, at string) error {
	st, err := lstat(source, name)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		return nil
	}
	c.usage.Entries++
	if st.Nlink > 1 && !isDir(st) {
		if first, ok := c.linked[st.Ino]; ok {
			if err := unix.Linkat(int(c.top.Fd()), first, int(target.Fd()), name, 0); err != nil {
				return &os.LinkError{Op: "link", Old: first, New: where(target, name), Err: err}
			}
			return nil
		}
		c.linked[st.Ino] = at
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.dir(source, target, name, at, st)
	case unix.S_IFREG:
		c.usage.Bytes += st.Size
		return c.file(source, target, name, st)
	case unix.S_IFLNK:
		err = link(source, target, name)
	default:
		err = unix.Mknodat(int(target.Fd()), name, st.Mode, int(st.Rdev))
	}
	if err != nil {
		return &os.PathError{Op: "make", Path: where(target, name), Err: err}
	}
	return finishPath(source, target, name, st)
}

func (c *copying) dir(source, target *os.File, name, at string, st unix.Stat_t) error {
	from, err := open(source, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := makeDir(target, name)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := c.within(from, to, at); err != nil {
		return err
	}
	return finishOpen(from, to, target, name, st)
}

func (c *copying) file(source, target *os.File, name string, st unix.Stat_t) error {
	from, err := open(source, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := open(target, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := c.content(from, to, st); err != nil {
		return fmt.Errorf("copy %s: %w", where(source, name), err)
	}
	return finishOpen(from, to, target, name, st)
}

func makeDir(parent *os.File, name string) (*os.File, error) {
	if err := unix.Mkdirat(int(parent.Fd()), name, 0o700); err != nil {
		return nil, &os.PathError{Op: "make directory", Path: where(parent, name), Err: err}
	}
	return open(parent, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

func link(source, target *os.File, name string) error {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(source.Fd()), name, buffer)
	if err != nil {
		return err
	}
	if n == len(buffer) {
		return errors.New("the target of the symbolic link is too long")
	}
	return unix.Symlinkat(string(buffer[:n]), int(target.Fd()), name)
}
