package site

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// NavigationFile says where each page stands, seen from the root of the repository.
const NavigationFile = "docs/site.yaml"

// Navigation is the order in which a reader finds the pages.
type Navigation struct {
	Sections []Section `yaml:"sections"`
}

// Section is one kind of page: what it is read for.
type Section struct {
	Title  string  `yaml:"title"`
	For    string  `yaml:"for"` // who reads it, in a line
	Groups []Group `yaml:"groups"`
}

// Group is the pages of one subject. Without a title they stand right below the section.
type Group struct {
	Title string   `yaml:"title"`
	Pages []string `yaml:"pages"` // paths from the root of the repository, such as docs/concepts.md
}

// readNavigation reads the navigation of a repository.
func readNavigation(root string) (Navigation, error) {
	file, err := os.Open(filepath.Join(root, filepath.FromSlash(NavigationFile)))
	if err != nil {
		return Navigation{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var n Navigation
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(&n); err != nil {
		return Navigation{}, fmt.Errorf("%s: %w", NavigationFile, err)
	}
	return n, nil
}

// Check says which pages are missing in the navigation, named twice, or do not exist.
func (n Navigation) Check(exists map[string]bool) error {
	var problems []error
	named := map[string]bool{}
	for _, page := range n.pages() {
		switch {
		case !exists[page]:
			problems = append(problems, fmt.Errorf("%s: the page %s does not exist", NavigationFile, page))
		case named[page]:
			problems = append(problems, fmt.Errorf("%s: the page %s is named twice; leave one of the two", NavigationFile, page))
		}
		named[page] = true
	}
	for page := range exists {
		if !named[page] {
			problems = append(problems, fmt.Errorf("%s: add the page %s to a section of %s", page, page, NavigationFile))
		}
	}
	return errors.Join(sorted(problems)...)
}

// pages are all pages in their order.
func (n Navigation) pages() []string {
	var all []string
	for _, s := range n.Sections {
		for _, g := range s.Groups {
			all = append(all, g.Pages...)
		}
	}
	return all
}
