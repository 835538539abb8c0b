package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// clockReaders are the functions of package time that depend on the present moment.
var clockReaders = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
}

// importName returns the name under which a file knows a package; empty: not at all.
func importName(file *ast.File, importPath string) string {
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// use is one mention of a function of a package.
type use struct {
	name   string
	called bool
	at     ast.Node
}

// uses returns where a file mentions functions of a package, and whether it calls them.
func uses(file *ast.File, importPath string, names ...string) []use {
	local := importName(file, importPath)
	if local == "" {
		return nil
	}
	called := map[ast.Node]bool{}
	var found []use
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called[n.Fun] = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == local && slices.Contains(names, n.Sel.Name) {
				found = append(found, use{n.Sel.Name, called[n], n})
			}
		}
		return true
	})
	return found
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		var docs []string
		for _, f := range files(t, p) {
			if !f.test && f.ast.Doc != nil {
				docs = append(docs, f.ast.Doc.Text())
			}
		}
		switch {
		case len(p.GoFiles) == 0: // tests only
		case len(docs) != 1:
			t.Errorf("%s has %d package comments, want one", p.dir(), len(docs))
		case !p.isCommand() && !strings.HasPrefix(docs[0], "Package "+p.Name+" "):
			t.Errorf("%s: the package comment does not begin with %q", p.dir(), "Package "+p.Name)
		}
	}
}

func TestPurePackagesHaveNoClock(t *testing.T) {
	for _, p := range packages(t) {
		whole := slices.ContainsFunc(pureDirs, p.under)
		for _, f := range files(t, p) {
			if f.test || !whole && !slices.Contains(pureFiles, f.path) {
				continue
			}
			for _, u := range uses(f.ast, "time", clockReaders...) {
				t.Errorf("%s: time.%s in a pure package; take the time as an argument", f.at(u.at.Pos()), u.name)
			}
			for _, random := range []string{"math/rand", "math/rand/v2", "crypto/rand"} {
				if importName(f.ast, random) != "" {
					t.Errorf("%s imports %s: a pure package draws no random numbers", f.path, random)
				}
			}
		}
	}
}

// A file that was renamed would be pure by word alone.
func TestPureFilesAreThere(t *testing.T) {
	var all []string
	for _, p := range packages(t) {
		for _, f := range files(t, p) {
			all = append(all, f.path)
		}
	}
	for _, path := range pureFiles {
		if !slices.Contains(all, path) {
			t.Errorf("%s is to be pure, and is not there", path)
		}
	}
}

func TestDecisionsHaveNoConcurrency(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.ContainsFunc(decisionDirs, p.under) {
			continue
		}
		for _, f := range files(t, p) {
			if f.test {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n.(type) {
				case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
					t.Errorf("%s: goroutines and channels have no place in a decision", f.at(n.Pos()))
				}
				return true
			})
		}
	}
}

// A clock is handed in, with time.Now as the default: only programs and what exists
// for tests ask it directly.
func TestTheClockIsInjected(t *testing.T) {
	for _, p := range packages(t) {
		if p.isCommand() || p.isTestSupport() {
			continue
		}
		for _, f := range files(t, p) {
			if f.test {
				continue
			}
			for _, u := range uses(f.ast, "time", "Now", "Since", "Until") {
				if u.called {
					t.Errorf("%s calls time.%s; use the injected clock", f.at(u.at.Pos()), u.name)
				}
			}
		}
	}
}

// Waiting in a test is for the fake clock of testing/synctest. Tests that watch other
// processes, of the whole system and of clouds that run machines, have no such clock.
func TestTestsDoNotSleep(t *testing.T) {
	for _, p := range packages(t) {
		if p.under("e2e") || p.isFake() && p.isCommand() || p.under("server/driver/drivertest/guest") {
			continue
		}
		for _, f := range files(t, p) {
			if !f.test || importName(f.ast, "testing/synctest") != "" {
				continue
			}
			for _, u := range uses(f.ast, "time", "Sleep") {
				t.Errorf("%s sleeps for real; use testing/synctest", f.at(u.at.Pos()))
			}
		}
	}
}

// Whoever writes the group file must have read back what he writes, and must know what others
// wait to have written: that is one package.
func TestGroupFileHasOneWriter(t *testing.T) {
	const writer = "server/groups"
	found := false
	for _, p := range packages(t) {
		if !p.under("server") || p.isTestSupport() {
			continue
		}
		for _, f := range files(t, p) {
			if f.test {
				continue
			}
			for _, u := range uses(f.ast, modulePrefix+"server/config/groupfile", "Encode") {
				if found = found || p.dir() == writer; p.dir() != writer {
					t.Errorf("%s writes a group file: that is for %s alone", f.at(u.at.Pos()), writer)
				}
			}
		}
	}
	if !found {
		t.Errorf("%s does not write the group file: the test looks for the wrong thing", writer)
	}
}

// A package that starts goroutines proves in its tests that none is left behind.
func TestGoroutinesAreAccountedFor(t *testing.T) {
	for _, p := range packages(t) {
		if p.isCommand() || p.isTestSupport() {
			continue
		}
		var starts string
		var checked bool
		for _, f := range files(t, p) {
			if f.test {
				checked = checked || importName(f.ast, "go.uber.org/goleak") != ""
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok && starts == "" {
					starts = f.at(g.Pos())
				}
				return true
			})
		}
		if starts != "" && !checked {
			t.Errorf("%s starts a goroutine, but no test of %s uses go.uber.org/goleak", starts, p.dir())
		}
	}
}
