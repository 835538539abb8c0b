package pages

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// Block is a block of code of a page.
type Block struct {
	Page string // its path in the repository
	Line int    // of its first line, from 1
	// Language is what its fence names; empty for a fence without one, and for an
	// indented block.
	Language string
	Text     string
	Mark     Mark
}

// Mark is what a page says about how a block is held true; the zero value says nothing.
type Mark struct {
	Test, Package string // who runs it: a test, and the directory that it is in
	NotRun        string // why nobody does
}

// Where names the block for a message.
func (b Block) Where() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

var (
	marked = regexp.MustCompile(`^<!-- *(run by|not run|run|notrun|not-run)\b`)
	runBy  = regexp.MustCompile(`^<!-- run by: (Test\w+) in ([a-z0-9/]+) -->$`)
	notRun = regexp.MustCompile(`^<!-- not run: (\S.*\S) -->$`)
)

// ErrMark says that a comment looks like a mark and is none.
var ErrMark = errors.New("a mark reads `<!-- run by: TestName in DIRECTORY -->` or `<!-- not run: REASON -->` and stands on the line above the block")

// Blocks returns the blocks of a page in their order. Diagrams are blocks too. It fails for a
// mark that is misspelt or stands above something else, since that would mark nothing.
func Blocks(page string, source []byte) ([]Block, error) {
	var blocks []Block
	var errs []error
	err := ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			blocks = append(blocks, blockOf(page, source, n, string(n.Language(source))))
		case *ast.CodeBlock:
			blocks = append(blocks, blockOf(page, source, n, ""))
		case *ast.HTMLBlock:
			comment := htmlOf(source, n)
			if !marked.MatchString(comment) {
				break
			}
			_, above := n.NextSibling().(*ast.FencedCodeBlock)
			if _, ok := markOf(comment); !ok || !above {
				errs = append(errs, fmt.Errorf("%s:%d: %s: %w", page, lineOf(source, n), comment, ErrMark))
			}
		}
		return ast.WalkContinue, nil
	})
	return blocks, errors.Join(append(errs, err)...)
}

func blockOf(page string, source []byte, n ast.Node, language string) Block {
	b := Block{Page: page, Line: lineOf(source, n), Language: language, Text: string(n.Lines().Value(source))}
	if above, ok := n.PreviousSibling().(*ast.HTMLBlock); ok {
		b.Mark, _ = markOf(htmlOf(source, above))
	}
	return b
}

func markOf(comment string) (Mark, bool) {
	if m := runBy.FindStringSubmatch(comment); m != nil {
		return Mark{Test: m[1], Package: m[2]}, true
	}
	if m := notRun.FindStringSubmatch(comment); m != nil {
		return Mark{NotRun: m[1]}, true
	}
	return Mark{}, false
}

func htmlOf(source []byte, n *ast.HTMLBlock) string {
	html := n.Lines().Value(source)
	if n.HasClosure() {
		html = append(bytes.Clone(html), n.ClosureLine.Value(source)...)
	}
	return strings.TrimSpace(string(html))
}

// lineOf is the line of a node's first line of text; 0 for one without any.
func lineOf(source []byte, n ast.Node) int {
	if n.Lines().Len() == 0 {
		return 0
	}
	return 1 + bytes.Count(source[:n.Lines().At(0).Start], []byte("\n"))
}
