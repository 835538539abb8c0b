package files

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// ErrName is matched by the error about a name that no delivered file can have. Such a
// file appears in no status: its name is not repeated.
var ErrName = errors.New("invalid file name")

// Stage takes a file into the batch; a file of the same name that was staged before is
// replaced. modTime becomes the file's modification time; zero leaves the time of writing.
//
// On an error the batch cannot be committed, unless the same file is staged again and
// accepted. The error is part of the file's status from then on.
func (s *Store) Stage(name string, content []byte, modTime time.Time) error {
	if !ValidName(name) {
		err := fmt.Errorf("%w: %.140q", ErrName, name)
		s.refused[""] = err.Error()
		return err
	}
	if _, again := s.known[name]; !again && len(s.known) >= maxListed {
		err := fmt.Errorf("file %s: more than %d files", name, maxListed)
		s.refused[""] = err.Error()
		return err
	}
	s.known[name] = true
	if err := s.stage(name, content, modTime); err != nil {
		delete(s.staged, name)
		s.refused[name], s.errors[name] = err.Error(), err.Error()
		return fmt.Errorf("file %s: %w", name, err)
	}
	delete(s.refused, name)
	delete(s.errors, name)
	return nil
}

func (s *Store) stage(name string, content []byte, modTime time.Time) error {
	if err := s.resume(); err != nil {
		return err
	}
	if err := Check(name, content); err != nil {
		return err
	}
	if s.isDirectory(s.target(name)) {
		return errors.New("there is a directory of this name")
	}
	waiting := int64(len(content))
	for other, f := range s.staged {
		if other != name {
			waiting += f.Size
		}
	}
	if _, again := s.staged[name]; waiting > maxStagedBytes || !again && len(s.staged) >= maxStaged {
		return fmt.Errorf("too much waits for a commit: %d files, %d bytes", len(s.staged), waiting)
	}
	// As it will be in place, and synced: a commit only has to rename.
	if err := s.disk.Write(s.stagingFile(name), content, s.options.Mode, modTime); err != nil {
		return err
	}
	if modTime.IsZero() {
		modTime = s.now()
	}
	s.staged[name] = entry{Size: int64(len(content)), SHA256: sha256.Sum256(content), Modified: modTime.UTC()}
	return nil
}
