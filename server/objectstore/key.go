package objectstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a key in bytes: what the narrowest backend takes. A segment is
// what stands between two slashes.
const (
	maxKey     = 1024
	maxSegment = 200 // below a file name's 255, room for a temporary suffix
)

// ErrKey says that a key or a prefix is malformed; no retry helps.
var ErrKey = errors.New("invalid key")

// ValidateKey reports why key can't name an object: it must be UTF-8 without
// control characters and backslashes, and made of segments joined by single
// slashes, none of which is empty or begins with a dot. So ".." can't leave a
// folder and a backend has names for its own files. The error matches ErrKey.
func ValidateKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrKey)
	}
	if err := validateText(key); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case segment == "":
			return fmt.Errorf("%w %q: an empty segment (leading, trailing or double slash)", ErrKey, key)
		case segment[0] == '.':
			return fmt.Errorf("%w %q: segment %q begins with a dot", ErrKey, key, segment)
		case len(segment) > maxSegment:
			return fmt.Errorf("%w %q: a segment of %d bytes, more than %d", ErrKey, key, len(segment), maxSegment)
		}
	}
	return nil
}

// ValidatePrefix reports why prefix can't be the beginning of a key. The empty
// prefix matches all keys. The error matches ErrKey.
func ValidatePrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	// What a prefix lacks to be a key is at most the rest of a last segment.
	return ValidateKey(prefix + "x")
}

func validateText(key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrKey, len(key), maxKey)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("%w %q: not UTF-8", ErrKey, key)
	}
	for _, r := range key {
		if r < ' ' || r == 0x7f || r == '\\' {
			return fmt.Errorf("%w %q: the character %q", ErrKey, key, r)
		}
	}
	return nil
}
