package config

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/config/jsonc"
)

// What stores of secrets and of objects, and the authority, refuse when it is too late.
// Tests of package serve hold these rules to theirs.

var secretName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// secretRemedy says what a secret may be called.
const secretRemedy = "1 to 128 letters, digits and . _ -, the first a letter or digit"

// Limits of the key of an object, in bytes.
const (
	maxKey     = 1024
	maxSegment = 200
)

// validObjectKey says why a text can't be the key of an object.
func validObjectKey(key string) error {
	switch {
	case key == "":
		return errors.New("it is empty")
	case len(key) > maxKey:
		return errors.New("it has more than " + decimal(maxKey) + " bytes")
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
			return errors.New("a part of it has more than " + decimal(maxSegment) + " bytes")
		}
	}
	return nil
}

// keyRemedy says what the key of an object looks like.
const keyRemedy = `names joined by single slashes, none of which begins with a dot, such as "files/app/config.json"`

// secretsPrefix checks what stands before the names of secrets in object storage.
func (c *checker) secretsPrefix(path jsonc.Path, s Secrets) {
	if s.Provider != SecretsObjectStorage || !c.doc.Has(path) {
		return
	}
	err := bucket.CheckSecretsPrefix(s.Prefix)
	malformed := validObjectKey(strings.TrimSuffix(s.Prefix, "/"))
	switch {
	case malformed != nil:
		c.add(path, quoted(s.Prefix)+" can't begin the key of an object: "+malformed.Error(), `a name and a slash, such as "secret/"`)
	case !strings.HasSuffix(s.Prefix, "/"):
		c.add(path, quoted(s.Prefix)+" does not end with a slash", `write "`+s.Prefix+`/", and copy the secrets there first: the cluster's keys must be found`)
	case err != nil:
		c.add(path, err.Error(), `leave it out, or take a prefix of its own, such as "secret/blue/"`)
	}
}

// certificateName says why the authority would not put a name into a certificate of a
// machine. The kind is the name of the field.
func certificateName(kind, value string) error {
	switch kind {
	case "dns":
		name := strings.ToLower(strings.TrimSuffix(value, "."))
		switch {
		case name == identity.AnyServerName || name == "nstance" || strings.HasSuffix(name, ".nstance"):
			return errors.New(quoted(value) + " belongs to Nstance itself")
		case !dnsName.MatchString(name):
			return errors.New(quoted(value) + " is not a DNS name")
		}
	case "uri":
		if at, err := url.Parse(value); err == nil && strings.EqualFold(at.Scheme, "nstance") {
			return errors.New(quoted(value) + " belongs to Nstance itself")
		}
	}
	return nil
}

var dnsName = regexp.MustCompile(`^(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// unique reports names that stand in a list twice.
func (c *checker) unique(path jsonc.Path, list []string) {
	seen := make(map[string]bool, len(list))
	for i, name := range list {
		if seen[name] {
			c.add(path.Index(i), quoted(name)+" stands here twice", "take one of them out")
		}
		seen[name] = true
	}
}

// without warns of what may be written and has no effect.
func (c *checker) without(path jsonc.Path, why string) {
	if c.doc.Has(path) {
		c.warnKey(path, "has no effect: "+why, "take it out")
	}
}
