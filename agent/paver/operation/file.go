package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"nstance.dev/agent/durable"
)

// maxSize is how large the file of a book may be, in bytes: 16 operations that wait may have
// parameters of 128 KiB each.
const maxSize = 8 << 20

// ErrCorrupt is matched by the error about a file that is not what was written. Nothing is known of
// operations then, so none may be begun: it may have been done before.
var ErrCorrupt = errors.New("OperationsCorrupt")

// envelope is the form of the file. SHA256 is of the payload's bytes.
type envelope struct {
	SHA256  string          `json:"sha256"`
	Payload json.RawMessage `json:"payload"`
}

// File is a book on disk. It has one user at a time.
type File struct{ Path string }

// Load reads the book; where there is no file it is empty.
func (f File) Load() (Book, error) {
	text, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return Book{V: Version}, nil
	}
	if err != nil {
		return Book{}, fmt.Errorf("read operations: %w", err)
	}
	b, err := decode(text)
	if err != nil {
		return Book{}, fmt.Errorf("read operations %s: %w; delete the file if no operation of before matters", f.Path, err)
	}
	return b, nil
}

func decode(text []byte) (b Book, err error) {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return b, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if got := sum(e.Payload); got != e.SHA256 {
		return b, fmt.Errorf("%w: its content has sha256 %.12s…, written was %.12q…", ErrCorrupt, got, e.SHA256)
	}
	if err := json.Unmarshal(e.Payload, &b); err != nil {
		return b, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if b.V != Version {
		return b, fmt.Errorf("%w: version %d is not %d; it was written by another release", ErrCorrupt, b.V, Version)
	}
	return b, nil
}

// Save replaces the book. When it has returned, the new one survives a loss of power.
func (f File) Save(b Book) error {
	b.V = Version
	payload, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("write operations: %w", err)
	}
	text, err := json.Marshal(envelope{sum(payload), payload})
	if err != nil {
		return fmt.Errorf("write operations: %w", err)
	}
	if len(text) > maxSize {
		return fmt.Errorf("write operations: %d bytes are more than %d", len(text), maxSize)
	}
	return durable.WriteFile(f.Path, text, 0o600)
}

// Remove deletes the book for good.
func (f File) Remove() error { return durable.Remove(f.Path) }

func sum(payload []byte) string {
	digest := sha256.Sum256(payload)
	return hex.EncodeToString(digest[:])
}
