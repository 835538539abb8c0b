package demandscale

import (
	_ "embed" // of the introduction
	"io"
	"strings"

	"nstance.dev/e2e/perf/bench"
)

// introduction says what was measured, and how to do that again.
//
//go:embed introduction.md
var introduction string

// WritePage writes rows as a Markdown page, with the circumstances under which they were
// measured.
func WritePage(w io.Writer, setting bench.Setting, rows []bench.Row) error {
	var b strings.Builder
	b.WriteString(introduction)
	if err := bench.WriteSetting(&b, setting); err != nil {
		return err
	}
	b.WriteString("- control plane, operator, server, machines and the measuring process share the machine\n\n")
	if err := bench.WriteRows(&b, rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}
