package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// pkg is what `go list` says about one package of the workspace.
type pkg struct {
	Dir          string
	ImportPath   string
	Name         string
	GoFiles      []string
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// dir is the package's directory below the root of the repository, with slashes.
func (p pkg) dir() string { return strings.TrimPrefix(p.ImportPath, modulePrefix) }

// testImports are the imports of test files, those in the external test package included.
func (p pkg) testImports() []string {
	return append(append([]string(nil), p.TestImports...), p.XTestImports...)
}

// isCommand reports whether the package is a program.
func (p pkg) isCommand() bool { return p.Name == "main" }

// isTestSupport reports whether the package exists for tests alone.
func (p pkg) isTestSupport() bool {
	return p.under("e2e") || strings.Contains(p.dir()+"/", "test/") || p.under("operator/testworld") || p.isFake()
}

// isFake reports whether the package stands in for a cloud: awsfake, or the program
// fake-ec2.
func (p pkg) isFake() bool {
	last := path.Base(p.dir())
	return strings.HasSuffix(last, "fake") || strings.HasPrefix(last, "fake-")
}

// under reports whether the package lies in dir or below it.
func (p pkg) under(dir string) bool { return p.dir() == dir || strings.HasPrefix(p.dir(), dir+"/") }

// sourceFile is one parsed file.
type sourceFile struct {
	path string // below the root of the repository
	test bool
	fset *token.FileSet
	ast  *ast.File
}

// at names a place in the file.
func (f sourceFile) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(pos).Line)
}

// repoRoot returns the directory that holds go.work.
var repoRoot = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work above the working directory")
		}
		dir = parent
	}
})

// listed returns all packages of the workspace. Packages that do not compile are
// listed as far as they can be read: that they compile is for other tests.
var listed = sync.OnceValues(func() ([]pkg, error) {
	root, err := repoRoot()
	if err != nil {
		return nil, err
	}
	workspace := append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"))
	modules, err := goList(root, workspace, "-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	args := []string{
		"-e",
		"-json=Dir,ImportPath,Name,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles," +
			"Imports,TestImports,XTestImports,Deps",
	}
	for dir := range strings.Lines(string(modules)) {
		args = append(args, filepath.Join(strings.TrimSpace(dir), "..."))
	}
	out, err := goList(root, workspace, args...)
	if err != nil {
		return nil, err
	}
	return decodePackages(out)
})

func goList(dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir, cmd.Env = dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	return out, nil
}

func decodePackages(data []byte) ([]pkg, error) {
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var p pkg
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("output of go list: %w", err)
		case strings.HasPrefix(p.ImportPath, modulePrefix):
			all = append(all, p)
		}
	}
}

// packages returns all packages of the workspace, or ends the test.
func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("go list found %d packages: it looks in the wrong place", len(all))
	}
	return all
}

// parsed are the files of the packages that a test has asked for, by import path: each of
// many rules looks at all of them. Tests here run one after another.
var parsed = map[string][]sourceFile{}

// files parses all files of a package, or ends the test.
func files(t *testing.T, p pkg) []sourceFile {
	t.Helper()
	if all, ok := parsed[p.ImportPath]; ok {
		return all
	}
	root, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	var all []sourceFile
	parse := func(names []string, test bool) {
		for _, name := range names {
			path := filepath.Join(p.Dir, name)
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, sourceFile{filepath.ToSlash(rel), test, fset, tree})
		}
	}
	parse(p.GoFiles, false)
	parse(p.CgoFiles, false)
	parse(p.TestGoFiles, true)
	parse(p.XTestGoFiles, true)
	parsed[p.ImportPath] = all
	return all
}
