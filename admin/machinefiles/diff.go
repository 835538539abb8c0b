package machinefiles

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
		d.Lines = lines(before, after)
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

// around is how many equal lines are shown beside those that differ.
const around = 2

// lines compares two texts line by line: a longest common subsequence, and what is not in it.
func lines(from, to string) []string {
	a, b := split(from), split(to)
	long := make([][]int, len(a)+1) // of the longest common subsequence of what follows
	for i := range long {
		long[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	var all []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all, i, j = append(all, " "+a[i]), i+1, j+1
		case j == len(b) || i < len(a) && long[i+1][j] >= long[i][j+1]:
			all, i = append(all, "-"+a[i]), i+1
		default:
			all, j = append(all, "+"+b[j]), j+1
		}
	}
	return trimmed(all)
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// trimmed leaves out equal lines that are far from those that differ; a line of three dots stands for them.
func trimmed(all []string) []string {
	near := make([]bool, len(all))
	for i, line := range all {
		if line[0] != ' ' {
			for j := max(0, i-around); j <= min(len(all)-1, i+around); j++ {
				near[j] = true
			}
		}
	}
	var out []string
	for i, line := range all {
		switch {
		case near[i]:
			out = append(out, line)
		case i > 0 && near[i-1]:
			out = append(out, "...")
		}
	}
	return out
}
