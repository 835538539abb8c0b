package masking

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
)

// sequences are what terminals take for commands: those that end with a letter, those with a text
// that ends with a bell or a terminator, and those of two characters.
var sequences = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]?`)

// Plain returns text with nothing in it but what can be seen, tabulators and the ends of lines.
func Plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = sequences.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n' // a line that is written over is shown as two
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // also what turns the direction of text around
			return -1
		}
		return r
	}, text)
}

// Tail is the end of a text, at most so many bytes from the beginning of a line on, and whether something is missing
// before it. Of what was cut off already the first line is left out: it may be the rest of something
// that is masked as a whole.
func Tail(text []byte, most int, cut bool) (tail []byte, isCut bool) {
	if extra := len(text) - most; extra > 0 {
		if text, cut = text[extra-1:], true; text[0] == '\n' {
			return text[1:], true
		}
	}
	if !cut {
		return text, false
	}
	_, text, _ = bytes.Cut(text, []byte("\n"))
	return text, true
}
