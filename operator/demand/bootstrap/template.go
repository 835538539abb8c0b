package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"

	"nstance.dev/protos/binding"
)

// Template is a template that was parsed. It is safe for concurrent use.
type Template struct {
	parsed    *template.Template
	usesToken bool
}

// Parse parses the text of a template; name is what errors call it.
func Parse(name, text string) (*Template, error) {
	parsed, err := template.New(name).Option("missingkey=error").
		Funcs(functions("", func() (string, error) { return "", nil })).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("parse template: %s is empty", name)
	}
	t := &Template{parsed: parsed}
	for _, each := range parsed.Templates() {
		t.usesToken = t.usesToken || each.Tree != nil && calls(each.Root, tokenFunction)
	}
	return t, nil
}

// UsesToken reports whether the template calls bootstrapToken anywhere.
func (t *Template) UsesToken() bool { return t.usesToken }

// execute renders the template for a machine. token is called where the template does.
func (t *Template) execute(m Machine, dir string, token func() (string, error)) ([]byte, error) {
	own, err := t.parsed.Clone()
	if err != nil {
		return nil, fmt.Errorf("copy template: %w", err)
	}
	out := bounded{room: binding.MaxBlob}
	if err := own.Funcs(functions(dir, token)).Execute(&out, m); err != nil {
		return nil, fmt.Errorf("execute template: %s", told(err))
	}
	if len(bytes.TrimSpace(out.Bytes())) == 0 {
		return nil, errors.New("execute template: it rendered nothing for this machine")
	}
	return out.Bytes(), nil
}

// harmless are the messages of text/template and of our functions that quote no value. Others
// do: one that says what cannot be ranged over has it in full.
var harmless = regexp.MustCompile(`^(nil data; |map has )?no entry for key "[^"]*"$` +
	`|^can't evaluate field \w+ in type [\w.*\[\]{} ]+$` +
	`|^wrong (type for value|number of args for \w+)[:;][\w ;.*\[\]]+$` +
	`|^exceeded maximum template depth \(\d+\)$` +
	`|^error calling (b64|indent|quote|join|toJson|file|bootstrapToken): `)

// told is an error of an execution without what it quotes of values.
func told(err error) string {
	var failed template.ExecError
	if !errors.As(err, &failed) {
		return err.Error() // of the writer
	}
	place, message, found := strings.Cut(err.Error(), ">: ")
	switch {
	case found && harmless.MatchString(message):
		return place + ">: " + message
	case found:
		return place + ">: the values of this machine do not suit"
	}
	return "the values of this machine do not suit"
}

// bounded takes no more than a machine does.
type bounded struct {
	bytes.Buffer
	room int
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.room {
		return 0, fmt.Errorf("more than %d bytes", b.room)
	}
	return b.Buffer.Write(p)
}

// calls reports whether a function is called anywhere below a node.
func calls(n parse.Node, function string) bool {
	switch n := n.(type) {
	case *parse.IdentifierNode:
		return n.Ident == function
	case *parse.ListNode:
		return n != nil && anyOf(n.Nodes, function)
	case *parse.ActionNode:
		return calls(n.Pipe, function)
	case *parse.PipeNode:
		return n != nil && anyOf(n.Cmds, function)
	case *parse.CommandNode:
		return anyOf(n.Args, function)
	case *parse.ChainNode:
		return calls(n.Node, function)
	case *parse.IfNode:
		return inBranch(&n.BranchNode, function)
	case *parse.RangeNode:
		return inBranch(&n.BranchNode, function)
	case *parse.WithNode:
		return inBranch(&n.BranchNode, function)
	case *parse.TemplateNode:
		return calls(n.Pipe, function)
	}
	return false
}

func anyOf[N parse.Node](nodes []N, function string) bool {
	for _, n := range nodes {
		if calls(n, function) {
			return true
		}
	}
	return false
}

func inBranch(b *parse.BranchNode, function string) bool {
	return calls(b.Pipe, function) || calls(b.List, function) || calls(b.ElseList, function)
}
