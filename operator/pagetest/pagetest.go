// Package pagetest holds pages of the documentation to what the code says: a part of a page
// between two lines is written from it. `go test ./operator/metrics -update` writes that
// package's part anew; without the flag a part that is out of date fails the test.
package pagetest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the part of the page that comes from this package")

// Holds checks that a page has a part of that name, written by the tests of a package, with
// this content. Both paths are from the root of the repository; a package of the operator's
// calls it, from its own directory.
func Holds(t *testing.T, page, name, by, content string) {
	t.Helper()
	file := strings.Repeat("../", strings.Count(by, "/")+1) + page
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	command := fmt.Sprintf("go test ./%s -update", by)
	begin, end := fmt.Sprintf("<!-- %s: begin, written by %s -->\n", name, command), fmt.Sprintf("<!-- %s: end -->\n", name)
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the lines %q and %q", page, begin, end)
	}
	want := before + begin + content + end + after
	switch {
	case string(text) == want:
	case !*update:
		t.Errorf("%s is out of date; run %s", page, command)
	default:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a page is for everybody
			t.Fatal(err)
		}
	}
}
