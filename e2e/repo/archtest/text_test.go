package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// unwanted are texts that have no place in the repository. The patterns are written so
// that they do not match themselves. What one matches has one of its words, in letters of
// any case: a word is found in no time, where a pattern takes long for megabytes.
var unwanted = []struct {
	words   []string
	pattern *regexp.Regexp
	why     string
}{
	{[]string{"todo", "fixme"}, regexp.MustCompile(`\bTO[D]O\b|\bFIX[M]E\b`), "finish it, or say what is missing in an issue"},
	{[]string{"\u00a7"}, regexp.MustCompile(`\x{a7}`), "a section number needs its document; say the rule instead"},
	{[]string{"issue"}, regexp.MustCompile(`(?i)(^|[^\w/-])iss[u]es? #?[0-9]`), "the text must stand without the tracker"},
}

// objections are the reasons why a line has no place in the repository.
func objections(line []byte) (reasons []string) {
	lower := bytes.ToLower(line)
	for _, u := range unwanted {
		has := func(word string) bool { return bytes.Contains(lower, []byte(word)) }
		if slices.ContainsFunc(u.words, has) && u.pattern.Match(line) {
			reasons = append(reasons, u.why)
		}
	}
	return reasons
}

// tracked lists all text files that git knows or would add.
func tracked() (root string, paths []string, err error) {
	if root, err = repoRoot(); err != nil {
		return "", nil, err
	}
	// The checkout may belong to another user, as it does in many CI systems.
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", nil, fmt.Errorf("git ls-files: %w", err)
	}
	for path := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if !strings.HasSuffix(path, ".sum") {
			paths = append(paths, path)
		}
	}
	return root, paths, nil
}

// trackedFiles returns the paths of all text files that git knows or would add.
func trackedFiles(t *testing.T) (root string, paths []string) {
	t.Helper()
	root, paths, err := tracked()
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 20 {
		t.Fatalf("git lists %d files: it looks in the wrong place", len(paths))
	}
	return root, paths
}

// testDeclarations are the lines of test files in which functions begin, by path: a few
// kilobytes, which many patterns are looked for in, instead of megabytes.
var testDeclarations = sync.OnceValues(func() (map[string]string, error) {
	root, paths, err := tracked()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, fs.ErrNotExist) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(line, "func ") {
				found[path] += line
			}
		}
	}
	return found, nil
})

// declarations returns them, or ends the test.
func declarations(t *testing.T) map[string]string {
	t.Helper()
	found, err := testDeclarations()
	if err != nil {
		t.Fatal(err)
	}
	return found
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
			for _, why := range objections(line) {
				t.Errorf("%s:%d: %s: %s", path, number, bytes.TrimSpace(line), why)
			}
		}
	}
}

func TestUnwantedTextIsRecognised(t *testing.T) {
	for _, text := range []string{
		"// TO" + "DO: later", "see \u00a7 7.5", "for iss" + "ue 2",
	} {
		if len(objections([]byte(text))) == 0 {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{"lists of todos", "/usr/share/doc/", "issue a certificate", "golang/go#12"} {
		if len(objections([]byte(text))) > 0 {
			t.Errorf("%q does not pass", text)
		}
	}
}

// citing matches the name of a test that shows invariants: TestS3_…, TestS13F4_…,
// TestF48_L11_….
var citing = regexp.MustCompile(`(?m)^func (?:Test|Fuzz|Benchmark)((?:[SLEFOPM][0-9]+_?)+)`)

var invariantNumber = regexp.MustCompile(`[SLEFOPM][0-9]+`)

func TestCitedInvariantsExist(t *testing.T) {
	root, _ := trackedFiles(t)
	list, err := os.ReadFile(filepath.Join(root, "docs", "invariants.md"))
	if err != nil {
		t.Fatalf("the list of invariants: %v", err)
	}
	known := map[string]bool{}
	for _, number := range invariantNumber.FindAllString(string(list), -1) {
		known[number] = true
	}
	for path, lines := range declarations(t) {
		for _, match := range citing.FindAllStringSubmatch(lines, -1) {
			for _, number := range invariantNumber.FindAllString(match[1], -1) {
				if !known[number] {
					t.Errorf("%s: %s cites %s, which docs/invariants.md does not list", path, match[0], number)
				}
			}
		}
	}
}
