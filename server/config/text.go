package config

import "strconv"

// quoted gives a foreign text in quotes, escaped and cut to a readable length.
func quoted(s string) string { return strconv.Quote(shorten(s)) }

func decimal(n int) string { return strconv.Itoa(n) }
