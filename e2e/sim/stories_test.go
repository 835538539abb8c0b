package sim_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/sim"
)

var update = flag.Bool("update", false, "rewrite the logs of the stories")

// divider stands between a story's plan and its log.
const divider = "\n----\n"

// stories are the files of testdata.
func stories(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	return files
}

func read(t *testing.T, file string) (text, log string, p sim.Plan) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, log, _ = strings.Cut(string(data), divider)
	if p, err = sim.Parse(text); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return text, log, p
}

// TestStories runs the life of a group as a person would tell it, in a world where
// nothing goes wrong but what the story says, and compares what happened. What
// happens within the same second has no order of its own and is sorted.
func TestStories(t *testing.T) {
	for _, file := range stories(t) {
		t.Run(name(file), func(t *testing.T) {
			t.Parallel()
			text, want, p := read(t, file)
			res := run(t, p, sim.Options{})
			for _, v := range res.Violations {
				t.Errorf("%s", v)
			}
			got := told(res.Log)
			if *update {
				if err := os.WriteFile(file, []byte(text+divider+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("it went otherwise; look at what changed and run the test with -update:\n%s", difference(want, got))
			}
		})
	}
}

// TestStoriesInBadWeather runs the same stories while calls fail, and demands that
// every promise is kept.
func TestStoriesInBadWeather(t *testing.T) {
	for _, file := range stories(t) {
		t.Run(name(file), func(t *testing.T) {
			t.Parallel()
			for _, seed := range []uint64{3, 4} {
				_, _, p := read(t, file)
				p.Seed = seed
				p.Weather = maps.Clone(sim.Generate(seed, "safety").Weather)
				for _, v := range run(t, p, sim.Options{}).Violations {
					t.Errorf("seed %d: %s", seed, v)
				}
			}
		})
	}
}

func name(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txt") }

// told is a log up to the end of the plan, in its one order.
func told(log []string) string {
	if i := slices.IndexFunc(log, func(line string) bool { return strings.HasSuffix(line, " all faults end") }); i >= 0 {
		log = log[:i]
	}
	log = slices.Clone(log)
	slices.Sort(log) // every line begins with its second, in as many digits
	return strings.Join(log, "\n") + "\n"
}

// difference is both logs from the first line on that differs.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(0, i-2)
	return "want\n  " + strings.Join(a[from:min(len(a), i+12)], "\n  ") + "\ngot\n  " + strings.Join(b[from:min(len(b), i+12)], "\n  ")
}
