package lease

import (
	"errors"
	"fmt"
)

// ErrSuperseded is matched by the error of a leader that finds a document of a later term
// than its own: it must step down.
var ErrSuperseded = errors.New("a later term has written to this shard")

// SupersededError says in which document a later leader's term was found. The server that
// finds one must not lead again under that term or a lower one.
type SupersededError struct {
	Document string
	Term     uint64
}

// Error names the document and the term.
func (e *SupersededError) Error() string {
	return fmt.Sprintf("%s: %v: %d", e.Document, ErrSuperseded, e.Term)
}

// Unwrap makes it match [ErrSuperseded].
func (e *SupersededError) Unwrap() error { return ErrSuperseded }
