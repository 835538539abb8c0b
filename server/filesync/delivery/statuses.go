package delivery

import (
	"iter"
	"slices"
	"strings"
	"time"
	"unique"
)

// Status is what a machine reports about one file. The zero value, like a file that is not
// reported, means that it is not there.
type Status struct {
	Modified time.Time // as it was sent
	Digest   string    // SHA-256 of the content in place; empty: not told
	Error    string    // why it is not there, or not what was sent
}

func (s Status) inPlace() bool { return !s.Modified.IsZero() && s.Error == "" }

// Statuses are those of a machine's files. There is one for each machine of a shard, so it
// is small: sorted by name, each name once, and names stand in memory once for all machines.
// The zero value has no files. A value never changes.
type Statuses struct{ files []fileStatus }

// fileStatus is a name and a [Status], in less than half of the memory.
type fileStatus struct {
	name   unique.Handle[string]
	second int64 // of Modified
	nano   int32
	words  *words // nil: none
}

// words are what is not said of most files.
type words struct{ digest, text string }

// NewStatuses makes statuses out of those of files by name, each name once, of which
// there are about so many.
func NewStatuses(about int, files iter.Seq2[string, Status]) Statuses {
	if about == 0 {
		return Statuses{}
	}
	s := Statuses{make([]fileStatus, 0, about)}
	for name, status := range files {
		s.files = append(s.files, pack(name, status))
	}
	slices.SortFunc(s.files, func(a, b fileStatus) int { return strings.Compare(a.name.Value(), b.name.Value()) })
	return s
}

func pack(name string, s Status) fileStatus {
	f := fileStatus{name: unique.Make(name), second: s.Modified.Unix(), nano: int32(s.Modified.Nanosecond())}
	if s.Digest != "" || s.Error != "" {
		f.words = &words{s.Digest, s.Error}
	}
	return f
}

func (f fileStatus) status() Status {
	s := Status{Modified: time.Unix(f.second, int64(f.nano)).UTC()}
	if f.words != nil {
		s.Digest, s.Error = f.words.digest, f.words.text
	}
	return s
}

// Find returns the status of a file, and whether there is one.
func (s Statuses) Find(name string) (Status, bool) {
	i, found := slices.BinarySearchFunc(s.files, name, func(f fileStatus, name string) int {
		return strings.Compare(f.name.Value(), name)
	})
	if !found {
		return Status{}, false
	}
	return s.files[i].status(), true
}

// All yields the status of each file, by name.
func (s Statuses) All() iter.Seq2[string, Status] {
	return func(yield func(string, Status) bool) {
		for _, f := range s.files {
			if !yield(f.name.Value(), f.status()) {
				return
			}
		}
	}
}

// Differ returns the names of the files whose status is not the one in old, those that
// only one of both has included; nil if there are none.
func (s Statuses) Differ(old Statuses) (names []string) {
	for _, f := range s.files {
		if before, known := old.Find(f.name.Value()); !known || before != f.status() {
			names = append(names, f.name.Value())
		}
	}
	for _, f := range old.files {
		if _, still := s.Find(f.name.Value()); !still {
			names = append(names, f.name.Value())
		}
	}
	return names
}
