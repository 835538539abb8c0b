package render

import (
	"fmt"
	"path"
	"slices"
	"strings"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// RecvDir is where an agent puts the files that its server pushes. A machine may see them, and
// never change them.
const RecvDir = "/opt/nstance-agent/recv"

// modulesDir has the modules of the host's kernel; network plug-ins load some.
const modulesDir = "/lib/modules"

// Query is a path of the host that [Render] has to know about.
type Query struct {
	// Path is absolute and clean; of devices it may be a pattern in the form of path.Match.
	Path string
	// Device: only device files count.
	Device bool
}

// Wanted returns what has to be found out about a host for a template. What will be refused
// anyway is left out.
func Wanted(t *nstancev1.MachineTemplate) []Query {
	queries := []Query{{Path: modulesDir}, {Path: needrestartDir}, {Path: aptDir}}
	for _, b := range t.GetMachine().GetBinds() {
		if s := b.GetSource(); strings.HasPrefix(s, "/") && !hasParent(s) {
			queries = append(queries, Query{Path: path.Clean(s)})
		}
	}
	for _, d := range t.GetMachine().GetDevices() {
		if devicePattern.MatchString(d) && !hasParent(d) {
			queries = append(queries, Query{Path: path.Clean(d), Device: true})
		}
	}
	slices.SortFunc(queries, func(a, b Query) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(queries)
}

// mount is something of the host that the machine sees.
type mount struct {
	source, target string
	readOnly       bool
	device         bool
	field          string // of the template
}

// mounts are all of a template, in its order, without those that are optional and missing.
func (r *renderer) mounts() []mount {
	var all []mount
	for i, b := range r.t.GetMachine().GetBinds() {
		if m, ok := r.bind(fmt.Sprintf("machine.binds[%d]", i), b); ok {
			all = append(all, m)
		}
	}
	all = append(all, r.persisted()...)
	all = append(all, r.devices()...)
	seen := map[string]string{}
	for _, m := range all {
		if by := seen[m.target]; by != "" {
			r.problem(m.field, "%q is a target of %s too", m.target, by)
		}
		seen[m.target] = m.field
	}
	if seen[modulesDir] == "" && r.there(modulesDir) {
		all = append(all, mount{source: modulesDir, target: modulesDir, readOnly: true, field: modulesDir})
	}
	return all
}

// covered refuses what is mounted over a file: it would be written and never seen.
func (r *renderer) covered(mounts []mount) {
	for _, m := range mounts {
		for _, f := range r.plan.Of(Slot) {
			if Within(f.Path, m.target) {
				r.problem(m.field, "%q would cover %q, which is written into the machine", m.target, f.Path)
				break
			}
		}
	}
}

func (r *renderer) bind(field string, b *nstancev1.MachineBind) (mount, bool) {
	source, target := r.path(field+".source", b.GetSource()), r.path(field+".target", b.GetTarget())
	switch {
	case source == "" || target == "":
		return mount{}, false
	case target == "/" || Within(target, "/proc"):
		r.problem(field+".target", "%q cannot be a target", target)
	case Within(source, RecvDir) && !b.GetReadOnly():
		r.problem(field+".readOnly", "must be true: files that the server pushes are changed by the server alone")
	case b.GetIfPresent() && !r.there(source):
		return mount{}, false
	case !r.there(source):
		r.problem(field+".source", "%q does not exist on the host: set optional if the machine can do without", source)
	}
	return mount{source: source, target: target, readOnly: b.GetReadOnly(), field: field + ".target"}, true
}

// kubeletDir holds the kubelet's certificates and what its Pods have mounted.
const kubeletDir = "/var/lib/kubelet"

// persisted are the mounts of the directories that survive a repave.
func (r *renderer) persisted() []mount {
	var all []mount
	names := map[string]bool{}
	for i, p := range r.t.GetMachine().GetPersist() {
		field := fmt.Sprintf("machine.persist[%d]", i)
		target := r.path(field+".path", p.GetPath())
		switch {
		case target == "":
			continue
		case !label.MatchString(p.GetName()):
			r.problem(field+".name", "%q must be small letters, digits and hyphens, at most 63 of them", p.GetName())
			continue
		case names[p.GetName()]:
			r.problem(field+".name", "%q is given twice", p.GetName())
			continue
		case Within(target, kubeletDir) || Within(kubeletDir, target):
			r.problem(field+".path", "%q cannot survive: each kubelet gets a certificate of its own", target)
			continue
		case slices.Contains(mountedOver, firstElement(target)):
			r.problem(field+".path", "%q cannot survive: the machine has a file system of its own at %s", target, firstElement(target))
			continue
		}
		names[p.GetName()] = true
		dir := path.Join(r.host.StateDir, "persist", p.GetName())
		r.plan.Persist = append(r.plan.Persist, Directory{Path: dir, Wipe: p.GetWipeOnRepave()})
		all = append(all, mount{source: dir, target: target, field: field + ".path"})
	}
	return all
}

// devices are the mounts of devices: those named, and those of the host that match a pattern.
func (r *renderer) devices() []mount {
	found := map[string]string{}
	for i, d := range r.t.GetMachine().GetDevices() {
		field := fmt.Sprintf("machine.devices[%d]", i)
		if _, err := path.Match(d, ""); err != nil || !devicePattern.MatchString(d) || hasParent(d) || len(d) > 256 {
			r.problem(field, "%q is not a device, or a pattern of devices, below /dev", d)
			continue
		}
		d = path.Clean(d)
		switch {
		case r.host.Paths == nil:
			found[d] = field
		case devicePath.MatchString(d) && !r.there(d):
			r.problem(field, "%q does not exist on the host: write it as a pattern if the machine can do without", d)
		default:
			for p := range r.host.Paths {
				if ok, _ := path.Match(d, p); ok && devicePath.MatchString(p) {
					found[p] = field
				}
			}
		}
	}
	var all []mount
	for p, field := range found {
		all = append(all, mount{source: p, target: p, device: true, field: field})
	}
	slices.SortFunc(all, func(a, b mount) int { return strings.Compare(a.target, b.target) })
	return all
}
