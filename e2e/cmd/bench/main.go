// Command bench measures what the design promises and prints one row per number:
// ours, the floor's, their ratio, the goal, and whether it is met. A goal that is
// missed fails nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nstance.dev/e2e/perf/bench"
	"nstance.dev/e2e/perf/consolebench"
	"nstance.dev/e2e/perf/demandbench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if is, err := bench.Child(ctx); is {
		return err
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	report := flags.String("report", "", "write a Markdown page to this `file` as well")
	history := flags.String("history", "", "compare with the runs in this `file`, and add this one")
	only := flags.String("only", "", "measure these alone, such as `P1,P7`")
	rounds := flags.Int("rounds", 5, "rounds of each comparison")
	if err := flags.Parse(args); err != nil {
		return err
	}
	measures, err := chosen(slices.Concat(bench.Measures(), demandbench.Measures(), consolebench.Measures()), *only)
	if err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	var rows []bench.Row
	for _, m := range measures {
		fmt.Fprintf(stderr, "%s: %s ...\n", m.Number, m.Title)
		rows = append(rows, m.Run(ctx, bench.Env{Rounds: *rounds, Root: root})...)
	}
	if err := bench.WriteTable(stdout, rows); err != nil {
		return err
	}
	setting := bench.Setting{Commit: commit(ctx, root), Date: time.Now(), Rounds: *rounds, Machine: bench.Machine()}
	if *history != "" {
		if setting.Changes, err = remember(bench.History(*history), setting, rows); err != nil {
			return err
		}
		for _, c := range setting.Changes {
			_, _ = fmt.Fprintln(stdout, "changed:", c) // the table before it was written
		}
	}
	if *report == "" {
		return nil
	}
	return writeReport(*report, setting, rows)
}

// remember adds a run to the history, and returns what has changed since those before.
func remember(h bench.History, s bench.Setting, rows []bench.Row) ([]string, error) {
	past, err := h.Read()
	if err != nil {
		return nil, err
	}
	return bench.Changes(past, s, rows), h.Add(s, rows)
}

// chosen returns the measures whose numbers stand in a list; an empty one
// means all.
func chosen(all []bench.Measure, list string) ([]bench.Measure, error) {
	if list == "" {
		return all, nil
	}
	var out []bench.Measure
	for number := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(m bench.Measure) bool { return m.Number == strings.TrimSpace(number) })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no measure %q", number)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// repository is the folder above the working directory that has the go.work.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work here or above: run bench inside the repository")
		}
		dir = parent
	}
}

// commit names what is measured, as far as git knows.
func commit(ctx context.Context, root string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func writeReport(path string, setting bench.Setting, rows []bench.Row) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(bench.WriteReport(f, setting, rows), f.Close())
}
