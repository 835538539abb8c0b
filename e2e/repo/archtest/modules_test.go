package archtest

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// chosen is a list of plug-ins of CoreDNS as a program, which is how that is built with fewer.
const chosen = "e2e/tools/coredns/main.go"

// TestModulesOutsideOfTheWorkspaceHoldPinsAlone: `go test`, vet and check-modules see the modules of go.work, so code
// of ours in another one would be seen by none of them.
func TestModulesOutsideOfTheWorkspaceHoldPinsAlone(t *testing.T) {
	root, paths := trackedFiles(t)
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	var outside []string
	for _, p := range paths {
		if dir := path.Dir(p); path.Base(p) == "go.mod" && !strings.Contains(p, "testdata/") && !strings.Contains(string(work), "\t./"+dir+"\n") {
			outside = append(outside, dir)
		}
	}
	if !slices.Contains(outside, "tools/packaging") || slices.Contains(outside, "server") {
		t.Fatalf("outside of go.work are %q: the test looks for the wrong thing", outside)
	}
	for _, dir := range outside {
		if !strings.HasPrefix(dir, "tools") && !strings.HasPrefix(dir, "e2e/tools/") {
			t.Errorf("%s is a module outside of go.work, and not one that pins tools", dir)
		}
		for _, p := range paths {
			if path.Dir(p) == dir && strings.HasSuffix(p, ".go") && p != chosen {
				t.Errorf("%s: code in a module that is outside of go.work", p)
			}
		}
	}
}
