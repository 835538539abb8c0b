package identity

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrName is matched by every error of [ValidateName] and [ValidateKind].
var ErrName = errors.New("invalid name")

// MaxNameLength is the length of the longest identifier, in bytes.
const MaxNameLength = 32

// OperatorPrefix is the prefix of operator ids. No instance kind may use it.
const OperatorPrefix = "opr"

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// ValidateName checks an identifier: the id of a cluster, shard, tenant, group,
// subnet pool or template. It is 1 to 32 characters of a to z, 0 to 9 and "-",
// begins and ends with a letter or digit, and has no "--". The error says which
// of these rules is broken and quotes s, shortened and escaped.
func ValidateName(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(s) > MaxNameLength:
		return fmt.Errorf("%w %s: %d bytes long, at most %d are allowed", ErrName, quote(s), len(s), MaxNameLength)
	case strings.Contains(s, "--"):
		return fmt.Errorf("%w %s: it contains \"--\"", ErrName, quote(s))
	}
	if i := strings.IndexFunc(s, notNameRune); i >= 0 {
		return fmt.Errorf("%w %s: character %d is not one of a to z, 0 to 9 and \"-\"", ErrName, quote(s), i+1)
	}
	if !namePattern.MatchString(s) {
		return fmt.Errorf("%w %s: it must begin and end with a letter or digit", ErrName, quote(s))
	}
	return nil
}

func notNameRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
}

// ValidPrefix reports whether s can be the prefix of an [ID]: three letters of
// a to z.
func ValidPrefix(s string) bool {
	return len(s) == prefixLength && strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
}

// ValidateKind checks the kind of a template, which is the prefix of its
// instances' ids: three letters of a to z, and not [OperatorPrefix].
func ValidateKind(s string) error {
	switch {
	case !ValidPrefix(s):
		return fmt.Errorf("%w %s: a kind is three letters of a to z", ErrName, quote(s))
	case s == OperatorPrefix:
		return fmt.Errorf("%w %q: this kind is reserved for operators", ErrName, s)
	}
	return nil
}

// quote makes untrusted text fit for an error message: escaped and short.
func quote(s string) string {
	const most = 48
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
