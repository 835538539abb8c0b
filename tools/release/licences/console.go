package licences

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

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
