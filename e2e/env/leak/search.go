package leak

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// shortest is the length of the shortest marker, in bytes: a shorter one would be
// found by chance.
const shortest = 12

// Search looks for markers. It belongs to one goroutine; make it with [New].
type Search struct {
	markers []marker

	// Places and Bytes count what was searched, with what it held compressed.
	Places, Bytes int
}

type marker struct {
	name  string
	forms []form
}

// Finding is a marker in a place.
type Finding struct {
	Marker string // its name
	Form   string // how it is written there
	Place  string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s contains %s (%s)", f.Place, f.Marker, f.Form)
}

// New returns a search for nothing yet.
func New() *Search { return &Search{} }

// Mark adds a marker under a name. It panics if the marker has less than 12 bytes.
func (s *Search) Mark(name string, secret []byte) {
	if len(secret) < shortest {
		panic(fmt.Sprintf("marker %s has %d bytes, and needs %d", name, len(secret), shortest))
	}
	s.markers = append(s.markers, marker{name, forms(secret)})
}

// Look searches content, which is that of a place, for all markers but those with a
// name in allowed.
func (s *Search) Look(place string, content []byte, allowed ...string) []Finding {
	s.Places++
	s.Bytes += len(content)
	var found []Finding
	for _, m := range s.markers {
		if slices.Contains(allowed, m.name) {
			continue
		}
		for _, f := range m.forms {
			if bytes.Contains(content, []byte(f.text)) {
				found = append(found, Finding{m.name, f.name, place})
			}
		}
	}
	for i, inner := range unzipped(content) {
		found = append(found, s.Look(fmt.Sprintf("%s (unzipped, part %d)", place, i+1), inner, allowed...)...)
	}
	return found
}

// magic is how gzip begins, with the one method that there is.
var magic = []byte{0x1f, 0x8b, 0x08}

// unzipped returns what is compressed somewhere in content. What is cut short counts
// as far as it goes.
func unzipped(content []byte) [][]byte {
	var parts [][]byte
	for at := bytes.Index(content, magic); at >= 0; {
		if r, err := gzip.NewReader(bytes.NewReader(content[at:])); err == nil {
			part, _ := io.ReadAll(r) // what follows the compressed part is an error to it
			if len(part) > 0 {
				parts = append(parts, part)
			}
		}
		next := bytes.Index(content[at+1:], magic)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return parts
}

// File searches a file and its name.
func (s *Search) File(path string, allowed ...string) ([]Finding, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return append(s.Look("the name of "+path, []byte(path), allowed...), s.Look(path, content, allowed...)...), nil
}

// Tree searches all regular files below a directory, and their names. For each file
// allowed, if it is not nil, returns the names of the markers that belong there. What
// vanishes meanwhile is passed over.
func (s *Search) Tree(dir string, allowed func(path string) []string) ([]Finding, error) {
	var found []Finding
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if path != dir && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		var names []string
		if allowed != nil {
			names = allowed(path)
		}
		here, err := s.File(path, names...)
		found = append(found, here...)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return found, err
}

// Titles searches the command lines of all processes that can be seen.
func (s *Search) Titles() ([]Finding, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		path := filepath.Join("/proc", entry.Name(), "cmdline")
		title, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		found = append(found, s.Look(path, title)...)
	}
	return found, nil
}
