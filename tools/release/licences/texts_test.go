package licences_test

import (
	"os"
	"path/filepath"
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

// TestPartTexts: the pages' licences are given as their build wrote them, and none may be missing.
func TestPartTexts(t *testing.T) {
	dist := t.TempDir()
	if err := os.Mkdir(filepath.Join(dist, "assets"), 0o700); err != nil {
		t.Fatal(err)
	}
	parts := []licences.Part{{Name: "@a/b", Version: "1.0.0"}, {Name: "c", Version: "2.0.0"}}
	if _, err := licences.PartTexts(dist, parts, "one"); err == nil || !strings.Contains(err.Error(), "0 files") {
		t.Errorf("error %v, want that there is no file", err)
	}
	file := filepath.Join(dist, "assets", "licences-0123.txt")
	hyphens := "\n" + strings.Repeat("-", 72) + "\n\n"
	for text, missing := range map[string]string{
		"@a/b 1.0.0\n\nThe terms.\n" + hyphens + "c 2.0.0\n\nOthers.\n": "",
		"@a/b 1.0.0\n\nThe terms.\n":                                    "c 2.0.0",
		"@a/b 0.9.0\n\nThe terms.\n" + hyphens + "c 2.0.0\n\nOthers.\n": "@a/b 1.0.0",
		"@a/b 1.0.0\n\nThe terms.\n" + hyphens + "c 2.0.0\n\n":          "c 2.0.0",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := licences.PartTexts(dist, parts, "one")
		switch {
		case missing != "" && (err == nil || !strings.Contains(err.Error(), missing+" is missing")):
			t.Errorf("%q: error %v, want that %s is missing", text, err, missing)
		case missing == "" && (err != nil || len(got) != 2 || got[1].Path != "c" || got[1].Version != "2.0.0" || strings.TrimSpace(got[1].Texts[0]) != "Others."):
			t.Errorf("%q: %+v, error %v", text, got, err)
		}
	}
}

// TestReadTerms: the console's parts are in the text for the program that has it, and in no other.
func TestReadTerms(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", ".."))
	terms, err := licences.ReadTerms(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]bool{"nstance-admin": true, "nstance-agent": false} {
		text := terms.Of(program)
		if strings.Contains(text, "\npreact 1") != want || !strings.Contains(text, "Apache License") || !strings.Contains(text, "The Go Authors") {
			t.Errorf("the licences of %s: with preact %v, and\n%.300s", program, strings.Contains(text, "\npreact 1"), text)
		}
	}
}
