package jsonc

import (
	"strconv"
	"strings"
)

// Quoted gives a foreign text as it stands in a message: in quotes, escaped, and as [Short]
// cuts it.
func Quoted(s string) string { return strconv.Quote(Short(s)) }

// Short keeps a foreign name from filling a message: it cuts it to 64 bytes.
func Short(s string) string { return ShortenTo(s, 64) }

// ShortenTo gives a text of so many bytes at most, and a mark where more followed.
func ShortenTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
