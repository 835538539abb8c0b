package site

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"

	"github.com/yuin/goldmark"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// view is what the layout shows.
type view struct {
	Root, Title string
	Place       string // the section and group of the page
	Body        template.HTML
	Sections    []sectionView
	Headings    []headingView
}

type sectionView struct {
	Title, For string
	Open       bool
	Groups     []groupView
}

type groupView struct {
	Title string
	Pages []pageView
}

type pageView struct {
	Link, Title string
	Here        bool
}

type headingView struct {
	ID, Text string
	Deep     bool
}

// manyHeadings is how many headings a list beside the page may have.
const manyHeadings = 60

// render writes a page whose links and diagrams are those of the site.
func render(md goldmark.Markdown, n Navigation, pages map[string]*page, p *page) ([]byte, error) {
	var body bytes.Buffer
	if err := md.Renderer().Render(&body, p.source, p.tree); err != nil {
		return nil, fmt.Errorf("%s: %w", p.path, err)
	}
	v := n.around(pages, p)
	v.Root, v.Title = relative(address(p.path), ""), p.title
	v.Body = template.HTML(body.String()) //nolint:gosec // our own pages, read from the repository
	for _, h := range p.headings {
		if h.level == 2 || h.level == 3 {
			v.Headings = append(v.Headings, headingView{ID: h.id, Text: h.text, Deep: h.level == 3})
		}
	}
	if len(v.Headings) > manyHeadings {
		v.Headings = nil
	}
	var out bytes.Buffer
	err := layout.Execute(&out, v)
	return out.Bytes(), err
}

// around is the navigation as a page shows it: its own section is open.
func (n Navigation) around(pages map[string]*page, p *page) view {
	var v view
	for _, s := range n.Sections {
		section := sectionView{Title: s.Title, For: s.For}
		for _, g := range s.Groups {
			group := groupView{Title: g.Title}
			for _, name := range g.Pages {
				here := name == p.path
				group.Pages = append(group.Pages, pageView{Link: relative(address(p.path), address(name)), Title: pages[name].title, Here: here})
				if !here {
					continue
				}
				section.Open = true
				v.Place = s.Title
				if g.Title != "" {
					v.Place += " › " + g.Title
				}
			}
			section.Groups = append(section.Groups, group)
		}
		v.Sections = append(v.Sections, section)
	}
	return v
}
