package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
// nothing goes wrong but what the story says, and compares what happened, and when.
func TestStories(t *testing.T) {
	for _, file := range stories(t) {
		t.Run(name(file), func(t *testing.T) {
			t.Parallel()
			text, want, p := read(t, file)
			res := search.Play(t, p)
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
			if diff := difference(parseLog(t, want), parseLog(t, got)); diff != "" {
				t.Errorf("it went otherwise; look at what changed and run the test with -update:%s", diff)
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
				for _, v := range search.Play(t, p).Violations {
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

// slack is by how much a moment of a story may differ: one call more to the provider
// moves what comes after it, and is no other story.
const slack = 5 * time.Second

// line is one line of a log.
type line struct {
	at   time.Duration
	text string
}

func (l line) String() string { return fmt.Sprintf("%v %s", l.at, l.text) }

func parseLog(t *testing.T, log string) []line {
	t.Helper()
	var all []line
	for text := range strings.Lines(log) {
		stamp, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		var h, m, s int
		if _, err := fmt.Sscanf(stamp, "%d:%d:%d", &h, &m, &s); err != nil {
			t.Fatalf("log: %q: %v", text, err)
		}
		all = append(all, line{time.Duration(3600*h+60*m+s) * time.Second, rest})
	}
	return all
}

// difference says what happened that should not have, and the other way round; empty
// if nothing did.
func difference(want, got []line) string {
	var b strings.Builder
	for _, w := range want {
		i := slices.IndexFunc(got, func(g line) bool { return g.text == w.text && (g.at-w.at).Abs() <= slack })
		if i < 0 {
			fmt.Fprintf(&b, "\n  missing    %s", w)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	for _, g := range got {
		fmt.Fprintf(&b, "\n  unexpected %s", g)
	}
	return b.String()
}
