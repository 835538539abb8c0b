package site

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	chroma "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark"
)

// Build writes the site of the repository at root into the folder out, which it empties
// first. An error names everything that is wrong: pages outside of the navigation, links
// that lead nowhere, diagrams that were not drawn. Nothing is written then.
func Build(root, out string) error {
	md := markdown()
	pages, err := readPages(md, root)
	if err != nil {
		return err
	}
	navigation, err := readNavigation(root)
	if err != nil {
		return err
	}
	exists := map[string]bool{}
	for name := range pages {
		exists[name] = true
	}
	l := &links{root: root, pages: pages, files: map[string]bool{}, folders: map[string]bool{}}
	problems := []error{navigation.Check(exists)}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		problems = append(problems, pages[name].draw(root), l.rewrite(pages[name]))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	files, err := contents(md, navigation, pages)
	if err != nil {
		return err
	}
	if err := l.copyTo(files); err != nil {
		return err
	}
	return write(out, files)
}

// readPages reads the pages for readers: those at the root of the repository and in docs.
func readPages(md goldmark.Markdown, root string) (map[string]*page, error) {
	names, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	pages := map[string]*page{}
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return nil, err
		}
		p := readPage(md, filepath.ToSlash(rel), source)
		if p.title == "" {
			return nil, fmt.Errorf("%s: a page begins with a heading", rel)
		}
		pages[p.path] = p
	}
	return pages, nil
}

// contents is the site by path, without the files that pages lead to.
func contents(md goldmark.Markdown, n Navigation, pages map[string]*page) (map[string][]byte, error) {
	files := map[string][]byte{}
	var ordered []*page
	for _, name := range n.pages() {
		p := pages[name]
		ordered = append(ordered, p)
		data, err := render(md, n, pages, p)
		if err != nil {
			return nil, err
		}
		if files[address(name)] != nil {
			return nil, fmt.Errorf("%s: another page has the address %s; rename one of the two", name, address(name))
		}
		files[address(name)] = data
	}
	data, err := searchData(ordered)
	if err != nil {
		return nil, err
	}
	files["search-data.js"] = data
	for _, name := range []string{"search.js", "site.css"} {
		if files[name], err = assets.ReadFile("assets/" + name); err != nil {
			return nil, err
		}
	}
	files["code.css"], err = codeStyle()
	return files, err
}

// codeStyle colours code, by day and by night.
func codeStyle() ([]byte, error) {
	var b bytes.Buffer
	formatter := chroma.New(chroma.WithClasses(true))
	if err := formatter.WriteCSS(&b, styles.Get("github")); err != nil {
		return nil, err
	}
	b.WriteString("@media (prefers-color-scheme: dark) {\n")
	if err := formatter.WriteCSS(&b, styles.Get("github-dark")); err != nil {
		return nil, err
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// copyTo adds the files that pages lead to, and a list for each folder.
func (l *links) copyTo(files map[string][]byte) error {
	for name := range l.files {
		data, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		files[copied(name)] = data
	}
	for folder := range l.folders {
		var b strings.Builder
		fmt.Fprintf(&b, "<!doctype html>\n<title>%s</title>\n<h1>%[1]s</h1>\n<ul>\n", html.EscapeString(folder))
		for _, name := range slices.Sorted(maps.Keys(l.files)) {
			if rest, ok := strings.CutPrefix(name, folder+"/"); ok {
				fmt.Fprintf(&b, "<li><a href=\"%s\">%[1]s</a></li>\n", html.EscapeString(rest))
			}
		}
		b.WriteString("</ul>\n")
		files[path.Join(copied(folder), "index.html")] = []byte(b.String())
	}
	return nil
}

// marker lies in every site, so that no other folder is emptied by mistake.
const marker = "search-data.js"

// write replaces what is in a folder.
func write(out string, files map[string][]byte) error {
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, marker)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty and no site; name another folder", out)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(out, entry.Name())); err != nil {
			return err
		}
	}
	for name, data := range files {
		at := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, data, 0o644); err != nil { //nolint:gosec // a site is for everybody to read
			return err
		}
	}
	return nil
}

func sorted(problems []error) []error {
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return problems
}
