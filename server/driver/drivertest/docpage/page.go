// Package docpage reads a provider's page in docs/, so that tests can hold what it says
// against what is the case: which calls a driver makes, what they need, which
// configurations can be loaded. What is looked for has to be there, or the test ends.
package docpage

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Section is a part of a page, from a heading of the second level to the next one.
type Section struct {
	t    testing.TB
	name string
	text string
}

// Read returns the part of the page in a file that has this heading.
func Read(t testing.TB, path, heading string) Section {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", path, heading)
	}
	text, _, _ := strings.Cut(after, "\n## ")
	return Section{t: t, name: path + ", " + heading, text: text}
}

var (
	row     = regexp.MustCompile("(?m)^\\| (`.*) \\|$")
	code    = regexp.MustCompile("`([^`]+)`")
	block   = regexp.MustCompile("(?s)\n```(\\w+)\n(.*?)\n```\n")
	heredoc = regexp.MustCompile("(?s)<<EOF\n(.*?)\nEOF\n")
	shell   = regexp.MustCompile(`\$\([^)]*\)|\$PWD`)
	// A full stop inside of a name, as in storage.objects.get, ends no sentence.
	sentenceEnd = regexp.MustCompile(`;|\.\s`)
)

// Rows returns the cells of those rows of the section's tables that begin with code.
func (s Section) Rows() [][]string {
	s.t.Helper()
	var rows [][]string
	for _, match := range row.FindAllStringSubmatch(s.text, -1) {
		rows = append(rows, strings.Split(match[1], " | "))
	}
	if rows == nil {
		s.t.Fatalf("%s: no table", s.name)
	}
	return rows
}

// Code returns what is marked as code in a text.
func Code(text string) []string {
	var all []string
	for _, match := range code.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

// Calls returns the first and the last column of a table of API calls: the calls, and
// the permissions that they need.
func (s Section) Calls() (calls, permissions []string) {
	s.t.Helper()
	for _, cells := range s.Rows() {
		calls = append(calls, Code(cells[0])...)
		permissions = append(permissions, Code(cells[len(cells)-1])...)
	}
	return calls, permissions
}

// Block returns the first block of code in a language.
func (s Section) Block(language string) string {
	s.t.Helper()
	for _, match := range block.FindAllStringSubmatch(s.text, -1) {
		if match[1] == language {
			return match[2]
		}
	}
	s.t.Fatalf("%s: no block of %s", s.name, language)
	return ""
}

// Heredoc returns the first file that the section's commands write, from <<EOF to EOF.
// Where the shell would put something in, there is the base64 of "{{ .Nonce }}".
func (s Section) Heredoc() string {
	s.t.Helper()
	match := heredoc.FindStringSubmatch(s.text)
	if match == nil {
		s.t.Fatalf("%s: no file is written", s.name)
	}
	return shell.ReplaceAllString(match[1], "e3sgLk5vbmNlIH19")
}

// Listed returns what is marked as code between the text begin of a page and the end of
// that sentence: a full stop, or a semicolon.
func Listed(t testing.TB, path, begin string) []string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(page), begin)
	end := sentenceEnd.FindStringIndex(rest)
	if !begun || end == nil {
		t.Fatalf("%s: no sentence that goes on from %q to its end", path, begin)
	}
	return Code(rest[:end[0]])
}

// Same compares what is the case with what a page says. Order and repetitions do not
// matter.
func Same(t testing.TB, what string, found, documented []string) {
	t.Helper()
	lacking := func(from, in []string, format string) {
		t.Helper()
		for _, name := range slices.Compact(slices.Sorted(slices.Values(from))) {
			if !slices.Contains(in, name) {
				t.Errorf(format, what, name)
			}
		}
	}
	lacking(found, documented, "%s %s is not on the page")
	lacking(documented, found, "%s %s is on the page, and is not the case")
}
