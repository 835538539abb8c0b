package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// links turns the links of pages, which hold in the repository, into links that hold in the
// site, and remembers the files beside the pages that they lead to.
type links struct {
	root  string
	pages map[string]*page
	// files are to be copied, folders to be listed; by path in the repository.
	files, folders map[string]bool
}

// rewrite changes the links of a page. What leads nowhere is an error each.
func (l *links) rewrite(p *page) error {
	var problems []error
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = l.follow(p, n.Destination, &problems)
		case *ast.Image:
			n.Destination = l.follow(p, n.Destination, &problems)
		}
		return ast.WalkContinue, nil
	})
	return errors.Join(problems...)
}

func (l *links) follow(p *page, destination []byte, problems *[]error) []byte {
	to, err := l.resolve(p, string(destination))
	if err != nil {
		*problems = append(*problems, fmt.Errorf("%s: the link %s: %w", p.path, destination, err))
		return destination
	}
	return []byte(to)
}

// resolve is what a link of a page is in the site.
func (l *links) resolve(p *page, link string) (string, error) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return link, nil
	}
	target, anchor, hasAnchor := strings.Cut(link, "#")
	at := p.path
	if target != "" {
		at = path.Join(path.Dir(p.path), target)
	}
	if q, ok := l.pages[at]; ok {
		if hasAnchor && !q.anchor(anchor) {
			return "", fmt.Errorf("%s has no such heading", at)
		}
		to := relative(address(p.path), address(at))
		if hasAnchor {
			to += "#" + anchor
		}
		return to, nil
	}
	if err := l.take(at); err != nil {
		return "", err
	}
	to := copied(at)
	if isFolder(l.root, at) {
		l.folders[at] = true
		to += "/index.html"
	}
	return relative(address(p.path), to), nil
}

// copied is where a file of the repository that is no page stands in the site.
func copied(file string) string {
	if rest, ok := strings.CutPrefix(file, "docs/"); ok {
		return rest
	}
	return "source/" + file
}

// take notes a file, or all files of a folder, as to be copied.
func (l *links) take(at string) error {
	found := 0
	err := filepath.WalkDir(filepath.Join(l.root, filepath.FromSlash(at)), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(l.root, name)
		l.files[filepath.ToSlash(rel)] = true
		found++
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no %s", at)
	case err != nil:
		return err
	case found == 0:
		return fmt.Errorf("the folder %s is empty", at)
	}
	return nil
}

// isFolder reports whether a path of the repository is a folder.
func isFolder(root, at string) bool {
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(at)))
	return err == nil && info.IsDir()
}
