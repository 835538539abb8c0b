package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMakeTargetsInPagesExist: what a page has its reader type after make is a target.
func TestMakeTargetsInPagesExist(t *testing.T) {
	root, _ := trackedFiles(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^([a-z][a-z0-9 $(),-]*):(?:[^=]|$)`).FindAllStringSubmatch(string(makefile), -1) {
		for _, name := range strings.Fields(line[1]) {
			targets[name] = true
		}
	}
	if len(targets) < 20 {
		t.Fatalf("%d targets found: the test looks for the wrong thing", len(targets))
	}
	line := regexp.MustCompile("(?m)(?:^ *|`)make((?: [a-z][a-z0-9-]*)+)")
	found := 0
	for page, text := range pages(t) {
		if page == "docs/reference/texts.md" { // that is a list of what programs say
			continue
		}
		code := strings.Join(append(fenced.FindAllString(text, -1), append(indented.FindAllString(text, -1), inlineCode.FindAllString(text, -1)...)...), "\n")
		for _, call := range line.FindAllStringSubmatch(code, -1) {
			first := strings.Fields(call[1])[0] // what follows may be running text
			found++
			if !targets[first] {
				t.Errorf("%s: make %s: there is no such target", page, first)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d calls of make found: the test looks for the wrong thing", found)
	}
}

// TestMakeKnowsEachVariableThatItReads: make reads what a target needs where the target stands, and takes
// a name that is defined further down for an empty one. Such a target lacks what it needs, and says nothing.
func TestMakeKnowsEachVariableThatItReads(t *testing.T) {
	root, _ := trackedFiles(t)
	call := exec.CommandContext(t.Context(), "make", "--warn-undefined-variables", "--dry-run", "help")
	call.Dir = root
	for _, variable := range os.Environ() { // no flags of a make that runs this test
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS=") {
			call.Env = append(call.Env, variable)
		}
	}
	call.Env = append(call.Env, "XDG_CACHE_HOME="+t.TempDir(), "LC_ALL=C") // the first may be unset
	out, err := call.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if warnings := regexp.MustCompile(`(?m)^.*undefined variable.*$`).FindAllString(string(out), -1); warnings != nil {
		t.Errorf("the Makefile reads what is not defined there yet:\n%s", strings.Join(warnings, "\n"))
	}
}
