package requests

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

// Limits of texts that the group file keeps for a caller.
const (
	// maxArgDepth is how deep the value of an argument may be nested. The reader of
	// the group file takes 64 levels, and the copy of an entry whose group was static
	// stands 7 levels down.
	maxArgDepth = 32
)

// checkStorable looks at what a change writes into the group file and no other
// check looks at.
func checkStorable(change GroupChange) error {
	if !document.CleanText(change.Manager) {
		return &groupfile.InvalidError{Field: "manager", Msg: fmt.Sprintf("at most %d bytes, of characters that can be printed", document.MaxNameLength)}
	}
	for name, value := range change.Args {
		if name == "" || !document.CleanText(name) {
			return &groupfile.InvalidError{Field: "args", Msg: "a name is empty, too long, or has characters that can't be printed"}
		}
		if msg := unstorable(value, maxArgDepth); msg != "" {
			return &groupfile.InvalidError{Field: "args", Msg: fmt.Sprintf("the value of %s %s", name, msg)}
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
