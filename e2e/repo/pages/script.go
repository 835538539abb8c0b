package pages

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call is one simple command of a script.
type call struct {
	words    []string
	document string // what a here-document gives it to read; empty: nothing
	input    bool   // whether there is such a document
}

// unknown stands in a word for what only a running shell would know.
const unknown = "\x00"

// fixed says that a word holds nothing that only a running shell would know.
func fixed(word string) bool { return !strings.Contains(word, unknown) }

// commands are what a block has its reader type: all of it, or what follows the prompts.
func (b Block) commands() string {
	if b.Language != "console" {
		return b.Text
	}
	var typed strings.Builder
	more := false
	for line := range strings.Lines(b.Text) {
		command, prompt := strings.CutPrefix(line, "$ ")
		if !prompt && !more {
			continue
		}
		typed.WriteString(command)
		more = strings.HasSuffix(strings.TrimRight(command, "\n"), `\`)
	}
	return typed.String()
}

// callsOf are the simple commands of a script, those within others too.
func callsOf(script string) ([]call, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, fmt.Errorf("no script of a shell: %w", err)
	}
	var calls []call
	syntax.Walk(file, func(n syntax.Node) bool {
		stmt, ok := n.(*syntax.Stmt)
		if !ok {
			return true
		}
		simple, ok := stmt.Cmd.(*syntax.CallExpr)
		if !ok || len(simple.Args) == 0 {
			return true
		}
		var c call
		for _, word := range simple.Args {
			c.words = append(c.words, textOf(word.Parts))
		}
		for _, redirect := range stmt.Redirs {
			if redirect.Hdoc != nil {
				c.document, c.input = textOf(redirect.Hdoc.Parts), true
			}
		}
		calls = append(calls, c)
		return true
	})
	return calls, nil
}

// textOf is what a word says without its quotes.
func textOf(parts []syntax.WordPart) string {
	var text strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			text.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
		case *syntax.SglQuoted:
			text.WriteString(part.Value)
		case *syntax.DblQuoted:
			text.WriteString(textOf(part.Parts))
		default:
			text.WriteString(unknown)
		}
	}
	return text.String()
}
