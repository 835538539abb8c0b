package licences

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ConsoleLock is the file that says what the web console is built of, from the root of a clone.
const ConsoleLock = "admin/console/web/package-lock.json"

// between stands between two packages in the file that [PartTexts] reads.
var between = "\n" + strings.Repeat("-", 72) + "\n"

// Part is a package of npm that is built into the pages of the web console.
type Part struct{ Name, Version, Licence string }

// Parts returns what a package-lock.json says is built into pages, sorted by name: all but what only
// builds and tests need.
func Parts(lock string) ([]Part, error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var file struct {
		Packages map[string]struct {
			Version, License string
			Dev, Optional    bool
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	var parts []Part
	var errs []error
	for place, p := range file.Packages {
		name, ok := strings.CutPrefix(place, "node_modules/")
		if !ok || p.Dev || p.Optional {
			continue
		}
		if !slices.Contains(known, p.License) && p.License != "OFL-1.1" { // that is for fonts
			errs = append(errs, fmt.Errorf("%s: %s: licence %q: nobody has looked at whether it may be built in", lock, name, p.License))
		}
		parts = append(parts, Part{name, p.Version, p.License})
	}
	slices.SortFunc(parts, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	return parts, errors.Join(errs...)
}

// PartTexts returns the packages of npm that are built into the pages in dist, with the texts of their licences
// as the build of the pages put them there: for each its name and version, an empty line and the text. Each
// of the parts has to be there. Programs are those that have the pages in them.
func PartTexts(dist string, parts []Part, programs ...string) ([]Module, error) {
	names, err := filepath.Glob(filepath.Join(dist, "assets", "licences-*.txt"))
	if err == nil && len(names) != 1 {
		err = fmt.Errorf("%s: %d files with licences, want one", dist, len(names))
	}
	if err != nil {
		return nil, err
	}
	file, err := os.ReadFile(names[0])
	if err != nil {
		return nil, err
	}
	var all []Module
	for one := range strings.SplitSeq(string(file), between) {
		title, text, _ := strings.Cut(strings.TrimSpace(one), "\n")
		name, version, _ := strings.Cut(title, " ")
		all = append(all, Module{Path: name, Version: version, Programs: programs, Texts: []string{text}})
	}
	var errs []error
	if len(all) != len(parts) {
		errs = append(errs, fmt.Errorf("%s: %d licences of %d parts: make console", names[0], len(all), len(parts)))
	}
	for _, p := range parts {
		if !slices.ContainsFunc(all, func(m Module) bool { return m.Path == p.Name && m.Version == p.Version && m.Texts[0] != "" }) {
			errs = append(errs, fmt.Errorf("%s: the licence of %s %s is missing: make console", names[0], p.Name, p.Version))
		}
	}
	return all, errors.Join(errs...)
}
