package config

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of texts that the group file keeps for a caller.
const (
	maxPauseReason = 500 // bytes
	// maxArgDepth is how deep the value of an argument may be nested. The reader of
	// the group file takes 64 levels, and the copy of an entry whose group was static
	// stands 7 levels down.
	maxArgDepth = 32
)

// checkStorable looks at what a change writes into the group file and no other
// check looks at.
func checkStorable(change GroupChange) error {
	if !cleanText(change.Manager) {
		return &InvalidError{Field: "manager", Msg: fmt.Sprintf("at most %d bytes, of characters that can be printed", maxNameLength)}
	}
	for name, value := range change.Args {
		if name == "" || !cleanText(name) {
			return &InvalidError{Field: "args", Msg: "a name is empty, too long, or has characters that can't be printed"}
		}
		if msg := unstorable(value, maxArgDepth); msg != "" {
			return &InvalidError{Field: "args", Msg: fmt.Sprintf("the value of %s %s", name, msg)}
		}
	}
	return nil
}

// unstorable says what about a value in JSON the reader of the group file would not
// read; empty: nothing. It may be nested as deep as levels says.
func unstorable(value any, levels int) string {
	switch v := value.(type) {
	case string:
		return unstorableText(v)
	case map[string]any:
		for name, inner := range v {
			if msg := unstorableText(name); msg != "" {
				return msg
			}
			if msg := unstorableInside(inner, levels); msg != "" {
				return msg
			}
		}
	case []any:
		for _, inner := range v {
			if msg := unstorableInside(inner, levels); msg != "" {
				return msg
			}
		}
	}
	return ""
}

func unstorableInside(value any, levels int) string {
	if levels == 0 {
		return fmt.Sprintf("is nested deeper than %d levels; make it flatter", maxArgDepth)
	}
	return unstorable(value, levels-1)
}

func unstorableText(s string) string {
	switch {
	case strings.ContainsRune(s, 0):
		return "contains a NUL; take it out"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	return ""
}

// Check says why a pause that a caller asks for can't be stored, as an
// [InvalidError] about its reason or its end.
func (p Pause) Check() error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) }
	switch n := len(p.Reason); {
	case n == 0:
		return &InvalidError{Field: "reason", Msg: "it is empty; say why, for those who find the shard paused"}
	case n > maxPauseReason:
		return &InvalidError{Field: "reason", Msg: fmt.Sprintf("%d bytes; at most %d", n, maxPauseReason)}
	case strings.ContainsFunc(p.Reason, bad) || !utf8.ValidString(p.Reason):
		return &InvalidError{Field: "reason", Msg: "it has characters that can't be printed; write one line of text"}
	case p.Until != nil && p.Until.After(lastMoment):
		return &InvalidError{Field: "until", Msg: "after the year 9999; leave it out for a pause that ends when it is resumed"}
	}
	return nil
}

// lastMoment is the last that a document can name.
var lastMoment = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
