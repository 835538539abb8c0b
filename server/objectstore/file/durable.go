package file

import (
	"fmt"
	"os"
	"path/filepath"

	"nstance.dev/server/objectstore"
)

// replace makes path hold data, whole or not at all, and returns once the disk
// has it. The caller holds the lock that guards temp, so what a killed writer
// left there is simply overwritten.
func replace(root, path, temp string, data []byte) error {
	if err := makeFolders(root, filepath.Dir(path)); err != nil {
		return err
	}
	if err := writeSynced(temp, data); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncAfterChange(filepath.Dir(path))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncAfterChange(filepath.Dir(path))
}

func writeSynced(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// syncAfterChange makes a change in folder durable. The change is visible
// already, so where this goes wrong nobody knows whether it will last.
func syncAfterChange(folder string) error {
	if err := syncFolder(folder); err != nil {
		return fmt.Errorf("%w: %w", objectstore.ErrUnavailable, err)
	}
	return nil
}

func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// makeFolders creates folder and what lacks above it, up to root, durably.
func makeFolders(root, folder string) error {
	if _, err := os.Stat(folder); err == nil || folder == root {
		return nil
	}
	parent := filepath.Dir(folder)
	if err := makeFolders(root, parent); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	return syncFolder(parent)
}
