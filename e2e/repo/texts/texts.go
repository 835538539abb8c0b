// Package texts finds what the product says to people: the texts of its errors, logs,
// conditions, events and commands, where they stand in the source.
//
// A text is a string literal of the product that reads as a sentence does, and each message of
// a log, however short. Its kind is read off the call or the field that it is given to; no
// types are checked, so that all modules are read in a second. Tests, generated code and
// packages that are for tests alone say nothing to people.
package texts

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is who reads a text, and when.
type Kind string

// The kinds, in the order in which a page has them.
const (
	Errors     Kind = "errors"     // of calls and commands
	Logs       Kind = "logs"       // messages without their attributes
	Conditions Kind = "conditions" // of Kubernetes objects, and events
	Help       Kind = "help"       // of commands, flags and metrics
	Answers    Kind = "answers"    // all else: reasons, explanations, parts of sentences
)

// Kinds are all kinds.
func Kinds() []Kind { return []Kind{Errors, Logs, Conditions, Help, Answers} }

// Text is one text. What a value fills in at run time is "…", or the verb of its format.
type Text struct {
	Kind    Kind
	Package string // its directory, from the root of the repository
	Text    string
}

// Modules are the directories whose packages speak to people.
func Modules() []string {
	return []string{"admin", "agent", "operator", "protos", "providers", "server"}
}

// policies are the admission policies, which say their messages in YAML.
const policies = "operator/policies"

// Collect returns every text below the root of the repository, sorted by package, kind and
// words, each once.
func Collect(root string) ([]Text, error) {
	var all []Text
	for _, module := range Modules() {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && silent(d.Name()):
				return filepath.SkipDir
			case d.IsDir(), strings.HasSuffix(path, "_test.go"):
				return nil
			}
			var found []Text
			switch {
			case strings.HasSuffix(path, ".go"):
				found, err = inFile(path)
			case strings.HasPrefix(path, filepath.Join(root, policies)) && strings.HasSuffix(path, ".yaml"):
				found, err = inPolicies(path)
			}
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			for _, t := range found {
				t.Package = filepath.ToSlash(dir)
				all = append(all, t)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("collect the texts of %s: %w", module, err)
		}
	}
	slices.SortFunc(all, func(a, b Text) int {
		return strings.Compare(a.Package+"\x00"+string(a.Kind)+"\x00"+a.Text, b.Package+"\x00"+string(b.Kind)+"\x00"+b.Text)
	})
	return slices.Compact(all), nil
}

// silent reports whether a directory has nothing that the product says.
func silent(dir string) bool {
	return dir == "testdata" || dir == "internal" || dir == "nstancev1" || len(dir) > len("test") && strings.HasSuffix(dir, "test") || strings.HasPrefix(dir, "test")
}

func inFile(path string) ([]Text, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	r := reader{}
	for _, group := range file.Comments {
		for _, m := range marker.FindAllStringSubmatch(group.Text(), -1) {
			r.add(Conditions, m[1])
		}
	}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		ast.Walk(visitor{reader: &r, kind: Answers}, d)
	}
	return r.found, nil
}

// reader gathers the texts of a file.
type reader struct{ found []Text }

func (r *reader) add(kind Kind, text string) {
	if kind == Logs && text != "" || sentence.MatchString(text) && !code.MatchString(text) {
		r.found = append(r.found, Text{Kind: kind, Text: strings.TrimSpace(text)})
	}
}

var (
	sentence = regexp.MustCompile(`\pL\pL+[,;:)"]* ["(]?(\pL|%)|%\w[,;:]? \pL\pL+ `)
	// Queries, programs and headers are for machines.
	code = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|ON CONFLICT|WITH|BEGIN)\b|^#!|^-----|\{\{`)
)

// visitor walks what is below a node. Its kind is that of the texts there.
type visitor struct {
	*reader
	kind Kind
}

func (v visitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.Field:
		v.help(n.Tag)
		return nil
	case *ast.BasicLit, *ast.BinaryExpr:
		if text, ok := literal(n.(ast.Expr)); ok {
			v.add(v.kind, text)
			return nil
		}
	case *ast.CallExpr:
		if silentCalls[callee(n)] {
			return nil
		}
		v.call(n)
		return nil
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok {
			if kind, ok := fields[key.Name]; ok {
				v.kind = kind
			}
		}
		ast.Walk(v, n.Value)
		return nil
	}
	return v
}

// call gives each argument of a call its kind: that of the call, if it has one.
func (v visitor) call(n *ast.CallExpr) {
	ast.Walk(v, n.Fun)
	name := callee(n)
	kind, known := calls[name]
	if !known {
		kind = v.kind
	}
	message := slices.IndexFunc(n.Args, func(arg ast.Expr) bool { _, ok := literal(arg); return ok })
	for i, arg := range n.Args {
		switch {
		case kind != Logs:
			ast.Walk(visitor{v.reader, kind}, arg)
		case i == message:
			text, _ := literal(arg)
			v.add(Logs, text)
		case message >= 0 && i > message && (i-message)%2 == 1: // the key of an attribute
		default:
			ast.Walk(visitor{v.reader, Answers}, arg)
		}
	}
}

// help reads the help of a field's tag.
func (v visitor) help(tag *ast.BasicLit) {
	if tag == nil {
		return
	}
	text, _ := strconv.Unquote(tag.Value)
	if m := helpTag.FindStringSubmatch(text); m != nil {
		v.add(Help, m[1])
	}
}

// marker is a rule of a custom resource definition, which says its message.
var marker = regexp.MustCompile(`\bmessage="((?:[^"\\]|\\.)*)"`)

var helpTag = regexp.MustCompile(`\bhelp:"((?:[^"\\]|\\.)*)"`)

// callee is the name by which a function is called, without its package or receiver; with
// it where that says more.
func callee(n *ast.CallExpr) string {
	switch f := n.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok && (x.Name == "regexp" || x.Name == "errors" || x.Name == "status") {
			return x.Name + "." + f.Sel.Name
		}
		return f.Sel.Name
	}
	return ""
}

// calls are the functions whose arguments are of a kind.
var calls = map[string]Kind{
	"errors.New": Errors, "Errorf": Errors, "errorf": Errors, "status.Error": Errors, "status.Errorf": Errors, "Fail": Errors,
	"Debug": Logs, "Info": Logs, "Warn": Logs, "Error": Logs,
	"DebugContext": Logs, "InfoContext": Logs, "WarnContext": Logs, "ErrorContext": Logs,
	"Event": Conditions, "Eventf": Conditions,
	"BoolVar": Help, "StringVar": Help, "IntVar": Help, "DurationVar": Help, "BoolVarP": Help, "StringVarP": Help, "IntVarP": Help,
	"DurationVarP": Help, "StringSliceVar": Help, "StringArrayVar": Help, "StringArrayVarP": Help, "Var": Help, "VarP": Help,
	"String": Help, "Bool": Help, "Int": Help, "Duration": Help, "Func": Help, "BoolFunc": Help, "TextVar": Help,
	"NewDesc": Help,
}

// silentCalls have arguments that nobody reads.
var silentCalls = map[string]bool{
	"regexp.MustCompile": true, "Exec": true, "ExecContext": true, "Query": true, "QueryRow": true, "QueryContext": true, "QueryRowContext": true,
}

// fields are those of literals whose values are of a kind.
var fields = map[string]Kind{
	"Short": Help, "Long": Help, "Example": Help, "Use": Help, "Help": Help, "Usage": Help, "Description": Help,
	"Message": Conditions, "Err": Errors,
}

// literal is the text of an expression that is a literal, or a sum in which one stands.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, one := literal(e.X)
		right, other := literal(e.Y)
		if !one {
			left = "…"
		}
		if !other {
			right = "…"
		}
		return left + right, one || other
	}
	return "", false
}
