package document

import (
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/jsonc"
)

// What stores of secrets and of objects, and the authority, refuse when it is too late.
// Tests of package serve hold these rules to theirs.

var secretName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ValidSecretName says whether a secret may be called so.
func ValidSecretName(name string) bool { return secretName.MatchString(name) }

// SecretRemedy says what a secret may be called.
const SecretRemedy = "1 to 128 letters, digits and . _ -, the first a letter or digit"

// Limits of the key of an object, in bytes.
const (
	maxKey     = 1024
	maxSegment = 200
)

// CheckObjectKey says why a text can't be the key of an object.
func CheckObjectKey(key string) error {
	switch {
	case key == "":
		return errors.New("it is empty")
	case len(key) > maxKey:
		return errors.New("it has more than " + strconv.Itoa(maxKey) + " bytes")
	case !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return errors.New("it has a control character or a backslash")
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case segment == "":
			return errors.New("it begins or ends with a slash, or has two in a row")
		case segment[0] == '.':
			return errors.New("a part of it begins with a dot")
		case len(segment) > maxSegment:
			return errors.New("a part of it has more than " + strconv.Itoa(maxSegment) + " bytes")
		}
	}
	return nil
}

// KeyRemedy says what the key of an object looks like.
const KeyRemedy = `names joined by single slashes, none of which begins with a dot, such as "files/app/config.json"`

// CheckCertificateName says why the authority would not put a name into a certificate of a
// machine. The kind is the name of the field.
func CheckCertificateName(kind, value string) error {
	switch kind {
	case "dns":
		name := strings.ToLower(strings.TrimSuffix(value, "."))
		switch {
		case name == identity.AnyServerName || name == "nstance" || strings.HasSuffix(name, ".nstance"):
			return errors.New(jsonc.Quoted(value) + " belongs to Nstance itself")
		case !dnsName.MatchString(name):
			return errors.New(jsonc.Quoted(value) + " is not a DNS name")
		}
	case "uri":
		if at, err := url.Parse(value); err == nil && strings.EqualFold(at.Scheme, "nstance") {
			return errors.New(jsonc.Quoted(value) + " belongs to Nstance itself")
		}
	}
	return nil
}

var dnsName = regexp.MustCompile(`^(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// CleanText says whether a short name can go into a tag or a log line.
func CleanText(s string) bool {
	return len(s) <= MaxNameLength && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
