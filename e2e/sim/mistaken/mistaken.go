// Package mistaken builds the project with mistakes in it: edits of its sources, which go
// nowhere but into an overlay of the go command. A simulator that does not find them proves
// nothing about the code without. Which mistakes there are is for each simulator's tests.
package mistaken

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Edit is a file of the repository, a text that occurs in it once, and what replaces that.
type Edit [3]string

// Overlay writes a file for the go command's -overlay that makes the edits, and returns its
// path. It ends the test where a text is not there any more, or more than once. root is the
// repository.
func Overlay(t *testing.T, root string, edits []Edit) string {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, replace, texts := t.TempDir(), map[string]string{}, map[string][]byte{}
	for _, e := range edits {
		path := filepath.Join(root, e[0])
		if texts[path] == nil {
			if texts[path], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if n := bytes.Count(texts[path], []byte(e[1])); n != 1 {
			t.Fatalf("%s has the text that the mistake replaces %d times, want once; fit the mistake to the code:\n%s", e[0], n, e[1])
		}
		texts[path] = bytes.Replace(texts[path], []byte(e[1]), []byte(e[2]), 1)
		replace[path] = filepath.Join(dir, strings.ReplaceAll(e[0], "/", "_"))
	}
	for path, text := range texts {
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Compile checks that edits, all at once, still fit the code and compile. packages are those
// that they are in, as a pattern below root.
func Compile(t *testing.T, root, packages string, edits []Edit) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", Overlay(t, root, edits), packages)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Run is one run of a package's tests: of those with names like Tests, with some flags.
type Run struct {
	Tests string
	Flags []string
}

// Found is how a mistake was found.
type Found struct {
	Promise string // that was found broken
	Says    string // what was said of it
	Test    string // that found it; empty if the program ended outside of a test's goroutine
	Built   time.Duration
	Ran     time.Duration
}

func (f Found) String() string {
	by := ""
	if f.Test != "" {
		by = " by " + f.Test
	}
	return fmt.Sprintf("found%s in %.1f s, after %.1f s of building: %s", by, f.Ran.Seconds(), f.Built.Seconds(), f.Says)
}

var (
	// violated finds what a simulator that fails fast says of a broken promise.
	violated = regexp.MustCompile(`(?m)^panic: (([A-Z]\d+) at .*?)(?: \[recovered.*)?$`)
	// failed finds the tests in which it said so, and those around them.
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) `)
)

// Find builds the tests of the package in the working directory once, with a mistake in the code, and does one run of
// them after another, each until the first promise is found broken. It ends the test where that is so in none of them
// within the limit, which is counted from when they are built.
func Find(t *testing.T, root string, edits []Edit, limit time.Duration, runs ...Run) (f Found) {
	t.Helper()
	const building = 10 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit+building)
	defer cancel()
	began := time.Now()
	binary := filepath.Join(t.TempDir(), "mistaken.test")
	// Without what a debugger needs, which takes longer to link than the mistake to compile.
	build := exec.CommandContext(ctx, "go", "test", "-buildvcs=false", "-ldflags=-s -w", "-overlay", Overlay(t, root, edits), "-c", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.Built = time.Since(began)
	built := time.Now()
	var said bytes.Buffer
	for _, run := range runs {
		args := append([]string{"-test.timeout", max(limit-time.Since(built), time.Second).String(), "-test.run", run.Tests, "-fail-fast"}, run.Flags...)
		out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
		if found := violated.FindSubmatch(out); err != nil && found != nil {
			f.Says, f.Promise, f.Ran = string(found[1]), string(found[2]), time.Since(built)
			for _, test := range failed.FindAllSubmatch(out, -1) {
				if len(test[1]) > len(f.Test) { // a test that failed within another one
					f.Test = string(test[1])
				}
			}
			return f
		}
		fmt.Fprintf(&said, "%s: %v\n%s\n", run.Tests, err, out[max(0, len(out)-4000):])
	}
	t.Fatalf("not found:\n%s", said.String())
	return f
}
