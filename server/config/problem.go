package config

import (
	"strconv"
	"strings"

	"nstance.dev/server/config/jsonc"
)

// Problem is one thing that is wrong with a document: where, what, and what
// would be right.
type Problem = jsonc.Problem

// Problems are all that is wrong with a document, in order of place. As an
// error it prints one line for each.
type Problems = jsonc.Problems

// quoted gives a foreign text in quotes, escaped and cut to a readable length.
func quoted(s string) string { return strconv.Quote(shorten(s)) }

func decimal(n int) string { return strconv.Itoa(n) }

// shorten keeps a foreign name from filling a message.
func shorten(s string) string { return shortenTo(s, 64) }

func shortenTo(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
