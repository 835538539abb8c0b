package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"nstance.dev/agent/durable"
)

// MaxSize is how large a journal may be, in bytes.
const MaxSize = 4 << 20

// ErrCorrupt is matched by the error about a journal that is not what was written. Nothing on the
// host may be touched then: which slot is the right one is unknown.
var ErrCorrupt = errors.New("JournalCorrupt")

// envelope is the form of the file. SHA256 is of the payload's bytes.
type envelope struct {
	SHA256  string          `json:"sha256"`
	Payload json.RawMessage `json:"payload"`
}

// Encode returns the file's content. A journal that contradicts itself, or is too large, is an
// error: it could not be read back.
func Encode(j Journal) ([]byte, error) {
	if err := j.Validate(); err != nil {
		return nil, fmt.Errorf("write journal: %w", err)
	}
	payload, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("write journal: %w", err)
	}
	text, err := json.Marshal(envelope{sum(payload), payload})
	if err != nil {
		return nil, fmt.Errorf("write journal: %w", err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("write journal: %d bytes are more than %d", len(text), MaxSize)
	}
	return text, nil
}

// Decode reads what [Encode] returned. Its errors match [ErrCorrupt].
func Decode(text []byte) (Journal, error) {
	if len(text) > MaxSize {
		return Journal{}, fmt.Errorf("%w: more than %d bytes", ErrCorrupt, MaxSize)
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return Journal{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if got := sum(e.Payload); got != e.SHA256 {
		return Journal{}, fmt.Errorf("%w: its content has sha256 %.12s…, written was %.12q…", ErrCorrupt, got, e.SHA256)
	}
	var j Journal
	if err := json.Unmarshal(e.Payload, &j); err != nil {
		return Journal{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := j.Validate(); err != nil {
		return Journal{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return j, nil
}

func sum(payload []byte) string {
	digest := sha256.Sum256(payload)
	return hex.EncodeToString(digest[:])
}

// File is a journal on disk. It has one user at a time; the paver's lock sees to that.
type File struct{ Path string }

// Load reads the journal. Where none exists it is fresh, with fresh true.
func (f File) Load() (j Journal, fresh bool, err error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return Journal{V: Version}, true, nil
	}
	if err != nil {
		return Journal{}, false, fmt.Errorf("read journal: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return Journal{}, false, fmt.Errorf("read journal: %w", err)
	}
	j, err = Decode(text)
	if err != nil {
		return Journal{}, false, fmt.Errorf("read journal %s: %w; see what runs with `machinectl list`; once nstance-paver is stopped, `nstance-paver reset` starts afresh", f.Path, err)
	}
	return j, false, nil
}

// Save replaces the journal. When it has returned, the new one survives a loss of power; when it
// fails, the file holds the old one or the new one.
func (f File) Save(j Journal) error {
	text, err := Encode(j)
	if err != nil {
		return err
	}
	return durable.WriteFile(f.Path, text, 0o600)
}

// Remove deletes the journal for good.
func (f File) Remove() error { return durable.Remove(f.Path) }
