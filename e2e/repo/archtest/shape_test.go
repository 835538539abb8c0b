package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shape is how large a package and its types are.
type shape struct {
	files   int
	methods map[string]int // by type
	fields  map[string]int // by struct type
	cycle   []string       // the largest set of files of which each needs each other
}

// nothing is imported, so that a package is checked without compiling what it imports: what
// comes from elsewhere has no type then, and what is declared here has.
type nothing struct{}

func (nothing) Import(importPath string) (*types.Package, error) {
	if importPath == "unsafe" {
		return importer.Default().Import(importPath)
	}
	return nil, fmt.Errorf("%s is not looked at", importPath)
}

// shapeOf measures the files of one package, tests and generated code left out.
func shapeOf(fset *token.FileSet, files []*ast.File) shape {
	s := shape{files: len(files), methods: map[string]int{}, fields: map[string]int{}}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if name := receiver(decl); name != "" {
					s.methods[name]++
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						if st, ok := ts.Type.(*ast.StructType); ok {
							s.fields[ts.Name.Name] = fieldsOf(st)
						}
					}
				}
			}
		}
	}
	s.cycle = largestCycle(needs(fset, files))
	return s
}

// receiver is the type that a function is a method of; empty: none.
func receiver(decl *ast.FuncDecl) string {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return ""
	}
	expr := decl.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// fieldsOf counts the fields of a struct; an embedded one counts once.
func fieldsOf(st *ast.StructType) (n int) {
	for _, field := range st.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}

// needs says which file of a package names what another one declares.
func needs(fset *token.FileSet, files []*ast.File) map[string]map[string]bool {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: nothing{}, Error: func(error) {}}
	own, _ := conf.Check("x", fset, files, info) // what is imported has no types: that is an error, and of no interest
	name := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	arrows := map[string]map[string]bool{}
	for _, file := range files {
		arrows[name(file.Pos())] = map[string]bool{}
	}
	for ident, obj := range info.Uses {
		if obj.Pkg() != own || !declaredByPackage(obj, own) {
			continue
		}
		if from, to := name(ident.Pos()), name(obj.Pos()); from != to {
			arrows[from][to] = true
		}
	}
	return arrows
}

// declaredByPackage reports whether an object is declared at the top of a file, or a method.
func declaredByPackage(obj types.Object, own *types.Package) bool {
	if fn, ok := obj.(*types.Func); ok {
		return fn.Signature().Recv() == nil || fn.Parent() == nil
	}
	return obj.Parent() == own.Scope()
}

// largestCycle is the largest set of nodes of which each reaches each other, in order; nil
// if none reaches itself.
func largestCycle(arrows map[string]map[string]bool) []string {
	reach := map[string]map[string]bool{}
	for from := range arrows {
		seen, open := map[string]bool{}, []string{from}
		for len(open) > 0 {
			at := open[len(open)-1]
			open = open[:len(open)-1]
			for to := range arrows[at] {
				if !seen[to] {
					seen[to] = true
					open = append(open, to)
				}
			}
		}
		reach[from] = seen
	}
	var largest []string
	for _, from := range slices.Sorted(maps.Keys(reach)) {
		var cycle []string
		for to := range reach[from] {
			if reach[to][from] {
				cycle = append(cycle, to)
			}
		}
		if len(cycle) > len(largest) {
			slices.Sort(cycle)
			largest = cycle
		}
	}
	return largest
}

// handwritten parses the files of a package that are neither tests nor generated.
func handwritten(t *testing.T, p pkg) (*token.FileSet, []*ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(file) {
			files = append(files, file)
		}
	}
	return fset, files
}

// excess says what of a package is larger than it should be, by what it is: `files`, `cycle`,
// `methods of T` or `fields of T`.
func (s shape) excess() map[string]int {
	found := map[string]int{}
	if s.files > mostFiles {
		found["files"] = s.files
	}
	if len(s.cycle) > mostInCycle {
		found["cycle"] = len(s.cycle)
	}
	for name, n := range s.methods {
		if n > mostMethods {
			found["methods of "+name] = n
		}
	}
	for name, n := range s.fields {
		if n > mostFields {
			found["fields of "+name] = n
		}
	}
	return found
}

// TestPackagesAndTypesHaveOneSubject: what grows beyond the limits hides several subjects.
// What is larger today is listed with its size, and may only become smaller.
func TestPackagesAndTypesHaveOneSubject(t *testing.T) {
	listed := maps.Clone(large)
	for _, p := range packages(t) {
		if p.isTestSupport() || len(p.GoFiles) == 0 {
			continue
		}
		s := shapeOf(handwritten(t, p))
		for what, n := range s.excess() {
			place := p.dir() + ": " + what
			limit, ok := listed[place]
			delete(listed, place)
			switch {
			case !ok:
				t.Errorf("%s is %d: take it apart by its subjects, or list it in shapes.go with a reason", place, n)
			case n > limit.size && what == "cycle":
				t.Errorf("%s is %d, and was %d: %s", place, n, limit.size, strings.Join(s.cycle, " "))
			case n > limit.size:
				t.Errorf("%s is %d, and was %d: take it apart instead of adding to it", place, n, limit.size)
			case n < limit.size && !limit.fixed:
				t.Errorf("%s is %d now: write that number into shapes.go", place, n)
			}
		}
	}
	for place := range listed {
		t.Errorf("%s: it is within the limits, or does not exist: take it out of shapes.go", place)
	}
}

func TestShapes(t *testing.T) {
	sources := map[string]string{
		"a.go": `package x
type T[K any] struct { a, b int; fmt.Stringer }
func (t *T[K]) one() { two() }
func (T[K]) another() {}
type alone struct{}`,
		"b.go": `package x
func two() { var t T[int]; t.another() }
func three() { strings.ToUpper(four) }`,
		"c.go": `package x
const four = "4"`,
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		file, err := parser.ParseFile(fset, name, sources[name], 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	s := shapeOf(fset, files)
	if s.files != 3 || s.methods["T"] != 2 || s.fields["T"] != 3 || s.fields["alone"] != 0 || !slices.Equal(s.cycle, []string{"a.go", "b.go"}) {
		t.Errorf("%+v", s)
	}
	excess := shape{files: 26, methods: map[string]int{"T": 41, "U": 40}, fields: map[string]int{"T": 16, "U": 15}, cycle: make([]string, 6)}.excess()
	if want := map[string]int{"files": 26, "cycle": 6, "methods of T": 41, "fields of T": 16}; !maps.Equal(excess, want) {
		t.Errorf("%v, want %v", excess, want)
	}
}
