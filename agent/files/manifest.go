package files

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"time"
)

// manifestFile stands beside the delivered files, under a name that none of them has.
const manifestFile = ".manifest"

// entry is a file as it was delivered.
type entry struct {
	Size     int64     `json:"size"`
	SHA256   digest    `json:"sha256"`
	Modified time.Time `json:"modified"` // as the server sent it: file systems round
}

// manifest is what commits have put in place, by name. It is what tells a delivered file
// from one that somebody has changed, and from one that was never delivered.
type manifest map[string]entry

// readManifest returns an empty manifest where there is none that can be read, or a link:
// then nothing counts as delivered, and the server delivers everything once more.
func (s *Store) readManifest() (manifest, error) {
	info, err := s.root.Lstat(manifestFile)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.Mode().IsRegular():
		return manifest{}, nil
	case err != nil:
		return nil, err
	}
	data, err := s.root.ReadFile(manifestFile)
	if err != nil {
		return nil, err
	}
	var m manifest
	if json.Unmarshal(data, &m) != nil || m == nil {
		return manifest{}, nil //nolint:nilerr // one that cannot be read is as good as none
	}
	maps.DeleteFunc(m, func(name string, _ entry) bool { return !ValidName(name) })
	return m, nil
}

// digest is a SHA-256, in hexadecimal where it is text.
type digest [32]byte

// MarshalText implements encoding.TextMarshaler.
func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return errors.New("a digest has 64 digits")
	}
	_, err := hex.Decode(d[:], text)
	return err
}
