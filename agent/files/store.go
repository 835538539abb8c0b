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
func Open(o Options) (*Store, error) { return open(o, operatingSystem{}) }

func open(o Options, d disk) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := durable.MakeDir(o.Dir, o.DirMode); err != nil {
		return nil, fmt.Errorf("open receive directory: %w", err)
	}
	s := &Store{
		options: o, disk: d, stat: os.Lstat, read: os.ReadFile,
		sightings: map[string]sighting{}, errors: map[string]string{}, known: map[string]bool{},
	}
	s.begin()
	if err := durable.MakeDir(s.stagingDir(), 0o700); err != nil {
		return nil, fmt.Errorf("open receive directory: %w", err)
	}
	var err error
	if s.placed, err = readManifest(s.target(manifestFile)); err != nil {
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

func isDirectory(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
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
	entries, err := os.ReadDir(s.stagingDir())
	if err != nil {
		return fmt.Errorf("discard staged files: %w", err)
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(s.stagingFile(e.Name())))
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
