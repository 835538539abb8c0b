package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Remove removes what is at path, with all below it if it is a directory. It is no error if
// nothing exists there. Where something is mounted below it the error matches [ErrMount];
// the rest may be gone by then.
func Remove(path string) error {
	parent, err := openTop(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return RemoveAt(parent, filepath.Base(path))
}

// RemoveAt is [Remove] for the entry name of an open directory.
func RemoveAt(parent *os.File, name string) error {
	return RemoveWhere(parent, name, func(*os.File, string) bool { return false })
}

// RemoveWhere removes the entry name of parent with all below it, except for the entries
// that keep names and the directories that they are in.
func RemoveWhere(parent *os.File, name string, keep func(parent *os.File, name string) bool) error {
	_, err := remove(parent, name, keep)
	return err
}

// remove also says whether the entry is gone.
func remove(parent *os.File, name string, keep func(*os.File, string) bool) (gone bool, err error) {
	st, err := lstat(parent, name)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if isDir(st) {
		return removeDir(parent, name, keep)
	}
	if keep(parent, name) {
		return false, nil
	}
	return true, unlink(parent, name, 0)
}

// passes bounds how often a directory is read again because entries were left in it: file
// systems may skip some of those that come after one that was removed.
const passes = 5

func removeDir(parent *os.File, name string, keep func(*os.File, string) bool) (gone bool, err error) {
	for range passes {
		empty, err := removeWithin(parent, name, keep)
		if err != nil || !empty || keep(parent, name) {
			return false, err
		}
		if err = unlink(parent, name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) {
			return err == nil, err
		}
	}
	return false, fmt.Errorf("remove %s: something is written into it meanwhile", where(parent, name))
}

func removeWithin(parent *os.File, name string, keep func(*os.File, string) bool) (empty bool, err error) {
	dir, err := open(parent, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	empty = true
	err = EachName(dir, func(name string) error {
		gone, err := remove(dir, name, keep)
		empty = empty && gone
		return err
	})
	return empty, err
}

func unlink(parent *os.File, name string, flags int) error {
	err := unix.Unlinkat(int(parent.Fd()), name, flags)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "remove", Path: where(parent, name), Err: err}
}
