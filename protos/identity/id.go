package identity

import (
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ErrID is matched by every error about the form of an id.
var ErrID = errors.New("invalid id")

const (
	prefixLength = 3
	idLength     = prefixLength + 26
)

// crockford writes 16 bytes as 26 characters, left-aligned: the last character
// carries three bits of the UUID and two zero bits. Its alphabet is in ASCII
// order, so that ids sort as their bytes do.
var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// ID names one instance or operator for ever: a prefix of three letters (the
// instance's kind, or [OperatorPrefix]) and a UUIDv7 in 26 characters of lower
// case Crockford base32, 29 in all.
//
// Ids of one prefix sort by the time of creation. Compare them with ==. The
// zero value names nothing. An ID that did not come out of [ParseID], [FromUUID],
// [ParseStorageKey] or [NewID] may be malformed; the methods then return their
// zero values.
type ID string

// ParseID reads an id strictly: its length, its alphabet without the usual
// aliases, its unused bits, and the version and variant of its UUID must be
// right, so each id has one spelling. Errors match [ErrID].
func ParseID(s string) (ID, error) {
	if len(s) != idLength {
		return "", fmt.Errorf("%w %s: %d bytes long, must be %d", ErrID, quote(s), len(s), idLength)
	}
	if !ValidPrefix(s[:prefixLength]) {
		return "", fmt.Errorf("%w %s: the first three characters must be letters of a to z", ErrID, quote(s))
	}
	u, ok := decodeUUID(s[prefixLength:])
	if !ok {
		return "", fmt.Errorf("%w %s: after its prefix it is not a UUID in lower case Crockford base32", ErrID, quote(s))
	}
	if err := checkV7(u); err != nil {
		return "", fmt.Errorf("%w %s: %w", ErrID, quote(s), err)
	}
	return ID(s), nil
}

// FromUUID returns the id made of prefix and u, a UUIDv7. Errors match [ErrID].
func FromUUID(prefix string, u uuid.UUID) (ID, error) {
	if !ValidPrefix(prefix) {
		return "", fmt.Errorf("%w: prefix %s is not three letters of a to z", ErrID, quote(prefix))
	}
	if err := checkV7(u); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrID, u, err)
	}
	return ID(prefix + crockford.EncodeToString(u[:])), nil
}

// ParseStorageKey reads what [ID.StorageKey] wrote. Errors match [ErrID].
func ParseStorageKey(key string) (ID, error) {
	i := strings.LastIndexByte(key, '-')
	if i < 0 {
		return "", fmt.Errorf("%w: storage key %s has no \"-\"", ErrID, quote(key))
	}
	u, err := uuid.Parse(key[:i])
	if err != nil || u.String() != key[:i] {
		return "", fmt.Errorf("%w: storage key %s does not begin with a UUID in lower case", ErrID, quote(key))
	}
	return FromUUID(key[i+1:], u)
}

// String returns the id as it is written everywhere.
func (id ID) String() string { return string(id) }

// Prefix returns the three letters before the UUID.
func (id ID) Prefix() string {
	if len(id) != idLength {
		return ""
	}
	return string(id[:prefixLength])
}

// UUID returns the UUIDv7 in the id.
func (id ID) UUID() uuid.UUID {
	if len(id) != idLength {
		return uuid.Nil
	}
	u, ok := decodeUUID(string(id[prefixLength:]))
	if !ok {
		return uuid.Nil
	}
	return u
}

// CreatedAt returns the moment of creation that the UUID carries, in UTC and
// whole milliseconds.
func (id ID) CreatedAt() time.Time {
	u := id.UUID()
	if u == uuid.Nil {
		return time.Time{}
	}
	return time.UnixMilli(milliseconds(u)).UTC()
}

// StorageKey returns the id in the form {uuid}-{prefix}, with which a listing
// sorts by time of creation across prefixes.
func (id ID) StorageKey() string {
	u := id.UUID()
	if u == uuid.Nil {
		return ""
	}
	return u.String() + "-" + id.Prefix()
}

// decodeUUID accepts only what crockford itself would have written: the
// decoder alone overlooks line breaks and unused bits.
func decodeUUID(s string) (uuid.UUID, bool) {
	b, err := crockford.DecodeString(s)
	if err != nil || len(b) != len(uuid.UUID{}) || crockford.EncodeToString(b) != s {
		return uuid.Nil, false
	}
	return uuid.UUID(b), true
}

func checkV7(u uuid.UUID) error {
	if u.Version() != 7 || u.Variant() != uuid.RFC4122 {
		return errors.New("its UUID is not of version 7")
	}
	return nil
}

func milliseconds(u uuid.UUID) int64 {
	var ms int64
	for _, b := range u[:6] {
		ms = ms<<8 | int64(b)
	}
	return ms
}
