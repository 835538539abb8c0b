// Package bundle packs what helps to find a fault into one archive that can be given
// away: it has no secret in it.
//
// Values that users set freely (variables, arguments, labels of a cloud) are masked, since
// nobody can tell which of them is one; and whatever looks like a private key, a token or
// a password is masked wherever it stands. Identities are described, never copied.
// What servers and agents mask has rules of its own: package server/masking says why.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"regexp"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// File is one file of a bundle.
type File struct {
	Name string // slashes separate folders
	Data []byte
}

// Write packs files, masked, below a folder. Equal input gives equal bytes.
func Write(w io.Writer, folder string, files []File, now time.Time) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		data := Mask(f.Data)
		header := &tar.Header{Name: path.Join(folder, f.Name), Mode: 0o600, Size: int64(len(data)), ModTime: now.UTC().Truncate(time.Second), Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if _, err := archive.Write(data); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// named is a word after which a secret stands, up to where that begins.
const named = `(?i)((?:password|passwd|secret|token|api[_-]?key|credential|signature)s?(?:\\?")?\s*[:=]\s*)`

// secrets are what looks like one, and what is put there: blocks of PEM that are private,
// JSON Web Tokens, tokens of the HTTP API, keys of AWS and Google, what stands before the
// host of an address, and what follows a word like password, all of it where it is quoted.
var secrets = []struct {
	like *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`), masked},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*`), masked},
	{regexp.MustCompile(`\bnst_[A-Za-z0-9_-]{20,}`), masked},
	{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), masked},
	{regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{30,}`), masked},
	{regexp.MustCompile(`\bAGE-SECRET-KEY-1[A-Z0-9]+`), masked},
	{regexp.MustCompile(`(?i)\b(bearer|basic) [A-Za-z0-9+/=._~-]{8,}`), masked},
	{regexp.MustCompile(`(?i)(\b[a-z][a-z0-9+.-]*://)[^/\s"@:]*:[^/\s"@]+@`), "${1}" + masked + "@"},
	{regexp.MustCompile(named + `"(?:[^"\\]|\\.)+"`), `${1}"` + masked + `"`},
	{regexp.MustCompile(named + `\\".+?\\"`), `${1}\"` + masked + `\"`},
	{regexp.MustCompile(named + `[^\s",;\\}]{4,}`), "${1}" + masked},
}

const masked = "[masked]"

// Mask replaces what looks like a secret. What was JSON still is.
func Mask(data []byte) []byte {
	for _, s := range secrets {
		data = s.like.ReplaceAll(data, []byte(s.put))
	}
	return data
}

// Group is a copy of a group without the values that users have set.
func Group(g *nstancev1.GroupStatus) *nstancev1.GroupStatus {
	g = proto.CloneOf(g)
	hide(g.GetVars())
	hide(g.GetDynamic().GetVars().GetValues())
	hide(g.GetDynamic().GetArgs().GetValues())
	return g
}

// hide keeps the names and the lengths of values.
func hide(values map[string]string) {
	for name, value := range values {
		values[name] = fmt.Sprintf("%s (%d bytes)", masked, len(value))
	}
}

// JSON writes a message as the API has it.
func JSON(m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true, Multiline: true, Indent: "  "}.Marshal(m)
}
