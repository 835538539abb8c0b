package archtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// span is a run of invariants of one letter, both ends included.
type span struct {
	letter      string
	first, last int
}

// shown are the promises that a test must show: those that are kept whole. The list
// only grows; whoever builds what another promise is about adds it here.
var shown = []span{
	{"S", 1, 26},
	{"L", 1, 11},
	{"F", 1, 29}, {"F", 31, 53},
	{"M", 1, 87}, {"M", 90, 101},
}

// numbers are the invariants of all spans, in order.
func numbers(spans []span) []string {
	var all []string
	for _, s := range spans {
		for i := s.first; i <= s.last; i++ {
			all = append(all, fmt.Sprint(s.letter, i))
		}
	}
	return all
}

// cited returns the invariants that names of tests cite, each with the files in
// which they do.
func cited(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	all := declarations(t)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		for _, number := range citations(all[path]) {
			if !slices.Contains(files[number], path) {
				files[number] = append(files[number], path)
			}
		}
	}
	return files
}

// citations are the invariants that names of tests in a file cite.
func citations(source string) []string {
	var all []string
	for _, match := range citing.FindAllStringSubmatch(source, -1) {
		all = append(all, invariantNumber.FindAllString(match[1], -1)...)
	}
	return all
}

func TestPromisesAreShown(t *testing.T) {
	files := cited(t)
	for _, number := range numbers(shown) {
		if len(files[number]) == 0 {
			t.Errorf("no test shows %s: name one Test%s_…, or find out why it is not kept", number, number)
			continue
		}
		t.Logf("%s: %s", number, strings.Join(files[number], ", "))
	}
}

// TestPromisesThatGrow keeps the list honest: what must be shown is no longer being
// built. What is being built is logged, with the tests that show it so far.
func TestPromisesThatGrow(t *testing.T) {
	stands, files := invariants(t), cited(t)
	must := numbers(shown)
	for _, number := range slices.Sorted(maps.Keys(stands)) {
		if stands[number] != "growing" {
			continue
		}
		if slices.Contains(must, number) {
			t.Errorf("docs/invariants.md says that %s is being built, and the list of this test that it must be shown", number)
		}
		t.Logf("%s: being built; so far %s", number, cmp.Or(strings.Join(files[number], ", "), "no test"))
	}
}

func TestCitationsAreFound(t *testing.T) {
	// Put together here, so that this file cites nothing itself.
	source := "func " + strings.Join([]string{
		"TestS1S2F6_LeaderStopped(", "TestF48_L11_Watcher(", "FuzzF10_Decode(", "TestO15_Locked(", "TestSimulation(", "helperS7_Not(",
	}, "t *testing.T) {}\nfunc ")
	want := []string{"S1", "S2", "F6", "F48", "L11", "F10", "O15"}
	if got := citations(source); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
