// Package store is the directory in which the machines of a box live: a directory for each, and
// hidden ones for marks of deleted machines, for locks, and for what is being made or removed.
//
// A machine's directory appears complete, by one rename that fails if it exists, and vanishes
// whole. Any number of processes may share the store; one that changes a machine holds its lock.
package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Names in a machine's directory.
const (
	MetadataFile = "machine.json"
	UserDataFile = "userdata"
	LogFile      = "log"
	PIDFile      = "pid"
	startFile    = "start"
	BootedFile   = "booted"
	StoppedFile  = "stopped"
)

// Names beside the machines.
const (
	MarksDir = ".deleted"
	LocksDir = ".locks"
	NewDir   = ".new"
	TrashDir = ".trash"
)

// Store is that directory. Make it with [Open]. Methods are safe for concurrent use, by any
// number of processes.
type Store struct {
	Root string // absolute
}

// Open opens the directory, and makes it if it is missing.
func Open(dir string) (*Store, error) {
	for _, sub := range []string{"", MarksDir, LocksDir, NewDir, TrashDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("dir: %w", err)
		}
	}
	return &Store{Root: dir}, nil
}

// Dir is the directory of a machine.
func (s *Store) Dir(id identity.ID) string { return filepath.Join(s.Root, string(id)) }

// Hidden is a machine's place in one of the hidden directories.
func (s *Store) Hidden(sub string, id identity.ID) string {
	return filepath.Join(s.Root, sub, string(id))
}

// markLife is how late a create may arrive after its delete, and how long what a crash left stays.
const markLife = time.Hour

// Mark remembers that the end of a machine was asked for. There may be none.
func (s *Store) Mark(id identity.ID) error {
	mark, err := os.OpenFile(s.Hidden(MarksDir, id), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_ = mark.Close() // it has no content to lose
	return nil
}

// Marked reports whether the end of a machine was asked for.
func (s *Store) Marked(id identity.ID) (bool, error) { return Exists(s.Hidden(MarksDir, id)) }

// Exists reports whether a path exists; a link counts, wherever it leads.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Each calls visit with every directory of a machine of the owner.
func (s *Store) Each(ctx context.Context, owner driver.Owner, visit func(name string, meta Metadata) error) error {
	return s.Every(ctx, func(name string, meta Metadata) error {
		if meta.Owner() != owner {
			return nil
		}
		return visit(name, meta)
	})
}

// Every calls visit with every machine's directory.
func (s *Store) Every(ctx context.Context, visit func(name string, meta Metadata) error) error {
	if _, err := os.Stat(filepath.Join(s.Root, MarksDir)); err != nil {
		return fmt.Errorf("the machines' directory was removed or replaced: %w", err)
	}
	entries, err := os.ReadDir(s.Root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		meta, err := s.Metadata(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := visit(e.Name(), meta); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Metadata reads what a directory says of its machine; fs.ErrNotExist if there
// is no machine of that name. A machine's directory appears with its metadata
// and vanishes with it, so one without was damaged by hand.
func (s *Store) Metadata(name string) (Metadata, error) {
	dir := filepath.Join(s.Root, name)
	meta, err := ReadMetadata(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return meta, err
	}
	if _, malformed := identity.ParseID(name); malformed != nil {
		return meta, err // some other directory
	}
	there, lookErr := Exists(dir)
	if lookErr != nil {
		return meta, lookErr
	}
	if there {
		return meta, fmt.Errorf("%s has no %s; restore the file, or end its process and remove the directory", dir, MetadataFile)
	}
	return meta, err
}

// Remove takes away the directory of a machine that was stopped. It vanishes
// whole, so that no look finds half a machine. The caller holds the machine's
// lock.
func (s *Store) Remove(id identity.ID) error {
	trash := s.Hidden(TrashDir, id)
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	if err := os.Rename(s.Dir(id), trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.RemoveAll(trash)
}

// Sweep forgets marks that no create can be late for any more, and clears away what crashes
// left. What it cannot remove it leaves for the next time.
func (s *Store) Sweep(now time.Time) {
	s.sweepDir(TrashDir, now, func(identity.ID) bool { return true })
	s.sweepDir(NewDir, now, func(identity.ID) bool { return true })
	s.sweepDir(MarksDir, now, func(id identity.ID) bool {
		there, err := Exists(s.Dir(id))
		return err == nil && !there
	})
}

// sweepDir removes what is older than an hour and garbage.
func (s *Store) sweepDir(sub string, now time.Time, garbage func(identity.ID) bool) {
	entries, err := os.ReadDir(filepath.Join(s.Root, sub))
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < markLife || !garbage(identity.ID(e.Name())) {
			continue
		}
		_ = os.RemoveAll(filepath.Join(s.Root, sub, e.Name()))
	}
}
