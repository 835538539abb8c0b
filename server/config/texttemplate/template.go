package texttemplate

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// Limits of a template and of one execution.
const (
	// MaxSource is how long the text of a template may be, in bytes.
	MaxSource = 3 << 20

	maxSteps     = 100_000  // rounds of loops; a call of another template counts as callSteps
	callSteps    = 100      // bounds the depth of calls, and with it the stack
	maxFuncBytes = 16 << 20 // all that functions produce in one execution
)

// Error says what is wrong with a template, or why it could not be rendered.
type Error struct {
	Name string // of the template, as it was given to Parse
	Line int    // within the template, from 1; 0 if unknown
	Msg  string
}

// Error names the template, the line and what is wrong.
func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s: line %d: %s", e.Name, e.Line, e.Msg)
	}
	return e.Name + ": " + e.Msg
}

// Template is a parsed template. It may be executed by several goroutines.
type Template struct {
	name   string
	text   string             // the whole result, where there is nothing to execute
	parsed *template.Template // nil where text is the result
	images []string
	vars   []string
	single bool // it may look at the instance
	chosen bool // it may look at what a caller of the API chooses
	opaque bool // it may look at variables that it does not name
}

// Parse reads a template. The name is for errors only.
func Parse(name, text string) (*Template, error) {
	if len(text) > MaxSource {
		return nil, &Error{Name: name, Msg: fmt.Sprintf("template is larger than %d bytes", MaxSource)}
	}
	if !strings.Contains(text, "{{") {
		return &Template{name: name, text: text}, nil
	}
	parsed, err := template.New(internalName).Option("missingkey=error").Funcs(functions(new(budget))).Parse(text)
	if err != nil {
		return nil, newError(name, err, Data{})
	}
	t := &Template{name: name, parsed: parsed}
	for _, sub := range parsed.Templates() {
		if sub.Tree == nil || sub.Root == nil {
			continue
		}
		t.walk(sub.Root)
		meter(sub.Root, callMeter)
	}
	return t, nil
}

// Images are the keys of the images that the template names literally, as
// .Image.KEY or index .Image "KEY".
func (t *Template) Images() []string { return t.images }

// Vars are the names of the variables that the template refers to literally.
func (t *Template) Vars() []string { return t.vars }

// NamesVars reports whether the variables that the template can see are those of Vars.
// False is always safe.
func (t *Template) NamesVars() bool { return !t.opaque }

// SameForAll reports whether the template gives the same text for every instance
// with the same variables. False is always safe: a template that passes its whole
// data around may look at the instance.
func (t *Template) SameForAll() bool { return !t.single }

// Chosen reports whether the result may depend on what a caller of the API
// chooses: a variable, or the name of the group. True is always safe: a template
// that passes its whole data around may look at them.
func (t *Template) Chosen() bool { return t.chosen }

// Execute renders the template. An output of more than limit bytes is an error.
func (t *Template) Execute(data Data, scope Scope, limit int) (string, error) {
	out := &limitedBuilder{limit: limit}
	if t.parsed == nil {
		if _, err := out.Write([]byte(t.text)); err != nil {
			return "", &Error{Name: t.name, Msg: err.Error()}
		}
		return t.text, nil
	}
	clone, err := t.parsed.Clone()
	if err != nil {
		return "", newError(t.name, err, data)
	}
	b := &budget{steps: maxSteps, bytes: maxFuncBytes}
	if err := clone.Funcs(functions(b)).Execute(out, data.view(scope)); err != nil {
		return "", newError(t.name, err, data)
	}
	return out.String(), nil
}

// internalName stands for every template's own, so that its errors can be
// taken apart whatever a user calls a thing.
const internalName = "t"

var place = regexp.MustCompile(`^template: [^:]*:(\d+):(?:\d+:)? (?:executing "[^"]*" (at ))?`)

// newError makes an Error of the standard library's, without its wrapping: that
// could hold values. Secrets are taken out wherever they stand.
func newError(name string, err error, data Data) *Error {
	msg := err.Error()
	e := &Error{Name: name}
	if m := place.FindStringSubmatch(msg); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		msg = m[2] + msg[len(m[0]):]
	}
	if limit := new(limitError); errors.As(err, &limit) {
		msg = limit.Error()
	}
	msg = strings.ReplaceAll(msg, "map has no entry for key", "there is no")
	msg = strings.TrimSuffix(msg, " in type interface {}")
	for secret, name := range map[string]string{data.Nonce: "(nonce)", data.Join: "(join)"} {
		if secret != "" {
			msg = strings.ReplaceAll(msg, secret, name)
			msg = strings.ReplaceAll(msg, strings.Trim(strconv.Quote(secret), `"`), name) // as it is quoted
		}
	}
	e.Msg = msg
	return e
}

// limitError is what ends an execution that grew too large.
type limitError struct{ msg string }

func (e *limitError) Error() string { return e.msg }

// budget is what one execution may still use.
type budget struct{ steps, bytes int }

func (b *budget) step(n int) (string, error) {
	if b.steps -= n; b.steps < 0 {
		return "", &limitError{"the template does not come to an end: too many rounds of range, or too many calls of template"}
	}
	return "", nil
}

// grow takes what a function is about to produce.
func (b *budget) grow(n int) error {
	if b.bytes -= n; b.bytes < 0 {
		return &limitError{"the template's functions produce too much text"}
	}
	return nil
}

type limitedBuilder struct {
	strings.Builder
	limit int
}

func (b *limitedBuilder) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, &limitError{fmt.Sprintf("the output is larger than %d bytes", b.limit)}
	}
	return b.Builder.Write(p)
}

// walk finds the images and variables that a template names, and puts a meter into the body
// of every loop.
func (t *Template) walk(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				t.walk(child)
			}
		}
	case *parse.ActionNode:
		t.walk(n.Pipe)
	case *parse.IfNode:
		t.walkBranch(&n.BranchNode)
	case *parse.WithNode:
		t.walkBranch(&n.BranchNode)
	case *parse.RangeNode:
		t.walkBranch(&n.BranchNode)
		meter(n.List, loopMeter)
	case *parse.TemplateNode:
		t.walk(n.Pipe)
	case *parse.PipeNode:
		if n != nil {
			for _, cmd := range n.Cmds {
				t.walkCommand(cmd)
			}
		}
	case *parse.ChainNode:
		t.walk(n.Node)
	case *parse.FieldNode:
		t.refer(n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) == 1 {
			t.single, t.chosen, t.opaque = true, true, true
		}
		t.refer(n.Ident[1:])
	case *parse.DotNode:
		t.single, t.chosen, t.opaque = true, true, true
	}
}

func (t *Template) walkBranch(n *parse.BranchNode) {
	t.walk(n.Pipe)
	t.walk(n.List)
	t.walk(n.ElseList)
}

func (t *Template) walkCommand(cmd *parse.CommandNode) {
	for i, arg := range cmd.Args {
		if field, ok := arg.(*parse.FieldNode); ok && len(field.Ident) == 1 && i+1 < len(cmd.Args) {
			if key, ok := cmd.Args[i+1].(*parse.StringNode); ok {
				t.refer([]string{field.Ident[0], key.Text})
				if i > 0 && isIndex(cmd.Args[0]) {
					continue // of the variables it sees this one alone
				}
			}
		}
		t.walk(arg)
	}
}

// isIndex reports whether the function index is called.
func isIndex(n parse.Node) bool {
	f, ok := n.(*parse.IdentifierNode)
	return ok && f.Ident == "index"
}

func (t *Template) refer(ident []string) {
	if len(ident) == 0 {
		return
	}
	switch ident[0] {
	case "Instance":
		t.single = true
		t.chosen = t.chosen || len(ident) < 2 || ident[1] == "Group"
	case "Vars", "Var":
		t.chosen = true
	}
	if len(ident) < 2 {
		t.opaque = t.opaque || ident[0] == "Vars" || ident[0] == "Var"
		return
	}
	switch ident[0] {
	case "Image":
		t.images = append(t.images, ident[1])
	case "Vars", "Var":
		t.vars = append(t.vars, ident[1])
	}
}
