package files

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// MaxSize is the length of the largest file, in bytes.
const MaxSize = 3 << 20

var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ValidName reports whether a delivered file can have this name: a base name of letters,
// digits, ".", "_" and "-", of at most 128 bytes, the first a letter or digit. Such a name
// is no path, not hidden, and the name of no parent directory.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// Check reports what is wrong with the content of a file of this name. What the extension
// promises must hold:
//
//	.crt   one or more certificates in PEM form
//	.key   one private key in PEM form
//	.pub   one public key in PEM form
//	.json  one JSON value
//	.env   lines of NAME=value, comments and blank lines
//
// Other files can hold anything. Errors never quote content.
func Check(name string, content []byte) error {
	if len(content) > MaxSize {
		return fmt.Errorf("%d bytes long, at most %d are allowed", len(content), MaxSize)
	}
	switch path.Ext(name) {
	case ".crt":
		return checkPEM(content, "certificate", many, func(t string) bool { return t == "CERTIFICATE" })
	case ".key":
		return checkPEM(content, "private key", one, func(t string) bool {
			return t == "PRIVATE KEY" || strings.HasSuffix(t, " PRIVATE KEY")
		})
	case ".pub":
		return checkPEM(content, "public key", one, func(t string) bool {
			return t == "PUBLIC KEY" || strings.HasSuffix(t, " PUBLIC KEY")
		})
	case ".json":
		if !json.Valid(content) {
			return errors.New("not valid JSON")
		}
	case ".env":
		return checkEnv(content)
	}
	return nil
}

type multitude bool

const (
	one  multitude = false
	many multitude = true
)

func checkPEM(content []byte, what string, m multitude, isType func(string) bool) error {
	n := 0
	rest := content
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if n++; !isType(block.Type) {
			return fmt.Errorf("PEM block %d is not a %s", n, what)
		}
		if len(block.Bytes) == 0 {
			return fmt.Errorf("PEM block %d is empty", n)
		}
	}
	switch {
	case n == 0:
		return fmt.Errorf("no %s in PEM form", what)
	case n > 1 && m == one:
		return fmt.Errorf("%d PEM blocks instead of one %s", n, what)
	case len(bytes.TrimSpace(rest)) > 0:
		return fmt.Errorf("text after the last %s", what)
	}
	return nil
}

func checkEnv(content []byte) error {
	if bytes.IndexByte(content, 0) >= 0 {
		return errors.New("it contains a zero byte")
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, _, found := strings.Cut(line, "=")
		if !found || !variablePattern.MatchString(name) {
			return fmt.Errorf("line %d is not NAME=value", number)
		}
	}
	return nil
}
