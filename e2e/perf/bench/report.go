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
	Rounds int // 0: one, without anything to compare it with
}

// WriteReport writes rows as a Markdown page, with the circumstances under
// which they were measured and without anything that names the machine.
func WriteReport(w io.Writer, s Setting, rows []Row) error {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n")
	b.WriteString("Written by `make bench-report`; `make bench` prints the same. Each number is a ratio of two costs\n")
	b.WriteString("measured in one run, in turns; the least of all rounds counts. What exactly is measured, and what the\n")
	b.WriteString("floor does, stands in the comments of the package `e2e/perf/bench`, one file for each number.\n\n")
	if err := WriteSetting(&b, s); err != nil {
		return err
	}
	b.WriteString("- seed: none; keys, nonces and ids are drawn anew in each run\n\n")
	if err := WriteRows(&b, rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSetting writes the circumstances of a run as a Markdown list.
func WriteSetting(w io.Writer, s Setting) error {
	_, err := fmt.Fprintf(w, "- commit: %s\n- date: %s\n- Go: %s on %s/%s\n- machine: %d cores, shared\n",
		s.Commit, s.Date.UTC().Format(time.DateOnly), strings.TrimPrefix(runtime.Version(), "go"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if err == nil && s.Rounds > 0 {
		_, err = fmt.Fprintf(w, "- rounds: %d\n", s.Rounds)
	}
	return err
}

// WriteRows writes rows as a Markdown table.
func WriteRows(w io.Writer, rows []Row) error {
	var b strings.Builder
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
