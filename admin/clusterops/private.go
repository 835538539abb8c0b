package clusterops

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// TempIdentityDir is the name of the folder, in the folder for temporary files,
// that holds an operator's identity unless another one is named.
const TempIdentityDir = "cli-operator-identity"

// ErrNotPrivate is about a folder that others may have prepared or can look into.
var ErrNotPrivate = errors.New("folder is not private")

// ErrFileExists is about a file that is not overwritten.
var ErrFileExists = errors.New("file exists")

// CheckPrivateDir returns nil if path is a folder, no link to one, that belongs
// to the user and that nobody else can enter; else an error that matches
// [ErrNotPrivate], or fs.ErrNotExist.
func CheckPrivateDir(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w: %s is no folder; remove it", ErrNotPrivate, path)
	case !ownedByUser(info):
		return fmt.Errorf("%w: %s belongs to another user; name another folder", ErrNotPrivate, path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%w: %s has mode %04o; make it 0700 if no other user has written to it", ErrNotPrivate, path, info.Mode().Perm())
	}
	return nil
}

// MakePrivateDir makes a folder in a place that others can write to, or checks
// the one that is there as [CheckPrivateDir] does.
func MakePrivateDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return CheckPrivateDir(path)
	}
	return err
}

// WritePrivate writes a file that only the user can read, all of it or nothing.
func WritePrivate(path string, data []byte) error {
	err := writePrivate(path, data)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writePrivate(path string, data []byte) (err error) {
	file, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Cleanup()) }()
	if _, err := file.Write(data); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}

// File is one to be written into a folder.
type File struct {
	Name string
	Data []byte
}

// CheckAbsent returns an error that matches [ErrFileExists] if one of the names
// exists in dir.
func CheckAbsent(dir string, names ...string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%w: %s holds an identity that would be lost", ErrFileExists, path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// WriteFiles writes files into dir in their order, each as [WritePrivate] does.
func WriteFiles(dir string, files ...File) error {
	for _, f := range files {
		if err := WritePrivate(filepath.Join(dir, f.Name), f.Data); err != nil {
			return err
		}
	}
	return nil
}
