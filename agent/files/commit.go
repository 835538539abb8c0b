package files

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxHash is the length of the longest configuration hash.
const maxHash = 128

// note is what a commit writes down before it changes anything.
type note struct {
	Hash  string   `json:"hash"`
	Files manifest `json:"files"`
}

// Commit puts all staged files in place and then stores the hash, or changes nothing:
// every file is checked once more before the first is renamed. A batch of no files is a
// hash alone.
//
// After an error the batch is gone and the old hash stands, so the server sees that it has
// to deliver again. Only where the error came after the note was written, the commit stands
// and is finished by whatever is called next, or by the next [Open].
func (s *Store) Commit(hash string) error {
	if err := s.resume(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	err := s.validate(hash)
	if err == nil {
		err = s.apply(note{Hash: hash, Files: maps.Clone(s.staged)})
	} else if discardErr := s.empty(); discardErr != nil {
		err = errors.Join(err, discardErr)
	}
	s.begin()
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (s *Store) validate(hash string) error {
	if hash == "" || len(hash) > maxHash || strings.ContainsFunc(hash, notPrintable) {
		return fmt.Errorf("%.140q is not a configuration hash", hash)
	}
	for name, why := range s.refused {
		if name == "" {
			return fmt.Errorf("nothing was applied: %s", why)
		}
		return fmt.Errorf("nothing was applied: file %s was refused: %s", name, why)
	}
	for _, name := range slices.Sorted(maps.Keys(s.staged)) {
		if err := s.intact(name); err != nil {
			s.errors[name] = err.Error()
			return fmt.Errorf("nothing was applied: file %s: %w", name, err)
		}
	}
	return nil
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

// intact checks that a staged file still is what was staged, and can take its place.
func (s *Store) intact(name string) error {
	info, err := s.lstat(s.stagingFile(name))
	if err != nil || !info.Mode().IsRegular() || info.Size() != s.staged[name].Size {
		return errors.New("the staged file was changed")
	}
	content, err := s.readFile(s.stagingFile(name))
	if err != nil {
		return fmt.Errorf("read the staged file: %w", err)
	}
	if sha256.Sum256(content) != s.staged[name].SHA256 {
		return errors.New("the staged file was changed")
	}
	if s.isDirectory(s.target(name)) {
		return errors.New("there is a directory of this name")
	}
	return nil
}

// apply carries a note out. Writing the note is the moment at which the commit happens.
func (s *Store) apply(n note) error {
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode note: %w", err)
	}
	if err := s.disk.Replace(s.stagingFile(journal), data, 0o600); err != nil {
		return err
	}
	s.unfinished = &n
	return s.resume()
}

// resume finishes a commit that an error has cut off.
func (s *Store) resume() error {
	if s.unfinished == nil {
		return nil
	}
	if err := s.finish(*s.unfinished); err != nil {
		return err
	}
	s.unfinished = nil
	return nil
}

// finish renames what has not been renamed, writes the manifest, stores the hash and
// removes the note. Every step may be repeated.
func (s *Store) finish(n note) error {
	for _, name := range slices.Sorted(maps.Keys(n.Files)) {
		err := s.disk.Rename(s.stagingFile(name), s.target(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // else it was renamed before the crash
			return err
		}
		delete(s.errors, name)
		delete(s.sightings, name)
	}
	if err := s.enter(n.Files); err != nil {
		return err
	}
	if err := s.disk.SyncDir(s.options.Dir); err != nil {
		return err
	}
	if err := s.options.StoreHash(n.Hash); err != nil {
		return err
	}
	return s.disk.Remove(s.stagingFile(journal))
}

// enter notes the files of a commit in the manifest. It is written in the staging
// directory, whose remains nobody sees.
func (s *Store) enter(files manifest) error {
	next := maps.Clone(s.placed)
	maps.Copy(next, files)
	data, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if err := s.disk.Write(s.stagingFile(manifestFile), data, 0o600, time.Time{}); err != nil {
		return err
	}
	if err := s.disk.Rename(s.stagingFile(manifestFile), s.target(manifestFile)); err != nil {
		return err
	}
	s.placed = next
	return nil
}

// recover finishes the commit that a note in the staging directory speaks of. Notes are
// written in one step, so one that cannot be read is none of ours, and is discarded.
func (s *Store) recover() error {
	data, err := s.readFile(s.stagingFile(journal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n, ok := parseNote(data)
	if !ok {
		return nil
	}
	return s.finish(n)
}

func parseNote(data []byte) (note, bool) {
	var n note
	if json.Unmarshal(data, &n) != nil || n.Hash == "" {
		return note{}, false
	}
	for name := range n.Files {
		if !ValidName(name) {
			return note{}, false
		}
	}
	return n, true
}
