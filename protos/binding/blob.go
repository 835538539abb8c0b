package binding

import (
	"bytes"
	"errors"
	"fmt"
)

// Kind says how a blob is run.
type Kind int

// The kinds. The zero value is none of them.
const (
	Script      Kind = iota + 1 // a program whose first line names its interpreter
	CloudConfig                 // a configuration for cloud-init
)

// ErrBlob is matched by every error of [KindOf].
var ErrBlob = errors.New("invalid blob")

// maxInterpreter is how long the first line of a script may be: Linux reads no more of it.
const maxInterpreter = 255

// KindOf returns how a blob is run, by its first line: `#!` and the absolute path of an
// interpreter, or `#cloud-config`. Anything else is refused, and so is what is longer than
// [MaxBlob].
func KindOf(blob []byte) (Kind, error) {
	if len(blob) > MaxBlob {
		return 0, fmt.Errorf("%w: %d bytes long, at most %d are allowed", ErrBlob, len(blob), MaxBlob)
	}
	first, _, _ := bytes.Cut(blob, []byte("\n"))
	if rest, script := bytes.CutPrefix(first, []byte("#!")); script {
		return Script, checkInterpreter(rest)
	}
	if string(bytes.TrimRight(first, " \t\r")) == "#cloud-config" {
		return CloudConfig, nil
	}
	return 0, fmt.Errorf("%w: the first line is neither #! with an interpreter nor #cloud-config", ErrBlob)
}

// checkInterpreter finds what the kernel would refuse in words that help nobody.
func checkInterpreter(rest []byte) error {
	switch {
	case len(rest)+len("#!") > maxInterpreter:
		return fmt.Errorf("%w: the first line is longer than %d bytes", ErrBlob, maxInterpreter)
	case bytes.ContainsAny(rest, "\x00"):
		return fmt.Errorf("%w: the first line contains a zero byte", ErrBlob)
	case bytes.HasSuffix(rest, []byte("\r")):
		return fmt.Errorf("%w: the first line ends with a carriage return", ErrBlob)
	case !bytes.HasPrefix(bytes.TrimLeft(rest, " \t"), []byte("/")):
		return fmt.Errorf("%w: the interpreter in the first line must be an absolute path", ErrBlob)
	}
	return nil
}
