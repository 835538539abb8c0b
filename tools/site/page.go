package site

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	chroma "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/yuin/goldmark"
	highlighting "github.com/yuin/goldmark-highlighting/v2"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// page is one page of the repository, read and not yet written.
type page struct {
	path     string // from the root of the repository, such as docs/concepts.md
	title    string
	source   []byte
	tree     ast.Node
	headings []heading
}

// heading is a place in a page that links lead to.
type heading struct {
	level    int
	id, text string
	node     *ast.Heading
}

// markdown reads and writes pages as GitHub does: with tables, with its names of headings,
// and with HTML left as it is, which is ours.
func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(
			extension.GFM,
			highlighting.NewHighlighting(highlighting.WithFormatOptions(chroma.WithClasses(true))),
		),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(
			html.WithUnsafe(),
			renderer.WithNodeRenderers(util.Prioritized(drawings{}, 100)),
		),
	)
}

// readPage parses a page.
func readPage(md goldmark.Markdown, name string, source []byte) *page {
	p := &page{path: name, source: source}
	p.tree = md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&slugs{used: map[string]int{}}))))
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		h, ok := n.(*ast.Heading)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		id, _ := h.AttributeString("id")
		name, _ := id.([]byte)
		p.headings = append(p.headings, heading{level: h.Level, id: string(name), text: plain(h, source), node: h})
		return ast.WalkSkipChildren, nil
	})
	if len(p.headings) > 0 {
		p.title = p.headings[0].text
	}
	return p
}

// anchor reports whether the page has the place that a link names.
func (p *page) anchor(id string) bool {
	for _, h := range p.headings {
		if h.id == id {
			return true
		}
	}
	return false
}

// address is where a page of the repository stands in the site.
func address(name string) string {
	switch name {
	case "README.md":
		return "index.html"
	case "docs/decisions/README.md":
		return "decisions/index.html"
	}
	if rest, ok := strings.CutPrefix(name, "docs/"); ok {
		return strings.ToLower(strings.TrimSuffix(rest, ".md")) + ".html"
	}
	return "project/" + strings.ToLower(strings.TrimSuffix(name, ".md")) + ".html"
}

// relative is the link from one file of the site to another.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(path.Clean(from), "/")) + to
}

// plain is the text of a node and what is in it, without marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if n.Type() == ast.TypeBlock && !entering {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// slugs names headings as GitHub does.
type slugs struct{ used map[string]int }

var notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(value))), ""), " ", "-")
	n := s.used[slug]
	s.used[slug] = n + 1
	if n > 0 {
		slug += "-" + strconv.Itoa(n)
	}
	return []byte(slug)
}

// Put is called for names that a page gives itself; ours give none.
func (s *slugs) Put(value []byte) { s.used[string(value)]++ }
