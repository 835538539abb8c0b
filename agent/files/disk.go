package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// disk is everything that a [Store] does to the file system once it is open: one method
// for each step between which a machine can lose its power. Tests stop between any two.
type disk interface {
	// Within says in which directory all paths are. It is called first, and once.
	Within(root *os.Root)
	// Write makes a new file, synced, with these permissions and this time; a zero time is
	// that of writing. A file of this name is replaced.
	Write(path string, content []byte, mode fs.FileMode, modTime time.Time) error
	// Replace puts a whole file in the place of another, in one step and durably.
	Replace(path string, content []byte, mode fs.FileMode) error
	// Rename moves a file, in one step.
	Rename(from, to string) error
	// Remove deletes a file for good; one that does not exist is no error.
	Remove(path string) error
	// SyncDir makes the renames in a directory durable.
	SyncDir(dir string) error
}

// operatingSystem is the disk of the machine. Who may write to the directory may put links
// there: none leads it out of the directory.
type operatingSystem struct{ root *os.Root }

// Within implements disk.
func (d *operatingSystem) Within(root *os.Root) { d.root = root }

// at is a path as the root has it.
func (d *operatingSystem) at(path string) (string, error) { return filepath.Rel(d.root.Name(), path) }

// Write implements disk.
func (d *operatingSystem) Write(path string, content []byte, mode fs.FileMode, modTime time.Time) error {
	name, err := d.at(path)
	if err != nil {
		return err
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, writeErr := f.Write(content)
	err = errors.Join(writeErr, f.Chmod(mode))
	if !modTime.IsZero() {
		err = errors.Join(err, d.root.Chtimes(name, modTime, modTime))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// Replace implements disk.
func (d *operatingSystem) Replace(path string, content []byte, mode fs.FileMode) error {
	beside := path + ".new"
	if err := d.Write(beside, content, mode, time.Time{}); err != nil {
		return err
	}
	if err := d.Rename(beside, path); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

// Rename implements disk.
func (d *operatingSystem) Rename(from, to string) error {
	source, err := d.at(from)
	if err != nil {
		return err
	}
	target, err := d.at(to)
	if err != nil {
		return err
	}
	return d.root.Rename(source, target)
}

// Remove implements disk.
func (d *operatingSystem) Remove(path string) error {
	name, err := d.at(path)
	if err != nil {
		return err
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return d.SyncDir(filepath.Dir(path))
}

// SyncDir implements disk.
func (d *operatingSystem) SyncDir(dir string) error {
	name, err := d.at(dir)
	if err != nil {
		return err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
