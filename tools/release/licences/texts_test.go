package licences_test

import (
	"strings"
	"testing"

	"nstance.dev/tools/release/licences"
)

// TestTexts: a program has the texts of what it is linked of, each once, and of nothing else.
func TestTexts(t *testing.T) {
	modules := []licences.Module{
		{Path: "a.example", Version: "v1.0.0", Programs: []string{"one", "two"}, Texts: []string{"The terms.\r\n", "A notice."}},
		{Path: "b.example", Version: "v1.1.0", Programs: []string{"one"}, Texts: []string{"The terms.  \n"}},
		{Path: "c.example", Version: "v1.2.0", Programs: []string{"two"}, Texts: []string{"Other terms."}},
	}
	got := licences.Texts([]string{"one"}, "Ours.", "Go's.", modules)
	for want, times := range map[string]int{
		"Nstance\n\nOurs.\n": 1, "runtime\n\nGo's.\n": 1, "The terms.": 1, "A notice.": 1,
		"a.example v1.0.0\nb.example v1.1.0\n\nThe terms.\n": 1, "c.example": 0, "Other terms.": 0,
	} {
		if n := strings.Count(got, want); n != times {
			t.Errorf("%q stands %d times, not %d, in\n%s", want, n, times, got)
		}
	}
}

// TestOfReadsTexts: a module of others is given with its own words.
func TestOfReadsTexts(t *testing.T) {
	modules, err := licences.Of(t.Context(), []string{"nstance.dev/tools/release/cmd/licences"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) != 1 || len(modules[0].Texts) != 1 || !strings.Contains(modules[0].Texts[0], "Copyright (c) 2019 The Go Authors") {
		t.Errorf("the texts of licensecheck are %+v", modules)
	}
}
