package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nstance.dev/e2e/repo/pages"
)

// marked are the blocks of a page that name a test.
func marked(t *testing.T, page, test string) []string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := pages.Blocks(page, source)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, block := range blocks {
		if block.Mark.Test == test {
			texts = append(texts, block.Text)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("%s has no block for %s", page, test)
	}
	return texts
}

// TestKeyOfThePage: what docs/operations.md has one type makes a key of 32 bytes that nobody else can read.
func TestKeyOfThePage(t *testing.T) {
	dir := t.TempDir()
	for _, block := range marked(t, "docs/operations.md", "TestKeyOfThePage") {
		if out, err := shell(t.Context(), "cd "+dir+"\n"+block); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "encryption.key"))
	if err != nil || !regexp.MustCompile(`^hex:[0-9a-f]{64}\n$`).Match(key) {
		t.Errorf("the key reads %d bytes, %v", len(key), err)
	}
	if info, err := os.Stat(filepath.Join(dir, "encryption.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestSearchesOfThePagesFindTests: those of docs/testing.md and docs/invariants.md.
func TestSearchesOfThePagesFindTests(t *testing.T) {
	for _, page := range []string{"docs/testing.md", "docs/invariants.md"} {
		for _, block := range marked(t, page, "TestSearchesOfThePagesFindTests") {
			if out, err := shell(t.Context(), block); err != nil || !strings.Contains(out, "TestS5") {
				t.Errorf("%s: %s finds no test of S5, %v:\n%.400s", page, block, err, out)
			}
		}
	}
}
