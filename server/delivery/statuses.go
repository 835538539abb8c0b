package delivery

import (
	"slices"
	"strings"
	"time"
)

// Status is what a machine reports about one file. The zero value, like a file that is not
// reported, means that it is not there.
type Status struct {
	Modified time.Time // as it was sent
	Digest   string    // SHA-256 of the content in place; empty: not told
	Error    string    // why it is not there, or not what was sent
}

func (s Status) inPlace() bool { return !s.Modified.IsZero() && s.Error == "" }

// Named is the status of a file, with its name.
type Named struct {
	Name string
	Status
}

// Statuses are those of a machine's files, sorted by name, each name once: there is one
// for each machine of a shard, and a slice takes half of the memory of a map.
type Statuses []Named

// Sort brings statuses into the order that the other methods need.
func (s Statuses) Sort() {
	slices.SortFunc(s, func(a, b Named) int { return strings.Compare(a.Name, b.Name) })
}

// Find returns the status of a file, and whether there is one.
func (s Statuses) Find(name string) (Status, bool) {
	i, found := slices.BinarySearchFunc(s, name, func(n Named, name string) int { return strings.Compare(n.Name, name) })
	if !found {
		return Status{}, false
	}
	return s[i].Status, true
}

// Differ returns the names of the files whose status is not the one in old, those that
// only one of both has included; nil if there are none.
func (s Statuses) Differ(old Statuses) (names []string) {
	for _, n := range s {
		if before, known := old.Find(n.Name); !known || before != n.Status {
			names = append(names, n.Name)
		}
	}
	for _, n := range old {
		if _, still := s.Find(n.Name); !still {
			names = append(names, n.Name)
		}
	}
	return names
}
