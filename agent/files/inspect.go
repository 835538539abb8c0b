package files

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"syscall"
	"time"
)

const (
	// settling is how old the last change of a file must be, at least, for its times to
	// tell changes apart: file systems round them, to two seconds at worst.
	settling = 3 * time.Second
	// readAgain is how long a file is believed without being read, whatever its times say.
	readAgain = time.Hour
)

// errDamaged is the status of a file that is not what was delivered.
var errDamaged = errors.New("the file was changed on this machine after it was delivered")

// sighting is how a file looked when its content was last read and was right.
type sighting struct {
	size             int64
	inode            uint64
	modified, change time.Time
	at               time.Time // when it was read
}

func sight(info fs.FileInfo, now time.Time) sighting {
	s := sighting{size: info.Size(), modified: info.ModTime(), at: now}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.change = st.Ino, time.Unix(st.Ctim.Unix())
	}
	return s
}

// vouches reports whether a file that looks as in now has the content that was read at s. A
// file that had just been changed when it was read may have been changed once more in
// the same tick of its file system, and looks the same: it is read again.
func (s sighting) vouches(now sighting) bool {
	latest := later(s.modified, s.change)
	age := now.at.Sub(s.at)
	return s.size == now.size && s.inode == now.inode && s.modified.Equal(now.modified) && s.change.Equal(now.change) &&
		s.at.Sub(latest) >= settling && age >= 0 && age < readAgain
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// inspect returns the state of a file that was put in place, and reads it if it may have
// changed since it was last read.
func (s *Store) inspect(name string, e entry) Status {
	path := s.target(name)
	info, err := s.stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		delete(s.sightings, name)
		return Status{}
	case err != nil:
		return Status{Error: "it cannot be looked at: " + reasonOf(err)}
	case !info.Mode().IsRegular() || info.Size() != e.Size:
		return Status{Error: errDamaged.Error()}
	}
	in := Status{ModTime: e.Modified, SHA256: e.SHA256}
	now := sight(info, s.now())
	if s.sightings[name].vouches(now) {
		return in
	}
	content, err := s.read(path)
	if err != nil {
		return Status{Error: "it cannot be read: " + reasonOf(err)}
	}
	if sha256.Sum256(content) != e.SHA256 {
		delete(s.sightings, name)
		return Status{Error: errDamaged.Error()}
	}
	s.sightings[name] = now
	return in
}

// reasonOf leaves the path out: the server knows the file by its name.
func reasonOf(err error) string {
	if p := new(fs.PathError); errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
