package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// ErrKey is matched by every error about an encryption key. Its text never
// contains key material.
var ErrKey = errors.New("invalid encryption key")

// KeySize is the size of an encryption key in bytes.
const KeySize = 32

// maxKeysPerSource allows a source to hold the new key and the old one while
// the key is being changed.
const maxKeysPerSource = 2

// Key is an encryption key. Like a [Secret] it does not show its content.
type Key struct{ bytes [KeySize]byte }

// NewKey returns the key made of exactly [KeySize] bytes. Errors match [ErrKey].
func NewKey(b []byte) (Key, error) {
	if len(b) != KeySize {
		return Key{}, fmt.Errorf("%w: it is %d bytes long, must be %d", ErrKey, len(b), KeySize)
	}
	return Key{[KeySize]byte(b)}, nil
}

// Format writes a mask, whatever the verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// LogValue returns a mask.
func (Key) LogValue() slog.Value { return slog.StringValue(mask) }

// ParseKeys reads what a source of keys holds: one key, or two on a line each,
// the one that encrypts first. A key is 32 raw bytes, or "base64:" or "hex:" and
// its encoding. One line break at the end is ignored. Errors match [ErrKey].
func ParseKeys(data []byte) ([]Key, error) {
	lines := keyLines(data)
	if len(lines) > maxKeysPerSource {
		return nil, fmt.Errorf("%w: it has %d lines, must be one key, or two on a line each", ErrKey, len(lines))
	}
	var keys []Key
	for i, line := range lines {
		key, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// keyLines splits data. Raw bytes may contain line breaks of their own, so what
// has the length of raw keys is taken as such before anything is split.
func keyLines(data []byte) [][]byte {
	const two = 2*KeySize + 1
	if !encoded(data) {
		switch {
		case len(data) == KeySize, len(data) == KeySize+1 && data[KeySize] == '\n':
			return [][]byte{data[:KeySize]}
		case len(data) == two || len(data) == two+1 && data[two] == '\n':
			if data[KeySize] == '\n' && !encoded(data[KeySize+1:]) {
				return [][]byte{data[:KeySize], data[KeySize+1 : two]}
			}
		}
	}
	return bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}

var (
	base64Prefix = []byte("base64:")
	hexPrefix    = []byte("hex:")
)

func encoded(line []byte) bool {
	return bytes.HasPrefix(line, base64Prefix) || bytes.HasPrefix(line, hexPrefix)
}

func parseKey(line []byte) (Key, error) {
	if text, ok := bytes.CutPrefix(line, base64Prefix); ok {
		b, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
		if err != nil {
			return Key{}, fmt.Errorf("%w: what follows \"base64:\" is not base64 with padding", ErrKey)
		}
		return NewKey(b)
	}
	if text, ok := bytes.CutPrefix(line, hexPrefix); ok {
		b, err := hex.DecodeString(string(bytes.TrimSpace(text)))
		if err != nil {
			return Key{}, fmt.Errorf("%w: what follows \"hex:\" is not hexadecimal", ErrKey)
		}
		return NewKey(b)
	}
	return NewKey(line)
}
