package archtest

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestServersAndOperatorReadTheSameVariables: the operator may import no server, so how the
// variables of OpenTelemetry are read stands twice. Whoever changes one has to change the other.
func TestServersAndOperatorReadTheSameVariables(t *testing.T) {
	root, _ := trackedFiles(t)
	read := func(module string) map[string]string {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(root, module, "telemetry", "telemetry.go"), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				var text strings.Builder
				if err := printer.Fprint(&text, fset, f); err != nil {
					t.Fatal(err)
				}
				texts[f.Name.Name] = text.String()
			}
		}
		return texts
	}
	servers, operators := read("server"), read("operator")
	for _, name := range []string{"wanted", "newExporter"} {
		if servers[name] == "" || servers[name] != operators[name] {
			t.Errorf("func %s is not the same in server/telemetry and operator/telemetry:\n%s\n%s", name, servers[name], operators[name])
		}
	}
}
