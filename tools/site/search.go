package site

import (
	"encoding/json"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// passage is what search finds: a heading, and the text up to the next one.
type passage struct {
	Address string `json:"a"` // in the site, with the place in the page
	Page    string `json:"p"` // title
	Heading string `json:"h"`
	Text    string `json:"t"`
}

// passages are those of a page.
func (p *page) passages() []passage {
	var all []passage
	next := 0
	var text strings.Builder
	end := func() {
		if len(all) > 0 {
			all[len(all)-1].Text = strings.Join(strings.Fields(text.String()), " ")
		}
		text.Reset()
	}
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			end()
			at := p.headings[next]
			next++
			all = append(all, passage{Address: address(p.path) + "#" + at.id, Page: p.title, Heading: plain(h, p.source)})
			continue
		}
		text.WriteString(plain(n, p.source))
		text.WriteByte(' ')
	}
	end()
	return all
}

// searchData is a script with all passages. A script and not JSON, for a site that is read
// from a disk may load the one and not the other.
func searchData(pages []*page) ([]byte, error) {
	var all []passage
	for _, p := range pages {
		all = append(all, p.passages()...)
	}
	data, err := json.Marshal(all)
	return append(append([]byte("window.passages = "), data...), ";\n"...), err
}
