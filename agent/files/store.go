package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/agent/durable"
)

const (
	stagingDir = ".staging"
	// journal stands in the staging directory, under a name that no delivered file has.
	journal = ".commit"

	// What may wait for a commit.
	maxStaged      = 512
	maxStagedBytes = 128 << 20
	// maxListed bounds a report.
	maxListed = 1024
)

// Options are the settings of a [Store].
type Options struct {
	// Dir is where files are delivered.
	Dir string
	// Mode and DirMode are the permissions of the files and of the directory.
	Mode, DirMode fs.FileMode
	// StoreHash keeps the hash of a committed batch. When it returns, the hash survives a
	// crash. It may be called twice with the same hash.
	StoreHash func(hash string) error
	// Now is the clock of the file system's times; nil: time.Now.
	Now func() time.Time
}

// Status is the state of one file: in place, with its modification time as the server sent
// it and the digest of its content, or with an error. The zero value means that the file is
// known, and not in place.
type Status struct {
	ModTime time.Time
	SHA256  [32]byte
	Error   string
}

// Store is the directory of delivered files.
type Store struct {
	options   Options
	root      *os.Root // the directory: no link leads out of it
	disk      disk
	placed    manifest            // what commits have put in place
	sightings map[string]sighting // of files in place that were read and were right
	stat      func(path string) (fs.FileInfo, error)
	read      func(path string) ([]byte, error)

	staged  manifest          // since the last commit
	refused map[string]string // why files of this batch cannot be applied
	errors  map[string]string // why the latest delivery of a file failed
	known   map[string]bool   // every name ever put in place here, or received by this process

	unfinished *note // is on disk and has not been carried out
}

// Open makes the directories where they are missing, finishes a commit that a crash has
// cut off, and discards what was only staged.
func Open(o Options) (*Store, error) { return open(o, &operatingSystem{}) }

func open(o Options, d disk) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := durable.MakeDir(o.Dir, o.DirMode); err != nil {
		return nil, fmt.Errorf("open receive directory: %w", err)
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open receive directory: %w", err)
	}
	d.Within(root)
	s := &Store{
		options: o, root: root, disk: d,
		sightings: map[string]sighting{}, errors: map[string]string{}, known: map[string]bool{},
	}
	s.stat, s.read = s.lstat, s.readFile
	s.begin()
	if err := s.makeStagingDir(); err != nil {
		return nil, fmt.Errorf("open receive directory: %w", err)
	}
	if s.placed, err = s.readManifest(); err != nil {
		return nil, fmt.Errorf("open receive directory: %w", err)
	}
	if err := s.recover(); err != nil {
		return nil, fmt.Errorf("finish interrupted commit: %w", err)
	}
	for name := range s.placed {
		s.known[name] = true
	}
	if err := s.empty(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) stagingDir() string             { return filepath.Join(s.options.Dir, stagingDir) }
func (s *Store) stagingFile(name string) string { return filepath.Join(s.stagingDir(), name) }
func (s *Store) target(name string) string      { return filepath.Join(s.options.Dir, name) }
func (s *Store) now() time.Time                 { return s.options.Now() }

// begin starts an empty batch.
func (s *Store) begin() {
	s.staged, s.refused = manifest{}, map[string]string{}
}

// lstat and readFile are as in package os, for paths in the directory.
func (s *Store) lstat(path string) (fs.FileInfo, error) {
	name, err := filepath.Rel(s.options.Dir, path)
	if err != nil {
		return nil, err
	}
	return s.root.Lstat(name)
}

func (s *Store) readFile(path string) ([]byte, error) {
	name, err := filepath.Rel(s.options.Dir, path)
	if err != nil {
		return nil, err
	}
	return s.root.ReadFile(name)
}

func (s *Store) isDirectory(path string) bool {
	info, err := s.lstat(path)
	return err == nil && info.IsDir()
}

// errStaging says that files cannot be staged, because something else is in the place of
// the directory for that, or others may write to it.
var errStaging = errors.New(stagingDir + " is not a directory of the agent alone; remove it")

// makeStagingDir makes the directory where it is missing.
func (s *Store) makeStagingDir() error {
	if err := s.root.Mkdir(stagingDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.checkStagingDir()
}

// checkStagingDir refuses a link: what is in it would be deleted.
func (s *Store) checkStagingDir() error {
	info, err := s.root.Lstat(stagingDir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: %w", s.options.Dir, errStaging)
	}
	return nil
}

// Discard throws away what was staged and not committed: the stream that brought it ended.
func (s *Store) Discard() error {
	s.begin()
	if err := s.resume(); err != nil {
		return fmt.Errorf("discard staged files: %w", err)
	}
	return s.empty()
}

// empty removes all files from the staging directory.
func (s *Store) empty() error {
	if err := s.checkStagingDir(); err != nil {
		return fmt.Errorf("discard staged files: %w", err)
	}
	dir, err := s.root.OpenRoot(stagingDir)
	if err != nil {
		return fmt.Errorf("discard staged files: %w", err)
	}
	defer func() { _ = dir.Close() }() // nothing was written
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return fmt.Errorf("discard staged files: %w", err)
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, dir.RemoveAll(e.Name()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("discard staged files: %w", err)
	}
	return nil
}

// Statuses returns the state of every file that was ever put in place here, or that this
// process has received. One that somebody removed has the zero status, one that somebody
// changed an error. Files that were not delivered are nobody's business.
func (s *Store) Statuses() map[string]Status {
	all := make(map[string]Status, len(s.placed))
	for name := range s.known {
		all[name] = Status{}
	}
	for name, e := range s.placed {
		all[name] = s.inspect(name, e)
	}
	for name, text := range s.errors {
		all[name] = Status{Error: text}
	}
	return all
}
