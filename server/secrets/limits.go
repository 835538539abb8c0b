package secrets

import (
	"fmt"
	"unicode/utf8"
)

// Limits say what a kind of store can hold.
type Limits struct {
	Size     int  // of the largest value, in bytes
	Text     bool // values must be valid UTF-8
	NotEmpty bool // the empty value is none
}

// Check reports why the store can't hold value, before anything is sent. Errors
// match [ErrTooLarge] or [ErrValue] and name the secret, not its content.
func (l Limits) Check(name string, value Secret) error {
	switch {
	case len(value) > l.Size:
		return fmt.Errorf("put secret %s: %w: %d bytes, at most %d are allowed", name, ErrTooLarge, len(value), l.Size)
	case l.NotEmpty && len(value) == 0:
		return fmt.Errorf("put secret %s: %w: it is empty", name, ErrValue)
	case l.Text && !utf8.Valid(value):
		return fmt.Errorf("put secret %s: %w: it is not UTF-8 text; encode it, or use another store", name, ErrValue)
	}
	return nil
}
