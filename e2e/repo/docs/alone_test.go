package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
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

// TestCostsOfThePage: the calculation of docs/sizing.md prints what the page shows below it, and costs more with a standby and with a
// shorter lease.
func TestCostsOfThePage(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "sizing.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := marked(t, "docs/sizing.md", "TestCostsOfThePage")
	script := blocks[0]
	run := func(script string) string {
		out, err := shell(t.Context(), script)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return out
	}
	calculate := func(was, is string) string {
		if !strings.Contains(script, was) {
			t.Fatalf("the calculation has no %s", was)
		}
		return run(strings.Replace(script, was, is, 1))
	}
	shown, before := run(script), ""
	for i := range blocks { // each goes on in the shell of those before it
		all := run(strings.Join(blocks[:i+1], "\n"))
		if printed := strings.TrimPrefix(all, before); !strings.Contains(string(source), "\n```text\n"+printed+"```\n") {
			t.Errorf("the page does not show what its calculation prints:\n%s", printed)
		}
		before = all
	}
	for _, larger := range []string{calculate("servers=1", "servers=2"), calculate("lease=15", "lease=5"), calculate("look=30", "look=0.5")} {
		was, is := totals(t, shown), totals(t, larger)
		for i := range was {
			if is[i] <= was[i] {
				t.Errorf("it costs no more:\n%s", larger)
			}
		}
	}
}

// totals are the last numbers of the lines below the first.
func totals(t *testing.T, table string) []float64 {
	t.Helper()
	var all []float64
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		fields := strings.Fields(line)
		total, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, total)
	}
	if len(all) != 2 {
		t.Fatalf("%d providers, want 2:\n%s", len(all), table)
	}
	return all
}

// TestShardOfThePage: the configuration that docs/nodes.md makes for Proxmox VE is valid, and offers what it says.
func TestShardOfThePage(t *testing.T) {
	dir := t.TempDir()
	path := "PATH=" + filepath.Dir(box.Binary(t, "nstance-admin")) + ":$PATH\n"
	for _, block := range marked(t, "docs/nodes.md", "TestShardOfThePage") {
		out, err := shell(t.Context(), path+strings.ReplaceAll(block, "rack-1.jsonc", dir+"/rack-1.jsonc"))
		if err != nil || !regexp.MustCompile(`default/general +cpu:4,memory:8192,disk:50 +on-demand`).MatchString(out) {
			t.Errorf("%v:\n%s", err, out)
		}
	}
}
