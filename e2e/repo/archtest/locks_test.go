package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// mutexes counts the mutexes that a file declares: in structs, at the top and in functions.
func mutexes(file *ast.File) (n int) {
	isMutex := func(expr ast.Expr) bool {
		if generic, ok := expr.(*ast.IndexExpr); ok {
			expr = generic.X
		}
		sel, ok := expr.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok {
			return false
		}
		switch pkg.Name + "." + sel.Sel.Name {
		case "sync.Mutex", "sync.RWMutex", "keylock.Locks":
			return true
		}
		return false
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Field:
			if isMutex(node.Type) {
				n += max(1, len(node.Names))
			}
		case *ast.ValueSpec:
			if node.Type != nil && isMutex(node.Type) {
				n += len(node.Names)
			}
		}
		return true
	})
	return n
}

// saysLockOrder reports whether a doc comment has a paragraph about the order of locks.
func saysLockOrder(doc string) bool {
	return strings.HasPrefix(doc, "Lock order: ") || strings.Contains(doc, "\n\nLock order: ")
}

// TestLockOrderIsSaid: a package of the server with more than one mutex says in a paragraph of
// its doc comment in which order they are taken, and who is called under them.
func TestLockOrderIsSaid(t *testing.T) {
	said := 0
	for _, p := range packages(t) {
		if !p.under("server") || p.isTestSupport() || len(p.GoFiles) == 0 {
			continue
		}
		_, files := handwritten(t, p)
		n, says := 0, false
		for _, file := range files {
			n += mutexes(file)
			says = says || saysLockOrder(file.Doc.Text())
		}
		if n > 1 && !says {
			t.Errorf("%s has %d mutexes: a paragraph of its doc comment begins with \"Lock order: \" and says in which order they are taken", p.dir(), n)
		}
		if n > 1 && says {
			said++
		}
	}
	if said < 5 {
		t.Errorf("%d packages with more than one mutex were found: the test looks in the wrong place", said)
	}
}

func TestMutexes(t *testing.T) {
	const source = `// Package x does things.
//
// Lock order: the first, the second.
package x
var mu sync.Mutex
type a struct { mu, other sync.RWMutex; locks keylock.Locks[string]; sync.Mutex; n int }
func f(wg *sync.WaitGroup) { var mu sync.Mutex; mu.Lock() }`
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if n := mutexes(file); n != 6 {
		t.Errorf("%d mutexes, want 6", n)
	}
	if !saysLockOrder(file.Doc.Text()) || saysLockOrder("Package x has no Lock order: none") {
		t.Error("the paragraph is not told from other text")
	}
}
