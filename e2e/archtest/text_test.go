package archtest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unwanted are texts that have no place in the repository. The patterns are written so
// that they do not match themselves.
var unwanted = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\bTO[D]O\b|\bFIX[M]E\b`), "finish it, or say what is missing in an issue"},
	{regexp.MustCompile(`\x{a7}`), "a section number needs its document; say the rule instead"},
	{regexp.MustCompile(`(?i)(^|[^\w/-])iss[u]es? #?[0-9]`), "the text must stand without the tracker"},
}

// trackedFiles returns the paths of all text files that git knows or would add.
func trackedFiles(t *testing.T) (root string, paths []string) {
	t.Helper()
	root, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	// The checkout may belong to another user, as it does in many CI systems.
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for path := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if !strings.HasSuffix(path, ".sum") {
			paths = append(paths, path)
		}
	}
	if len(paths) < 20 {
		t.Fatalf("git lists %d files: it looks in the wrong place", len(paths))
	}
	return root, paths
}

func TestTheTextStandsOnItsOwn(t *testing.T) {
	root, paths := trackedFiles(t)
	for _, path := range paths {
		data, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, fs.ErrNotExist) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(data, 0) >= 0 { // not text
			continue
		}
		number := 0
		for line := range bytes.Lines(data) {
			number++
			for _, u := range unwanted {
				if u.pattern.Match(line) {
					t.Errorf("%s:%d: %s: %s", path, number, bytes.TrimSpace(line), u.why)
				}
			}
		}
	}
}

func TestUnwantedTextIsRecognised(t *testing.T) {
	for _, text := range []string{
		"// TO" + "DO: later", "see \u00a7 7.5", "for iss" + "ue 2",
	} {
		if !isUnwanted(text) {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{"lists of todos", "/usr/share/doc/", "issue a certificate", "golang/go#12"} {
		if isUnwanted(text) {
			t.Errorf("%q does not pass", text)
		}
	}
}

func isUnwanted(text string) bool {
	for _, u := range unwanted {
		if u.pattern.MatchString(text) {
			return true
		}
	}
	return false
}

// citing matches the name of a test that shows invariants: TestS3_…, TestS13F4_…,
// TestF48_L11_….
var citing = regexp.MustCompile(`(?m)^func (?:Test|Fuzz|Benchmark)((?:[SLFOP][0-9]+_?)+)`)

var invariantNumber = regexp.MustCompile(`[SLFOP][0-9]+`)

func TestCitedInvariantsExist(t *testing.T) {
	root, paths := trackedFiles(t)
	list, err := os.ReadFile(filepath.Join(root, "docs", "invariants.md"))
	if err != nil {
		t.Fatalf("the list of invariants: %v", err)
	}
	known := map[string]bool{}
	for _, number := range invariantNumber.FindAllString(string(list), -1) {
		known[number] = true
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range citing.FindAllStringSubmatch(string(data), -1) {
			for _, number := range invariantNumber.FindAllString(match[1], -1) {
				if !known[number] {
					t.Errorf("%s: %s cites %s, which docs/invariants.md does not list", path, match[0], number)
				}
			}
		}
	}
}
