package demandsim_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim"
)

var update = flag.Bool("update", false, "record the traces of the stories again, and say what is otherwise")

func plan(t *testing.T, text string) sim.Plan {
	t.Helper()
	p, err := demandsim.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStories tells each scenario, and compares its trace with the one that is recorded.
func TestStories(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			res := search.Play(t, plan(t, s.plan))
			for _, v := range res.Violations {
				t.Errorf("%s", v)
			}
			s.check(t, count(t, res.Log))
			compare(t, filepath.Join("testdata", s.name+".jsonl"), strings.Join(res.Log, "\n")+"\n")
		})
	}
}

// TestTheScenariosHaveTheirTraces: a trace without a scenario is compared with nothing.
func TestTheScenariosHaveTheirTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			t.Errorf("%s is of no scenario", file)
		}
	}
}

func (s scenario) check(t *testing.T, counts map[string]int) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(s.least)) {
		if counts[kind] < s.least[kind] {
			broken(t, cmp.Or(s.promise, "E3"), "%s happens %d times, want %d at least", kind, counts[kind], s.least[kind])
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(s.most)) {
		if counts[kind] > s.most[kind] {
			broken(t, cmp.Or(s.promise, "E3"), "%s happens %d times, want %d at most", kind, counts[kind], s.most[kind])
		}
	}
}

// count says how often each kind of event is in a trace.
func count(t *testing.T, trace []string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, text := range trace {
		var l struct{ Kind, Class, Need string }
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		counts[l.Kind]++
		for _, more := range []string{l.Class, l.Need} {
			if more != "" {
				counts[l.Kind+" "+more]++
			}
		}
	}
	return counts
}

// broken says that a promise is, and ends the program at once where the flags want that.
func broken(t *testing.T, promise, format string, args ...any) {
	t.Helper()
	if search.FailFast() {
		panic(fmt.Sprintf(promise+" at "+t.Name()+": "+format, args...))
	}
	t.Errorf(promise+": "+format, args...)
}

// compare holds a trace against the recorded one, or records it.
func compare(t *testing.T, file, got string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	want := string(data)
	if got == want {
		return
	}
	difference := summary(t, want, got)
	if !*update {
		t.Errorf("it went otherwise; look at what changed and run the test with -update: %s", difference)
		return
	}
	if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("recorded: %s", difference)
}

// summary is by how much two traces differ: where first, and in the number of each kind of event.
func summary(t *testing.T, want, got string) string {
	t.Helper()
	was, is := strings.Split(strings.TrimSpace(want), "\n"), strings.Split(strings.TrimSpace(got), "\n")
	var b strings.Builder
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			fmt.Fprintf(&b, "\n  line %d was %s\n  and is %s", i+1, was[i], is[i])
			break
		}
	}
	if want == "" {
		was = nil
	}
	before, after := count(t, was), count(t, is)
	for _, kind := range slices.Sorted(maps.Keys(after)) {
		if before[kind] != after[kind] {
			fmt.Fprintf(&b, "\n  %s: %d, was %d", kind, after[kind], before[kind])
		}
	}
	return b.String()
}
