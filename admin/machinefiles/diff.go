package machinefiles

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nstance.dev/admin/linediff"
	"nstance.dev/agent/paver/render"
)

// Difference is a file that two plans have differently, or one of them alone.
type Difference struct {
	Place string `json:"place"`
	Path  string `json:"path"`
	// Kind is added, removed or changed.
	Kind string `json:"kind"`
	// Lines of the file that only one has, with their surroundings: each begins with a blank, + or -.
	Lines []string `json:"lines,omitempty"`
}

// Diff returns the differences of two plans, by place and path. What is loaded and set on the host is a file of its
// own name there.
func Diff(from, to render.Plan) []Difference {
	a, b := files(from), files(to)
	keys := map[[2]string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	var all []Difference
	for key := range keys {
		before, had := a[key]
		after, has := b[key]
		d := Difference{Place: key[0], Path: key[1]}
		switch {
		case had && has && before == after:
			continue
		case !had:
			d.Kind = "added"
		case !has:
			d.Kind = "removed"
		default:
			d.Kind = "changed"
		}
		d.Lines = linediff.Of(before, after)
		all = append(all, d)
	}
	slices.SortFunc(all, func(x, y Difference) int {
		return cmp.Or(-strings.Compare(x.Place, y.Place), strings.Compare(x.Path, y.Path))
	})
	return all
}

// files are the contents of a plan, by place and path.
func files(p render.Plan) map[[2]string]string {
	all := map[[2]string]string{}
	for _, f := range p.Files {
		text := f.Content
		if f.Link != "" {
			text = "-> " + f.Link + "\n"
		} else if f.Mode != 0o644 {
			text = fmt.Sprintf("mode %04o\n", f.Mode) + text
		}
		all[[2]string{string(f.Place), f.Path}] = text
	}
	put := func(name string, lines []string) {
		if len(lines) > 0 {
			all[[2]string{string(render.OnHost), name}] = strings.Join(lines, "\n") + "\n"
		}
	}
	put("(kernel modules)", p.Modules)
	var settings, persist []string
	for _, s := range p.Sysctls {
		settings = append(settings, s.Name+" = "+s.Value)
	}
	for _, d := range p.Persist {
		text := d.Path
		if d.Wipe {
			text += " (emptied by a repave)"
		}
		persist = append(persist, text)
	}
	put("(kernel parameters)", settings)
	put("(directories that survive a repave)", persist)
	return all
}
