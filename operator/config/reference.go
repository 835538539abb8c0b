package config

import (
	"fmt"
	"strings"
)

// Reference returns the tables of flags and of environment variables for the
// documentation, in Markdown.
func (p Program) Reference() string {
	var b strings.Builder
	b.WriteString("| Flag | Default | Meaning |\n|---|---|---|\n")
	for _, t := range p.table {
		if t.flag != "" {
			fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", t.flag, shown(t), t.meaning)
		}
	}
	b.WriteString("\n| Variable | Default | Meaning |\n|---|---|---|\n")
	for _, t := range p.table {
		if t.env != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", t.env, shown(t), t.meaning)
		}
	}
	return b.String()
}

func shown(t setting) string {
	if t.fallback == "" {
		return "empty"
	}
	return "`" + t.fallback + "`"
}
