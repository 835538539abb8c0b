package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Setting is under what circumstances a run was made.
type Setting struct {
	Commit string // "unknown" where there is none
	Date   time.Time
	Rounds int // 0: one, without anything to compare it with

	Machine string   // its processor and how many cores it has; empty: not told
	Changes []string // since runs before
}

// Machine says what processor this machine has, and how many cores, without anything that names it.
func Machine() string { return fmt.Sprintf("%s, %d cores", Processor(), runtime.NumCPU()) }

// Processor is the model of the processor, as the kernel tells it.
func Processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// WriteReport writes rows as a Markdown page, with the circumstances under
// which they were measured and without anything that names the machine.
func WriteReport(w io.Writer, s Setting, rows []Row) error {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n")
	b.WriteString("Written by `make bench-report`; `make bench` prints the same. Each number is a ratio of two costs\n")
	b.WriteString("measured in one run, in turns; the least of all rounds counts. *Ours* is what Nstance takes. *Floor* is\n")
	b.WriteString("the least work that could do the job, done beside it by a bare program, which the last column names;\n")
	b.WriteString("where that says *the promise*, nothing is done beside it, and the floor is a figure that the design\n")
	b.WriteString("promises. *Goal* bounds the ratio of the two. What exactly is measured, and what the\n")
	b.WriteString("floor does, stands in the comments of the package `e2e/perf/bench`, one file for each number. Those\n")
	b.WriteString("that begin with G are of the engine of demand mode, in `e2e/perf/demandbench`: their floor is a goal in\n")
	b.WriteString("absolute numbers, for a core that is as fast as one of the reference or faster.\n\n")
	if err := WriteSetting(&b, s); err != nil {
		return err
	}
	b.WriteString("- seed: none; keys, nonces and ids are drawn anew in each run\n\n")
	if err := WriteRows(&b, rows); err != nil {
		return err
	}
	writeChanges(&b, s.Changes)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeChanges writes the closing note of a report: nothing, if there are no changes.
func writeChanges(b *strings.Builder, changes []string) {
	if len(changes) == 0 {
		return
	}
	b.WriteString("\nChanged by more than 5 % since the last run on such a machine:\n\n")
	for _, c := range changes {
		b.WriteString("- " + escape.Replace(c) + "\n")
	}
}

// WriteSetting writes the circumstances of a run as a Markdown list.
func WriteSetting(w io.Writer, s Setting) error {
	_, err := fmt.Fprintf(w, "- commit: %s\n- date: %s\n- Go: %s on %s/%s\n- machine: %d cores, shared\n",
		s.Commit, s.Date.UTC().Format(time.DateOnly), strings.TrimPrefix(runtime.Version(), "go"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if err == nil && s.Machine != "" {
		_, err = fmt.Fprintf(w, "- processor: %s\n", s.Machine)
	}
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
