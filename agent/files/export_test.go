package files

import (
	"os"
	"testing"
	"time"
)

// Disk is what tests put in the place of the machine's.
type Disk = disk

// OperatingSystem is the machine's own disk.
func OperatingSystem() Disk { return &operatingSystem{} }

// OpenOn is Open on another disk.
func OpenOn(o Options, d Disk) (*Store, error) { return open(o, d) }

// CoarseTimes makes the store see one and the same time on every file that is in place, as
// on a file system that rounds them to days.
func CoarseTimes(t *testing.T, s *Store) {
	t.Helper()
	tick := time.Now()
	s.stat = func(path string) (os.FileInfo, error) {
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		return rounded{info, tick}, nil
	}
}

type rounded struct {
	os.FileInfo
	tick time.Time
}

func (r rounded) ModTime() time.Time { return r.tick }
func (r rounded) Sys() any           { return nil }

// CountReads returns how many files in place have been read since.
func CountReads(s *Store) func() int {
	n, read := 0, s.read
	s.read = func(path string) ([]byte, error) { n++; return read(path) }
	return func() int { return n }
}
