package licences

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Terms are the licences under which programs are given away. [ReadTerms] makes them.
type Terms struct {
	own, golang string
	modules     []Module
}

// ReadTerms returns the terms of programs that are linked of modules. It reads Nstance's own licence and those of the
// web console in a clone whose root is the working directory, and Go's where that is installed.
func ReadTerms(ctx context.Context, modules []Module) (Terms, error) {
	own, err := os.ReadFile("LICENSE")
	if err != nil {
		return Terms{}, err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return Terms{}, fmt.Errorf("find Go: %w", err)
	}
	golang, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return Terms{}, err
	}
	parts, err := Parts(ConsoleLock)
	if err != nil {
		return Terms{}, err
	}
	console, err := PartTexts("admin/console/web/dist", parts, "nstance-admin")
	if err != nil {
		return Terms{}, err
	}
	return Terms{string(own), string(golang), slices.Concat(modules, console)}, nil
}

// Of is the text for programs, which are named as their files are.
func (t Terms) Of(programs ...string) string { return Texts(programs, t.own, t.golang, t.modules) }

// Texts is the file with the licences that goes along with programs: of Nstance itself and of Go as given, then
// of the modules that they are linked of. A text that several have stands once, below all of their names.
func Texts(programs []string, own, golang string, modules []Module) string {
	type section struct {
		of   []string
		text string
	}
	sections := []section{{[]string{"Nstance"}, clean(own)}, {[]string{"Go, its standard library and runtime"}, clean(golang)}}
	for _, m := range modules {
		if !slices.ContainsFunc(m.Programs, func(name string) bool { return slices.Contains(programs, name) }) {
			continue
		}
		for _, text := range m.Texts {
			text, name := clean(text), m.Path+" "+m.Version
			i := slices.IndexFunc(sections, func(s section) bool { return s.text == text })
			if i < 0 {
				i, sections = len(sections), append(sections, section{text: text})
			}
			if !slices.Contains(sections[i].of, name) {
				sections[i].of = append(sections[i].of, name)
			}
		}
	}
	var file strings.Builder
	fmt.Fprintf(&file, "What is in %s: Nstance, and parts of others. These are their licences and notices.\n", strings.Join(programs, ", "))
	for _, s := range sections {
		fmt.Fprintf(&file, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(s.of, "\n"), s.text)
	}
	return file.String()
}

// clean makes texts equal that differ in how their lines end.
func clean(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
