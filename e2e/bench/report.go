package bench

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// Setting is under what circumstances a run was made.
type Setting struct {
	Commit string // "unknown" where there is none
	Date   time.Time
	Rounds int
}

// WriteReport writes rows as a Markdown page, with the circumstances under
// which they were measured and without anything that names the machine.
func WriteReport(w io.Writer, s Setting, rows []Row) error {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n")
	b.WriteString("Written by `make bench-report`; `make bench` prints the same. Each number is a ratio of two costs\n")
	b.WriteString("measured in one run, in turns; the least of all rounds counts. What exactly is measured, and what the\n")
	b.WriteString("floor does, stands in the comments of the package `e2e/bench`, one file for each number.\n\n")
	fmt.Fprintf(&b, "- commit: %s\n- date: %s\n- Go: %s on %s/%s\n- machine: %d cores, shared\n- rounds: %d\n",
		s.Commit, s.Date.UTC().Format(time.DateOnly), strings.TrimPrefix(runtime.Version(), "go"), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), s.Rounds)
	b.WriteString("- seed: none; keys, nonces and ids are drawn anew in each run\n\n")
	markdownRow(&b, header)
	markdownRow(&b, strings.Split(strings.Repeat("---,", len(header)-1)+"---", ","))
	for _, r := range rows {
		markdownRow(&b, r.cells())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// escape keeps text from ending a cell or a row.
var escape = strings.NewReplacer("|", `\|`, "\n", " ")

func markdownRow(b *strings.Builder, cells []string) {
	for _, cell := range cells {
		b.WriteString("| " + escape.Replace(cell) + " ")
	}
	b.WriteString("|\n")
}
