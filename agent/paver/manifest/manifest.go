// Package manifest remembers what was written for a node machine, into its slot and on its
// host, and finds what differs from it since.
//
// A manifest has a path, permissions and a SHA-256 of each file, never content, so that what is
// found can be told without telling what stands in the files. What the machine writes while
// it runs, and secrets, are not in it. Nothing is repaired: the next repave writes all of it again.
//
// [Manifest.Compare] looks at the metadata of files first, and reads content only where that has
// changed since the last look. It changes nothing; what it learnt about metadata is in the
// manifest that it returns, which the caller keeps. The first look at a new manifest reads
// everything once.
package manifest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"nstance.dev/agent/paver/render"
)

const (
	// Interval is the time between two comparisons.
	Interval = 10 * time.Minute
	// MaxDrift bounds the differences that are told.
	MaxDrift = 32
	// MaxSize bounds an encoded manifest, bytes.
	MaxSize = 4 << 20

	version = 1
	// mostEntries bounds what one manifest remembers.
	mostEntries = 4096
)

// Manifest is what was written. It is a value: its methods change no receiver's entries.
type Manifest struct {
	entries []Entry
}

// Entry is one file or symbolic link.
type Entry struct {
	Place render.Place `json:"place"`
	// Path in the machine or on the host, absolute and clean.
	Path string `json:"path"`
	// Mode are the permissions of a file.
	Mode fs.FileMode `json:"mode,omitempty"`
	// SHA256 of a file's content, hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Link is the target of a symbolic link; empty: it is a file.
	Link string `json:"link,omitempty"`
	// Seen is the metadata with which the entry was found to be as it was written; the zero value:
	// it was not looked at.
	Seen Metadata `json:"seen,omitzero"`
}

// Metadata changes with every change of a file.
type Metadata struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"`
	Mode   uint32 `json:"mode"`
	UID    uint32 `json:"uid"`
	GID    uint32 `json:"gid"`
	// Modified and Changed are nanoseconds since 1970.
	Modified int64 `json:"modified"`
	Changed  int64 `json:"changed"`
}

// Of returns the manifest of files that were written: all but secrets and those that the machine
// writes itself.
func Of(files []render.File) Manifest {
	var m Manifest
	for _, f := range files {
		if f.Secret || f.Runtime {
			continue
		}
		e := Entry{Place: f.Place, Path: f.Path, Link: f.Link}
		if f.Link == "" {
			sum := sha256.Sum256([]byte(f.Content))
			e.Mode, e.SHA256 = f.Mode.Perm(), hex.EncodeToString(sum[:])
		}
		m.entries = append(m.entries, e)
	}
	return m.ordered()
}

// With returns the manifest with a file more, such as an artifact, in place of one with its path.
// The sum is hexadecimal.
func (m Manifest) With(place render.Place, name string, mode fs.FileMode, sum string) Manifest {
	added := Entry{Place: place, Path: path.Clean(name), Mode: mode.Perm(), SHA256: sum}
	entries := slices.DeleteFunc(slices.Clone(m.entries), func(e Entry) bool { return e.Place == place && e.Path == added.Path })
	return Manifest{append(entries, added)}.ordered()
}

// Entries are those of the manifest, ordered by place and path. They are not to be changed.
func (m Manifest) Entries() []Entry { return m.entries }

func (m Manifest) ordered() Manifest {
	slices.SortFunc(m.entries, func(a, b Entry) int {
		return cmp.Or(strings.Compare(string(a.Place), string(b.Place)), strings.Compare(a.Path, b.Path))
	})
	return m
}

// document is the manifest as it is kept.
type document struct {
	V       int     `json:"v"`
	Entries []Entry `json:"entries"`
}

// Encode returns the manifest as it is kept in a file.
func (m Manifest) Encode() ([]byte, error) {
	return json.Marshal(document{V: version, Entries: m.entries})
}

var hexSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Decode reads what Encode has returned.
func Decode(text []byte) (Manifest, error) {
	if len(text) > MaxSize {
		return Manifest{}, fmt.Errorf("read manifest: more than %d bytes", MaxSize)
	}
	var d document
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Manifest{}, fmt.Errorf("read manifest: %w", err)
	}
	if d.V != version {
		return Manifest{}, fmt.Errorf("read manifest: version %d is not known", d.V)
	}
	if len(d.Entries) > mostEntries {
		return Manifest{}, fmt.Errorf("read manifest: more than %d entries", mostEntries)
	}
	for _, e := range d.Entries {
		if err := e.check(); err != nil {
			return Manifest{}, fmt.Errorf("read manifest: %q: %w", e.Path, err)
		}
	}
	return Manifest{d.Entries}.ordered(), nil
}

func (e Entry) check() error {
	switch {
	case e.Place != render.Slot && e.Place != render.OnHost:
		return fmt.Errorf("place %q is not known", e.Place)
	case !strings.HasPrefix(e.Path, "/") || path.Clean(e.Path) != e.Path || e.Path == "/":
		return errors.New("is not the path of a file")
	case (e.Link == "") == (e.SHA256 == ""):
		return errors.New("must be a file with a sum, or a link")
	case e.SHA256 != "" && !hexSum.MatchString(e.SHA256):
		return errors.New("has no SHA-256")
	case e.Mode.Perm() != e.Mode:
		return errors.New("has more than permissions")
	}
	return nil
}
