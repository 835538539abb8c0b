package render

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// renderer collects the plan of one assignment, and what is wrong with it.
type renderer struct {
	a          *nstancev1.MachineAssignment
	t          *nstancev1.MachineTemplate
	host       Host
	credential *nstancev1.MachineCredential
	plan       Plan
	// from are the fields of the template that files of the slot come from, by path.
	from map[string]string
	problems
}

// slot adds a file of the slot.
func (r *renderer) slot(path string, mode fs.FileMode, content string) {
	r.add(File{Place: Slot, Path: path, Mode: mode, Content: content})
}

// onHost adds a file of the host.
func (r *renderer) onHost(path, content string) {
	r.add(File{Place: OnHost, Path: path, Mode: 0o644, Content: content})
}

func (r *renderer) add(f File) { r.plan.Files = append(r.plan.Files, f) }

// own says whether a path of the slot is that of a file of ours.
func (r *renderer) own(path string) bool {
	return slices.ContainsFunc(r.plan.Files, func(f File) bool { return f.Place == Slot && f.Path == path })
}

// sort puts the files in order, and refuses a file in the place of a directory of another one.
func (r *renderer) sort() {
	slices.SortFunc(r.plan.Files, func(a, b File) int {
		return cmp.Or(-strings.Compare(string(a.Place), string(b.Place)), strings.Compare(a.Path, b.Path))
	})
	for _, f := range r.plan.Files {
		for dir := path.Dir(f.Path); f.Place == Slot && dir != "/"; dir = path.Dir(dir) {
			if r.own(dir) {
				r.problem(cmp.Or(r.from[dir], r.from[f.Path], dir), "%q cannot be a file: %q is below it", dir, f.Path)
			}
		}
	}
}

// enable makes systemd start a unit at boot.
func (r *renderer) enable(unit, wants string) {
	r.add(File{Place: Slot, Path: unitDir + "/" + wants + "/" + unit, Link: unitDir + "/" + unit})
}

// there says whether a path exists on the host; one that is not known of is taken to.
func (r *renderer) there(p string) bool {
	_, there := r.host.Paths[p]
	return there || r.host.Paths == nil
}
