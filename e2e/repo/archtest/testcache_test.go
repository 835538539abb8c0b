package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Go's test cache knows of a test's files those of its module alone. A test whose result `make
// test` takes from there reads no others; those that do are in OUTSIDE of the Makefile, which
// always run.
func TestCachedTestsReadFilesOfTheirModule(t *testing.T) {
	root, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	always := outside(t, root)
	if len(always) == 0 {
		t.Fatal("OUTSIDE of the Makefile is empty: the test looks for the wrong thing")
	}
	reads := map[string]bool{}
	for _, p := range packages(t) {
		if p.under("e2e") && !p.under("e2e/sim") && !p.under("e2e/perf/bench") {
			continue // they always run
		}
		dir, module := "./"+p.dir(), moduleOf(t, p)
		for _, f := range files(t, p) {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				path := relativePath(n)
				if path == "" || !outOf(module, root, filepath.Join(p.Dir, path)) {
					return true
				}
				reads[dir] = true
				if !always[dir] {
					t.Errorf("%s: %s is not in the package's module, so Go's test cache does not see it change: add %s to OUTSIDE of the Makefile", f.at(n.Pos()), path, dir)
				}
				return true
			})
		}
	}
	for dir := range always {
		if !reads[dir] {
			t.Errorf("%s reads nothing outside of its module: remove it from OUTSIDE of the Makefile", dir)
		}
	}
}

// outside are the packages of the Makefile's OUTSIDE.
func outside(t *testing.T, root string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	if line := regexp.MustCompile(`(?m)^OUTSIDE\s*:=(.*)$`).FindSubmatch(text); line != nil {
		for _, dir := range strings.Fields(string(line[1])) {
			all[dir] = true
		}
	}
	return all
}

// moduleOf is the directory with the go.mod of a package.
func moduleOf(t *testing.T, p pkg) string {
	t.Helper()
	for dir := p.Dir; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatalf("%s is in no module", p.Dir)
	return ""
}

// relativePath is a path that leads upwards, written as one string or as words of
// filepath.Join; empty: the node is none.
func relativePath(n ast.Node) string {
	path := ""
	switch n := n.(type) {
	case *ast.BasicLit:
		path = text(n)
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "Join" {
			return ""
		}
		for _, arg := range n.Args {
			word, ok := arg.(*ast.BasicLit)
			if !ok {
				break
			}
			path = filepath.Join(path, text(word))
		}
	}
	if !strings.HasPrefix(path, "../") || filepath.Base(path) == ".." { // upwards alone names no file
		return ""
	}
	return path
}

func text(l *ast.BasicLit) string {
	if l.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(l.Value)
	if err != nil {
		return ""
	}
	return s
}

// outOf reports whether a path is that of something in the repository and not in a module.
func outOf(module, root, path string) bool {
	below := func(dir string) bool { return strings.HasPrefix(path+"/", dir+"/") }
	if !below(root) || below(module) {
		return false
	}
	found, err := filepath.Glob(path)
	return err == nil && len(found) > 0
}
