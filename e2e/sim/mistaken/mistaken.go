// Package mistaken builds the project with mistakes in it: edits of its sources, which go
// nowhere but into an overlay of the go command. A simulator that does not find them proves
// nothing about the code without. Which mistakes there are is for each simulator's tests.
package mistaken

import (
	"bytes"
	"context"
	"encoding/json"
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

// violated finds what a simulator that fails fast says of a broken promise.
var violated = regexp.MustCompile(`(?m)^panic: ([A-Z]\d+) at .*$`)

// Find runs the tests of the package in the working directory that have names like run,
// with a mistake in the code, and returns the first promise that they find broken, and what
// they say of it. It ends the test where they find none within the limit, which is counted
// from when they are built.
func Find(t *testing.T, root string, edits []Edit, limit time.Duration, run string, args ...string) (promise, says string) {
	t.Helper()
	const building = 10 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit+building)
	defer cancel()
	binary := filepath.Join(t.TempDir(), "mistaken.test")
	build := exec.CommandContext(ctx, "go", "test", "-buildvcs=false", "-overlay", Overlay(t, root, edits), "-c", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	args = append([]string{"-test.timeout", limit.String(), "-test.run", run, "-fail-fast"}, args...)
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	found := violated.FindSubmatch(out)
	if err == nil || found == nil {
		t.Fatalf("not found: %v\n%s", err, out[max(0, len(out)-4000):])
	}
	return string(found[1]), string(found[0])
}
