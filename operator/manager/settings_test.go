package manager

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"nstance.dev/operator/config"
)

// TestEverySettingIsUsed: one that is parsed and goes nowhere is a promise that nobody
// keeps. Used is what the wiring or the command reads from a config.Settings.
func TestEverySettingIsUsed(t *testing.T) {
	read := map[string]bool{}
	for _, pattern := range []string{"*.go", "../cmd/nstance-operator/*.go", "../program/*.go", "../poddemand/*.go", "../demandmode/*.go", "../config/settings.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if !isSettings(s.X) {
						return true
					}
					read[s.Sel.Name] = true
				}
				return true
			})
		}
	}
	for _, name := range fieldsOf(reflect.TypeFor[config.Settings]()) {
		if !read[name] {
			t.Errorf("nobody reads the setting %s", name)
		}
	}
}

// TestProfilesAreServedWhereTheFlagSays, and nowhere without it.
func TestProfilesAreServedWhereTheFlagSays(t *testing.T) {
	for flag, want := range map[string]string{"": "0", "--pprof-bind-address=127.0.0.1:6060": "127.0.0.1:6060"} {
		s, err := config.ParseFlags(strings.Fields(flag), func(string) string { return "" }, "nstance")
		if err != nil {
			t.Fatal(err)
		}
		if got := managerOptions(s, "", runtime.NewScheme(), nil).PprofBindAddress; got != want {
			t.Errorf("with %q profiles are served at %q, want %q", flag, got, want)
		}
	}
}

// isSettings is whether an expression is one by its name: s, or a field settings.
func isSettings(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "s" || x.Name == "settings" || x.Name == "d"
	case *ast.SelectorExpr:
		return x.Sel.Name == "settings" || x.Sel.Name == "Settings" || x.Sel.Name == "Demand" || x.Sel.Name == "Pods" || x.Sel.Name == "Rollups" || x.Sel.Name == "Bootstrap" || x.Sel.Name == "KubeAPI"
	}
	return false
}

// fieldsOf are the names of a struct's fields, those of the package's structs in their stead.
func fieldsOf(of reflect.Type) []string {
	var names []string
	for f := range of.NumField() {
		field := of.Field(f)
		if field.Anonymous || field.Type.Kind() == reflect.Struct && field.Type.PkgPath() == of.PkgPath() {
			names = append(names, fieldsOf(field.Type)...)
			continue
		}
		names = append(names, field.Name)
	}
	return names
}
