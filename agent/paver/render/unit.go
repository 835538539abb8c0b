package render

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// unitWord writes a word of a command for systemd: it is one word, and no specifier, variable
// or escape in it is expanded. The word has no control characters.
func unitWord(word string) string {
	word = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(word)
	return `"` + word + `"`
}

var (
	unitName = regexp.MustCompile(`^[A-Za-z0-9:_.@-]{1,120}[.](service|socket|mount|automount|swap|target|path|timer|slice)$`)
	// installedBy are the lists of an [Install] section, by the directories that units are
	// linked in.
	installedBy = map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires"}
	// startedWith are the targets that units of a type are started with, if they do not say.
	startedWith = map[string]string{
		".socket": "sockets.target", ".timer": "timers.target", ".path": "paths.target",
		".mount": "local-fs.target", ".automount": "local-fs.target", ".swap": "swap.target",
	}
)

// mostInstalled bounds in how many targets one unit can be installed.
const mostInstalled = 16

// units writes the template's units.
func (r *renderer) units() {
	for i, u := range r.t.GetMachine().GetUnits() {
		field := fmt.Sprintf("machine.units[%d]", i)
		name := u.GetName()
		switch {
		case !unitName.MatchString(name):
			r.problem(field+".name", "%q is not the name of a unit such as mine.service", name)
			continue
		case len(u.GetContent()) > 8192:
			r.problem(field+".content", "is longer than 8192 bytes")
		}
		at := path.Join(unitDir, name)
		if !r.claim(at, field+".name", "use another name, or a file "+at+".d/NAME.conf") {
			continue
		}
		r.slot(at, 0o644, lineEnded(u.GetContent()))
		if !u.GetEnable() {
			continue
		}
		if stem := strings.TrimSuffix(name, path.Ext(name)); strings.HasSuffix(stem, "@") {
			r.problem(field+".enable", "%q is a template of units: name an instance, such as %s1%s", name, stem, path.Ext(name))
			continue
		}
		for _, dir := range r.installed(field, name, u.GetContent()) {
			r.enable(name, dir)
		}
	}
}

// installed returns the directories that a unit is linked in, by its [Install] section.
func (r *renderer) installed(field, name, content string) []string {
	var dirs []string
	section := ""
	joined := strings.NewReplacer("\\\r\n", " ", "\\\n", " ").Replace(content)
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		switch {
		case strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "["):
			section = line
		case section == "[Install]" && installedBy[key] != "":
			for _, target := range strings.Fields(value) {
				if !unitName.MatchString(target) {
					r.problem(field+".content", "%s=%q is not the name of a unit", key, target)
					continue
				}
				dirs = append(dirs, target+installedBy[key])
			}
		}
	}
	slices.Sort(dirs)
	if dirs = slices.Compact(dirs); len(dirs) > mostInstalled {
		r.problem(field+".content", "is installed in more than %d units", mostInstalled)
		return nil
	}
	if len(dirs) > 0 {
		return dirs
	}
	if target := startedWith[path.Ext(name)]; target != "" {
		return []string{target + ".wants"}
	}
	return []string{"multi-user.target.wants"}
}

// files writes the template's files.
func (r *renderer) files() {
	for i, f := range r.t.GetMachine().GetFiles() {
		field := fmt.Sprintf("machine.files[%d]", i)
		at := r.path(field+".path", f.GetPath())
		if at == "" {
			continue
		}
		if len(f.GetContent()) > 16384 {
			r.problem(field+".content", "is longer than 16384 bytes")
		}
		if f.GetMode() > 0o777 {
			r.problem(field+".mode", "%#o must be permissions of owner, group and others alone, such as 0644", f.GetMode())
		}
		if top := firstElement(at); slices.Contains(mountedOver, top) || at == "/" {
			r.problem(field+".path", "%q would not be seen: the machine has a file system of its own at %s", at, top)
			continue
		}
		if at == containerdConfig {
			// The runtime's settings are the template's if it has any.
			r.plan.Files = slices.DeleteFunc(r.plan.Files, func(f File) bool { return f.Place == Slot && f.Path == at })
		}
		if r.claim(at, field+".path", instead(at)) {
			r.add(File{Place: Slot, Path: at, Mode: fs.FileMode(f.GetMode() & 0o777), Content: f.GetContent()})
		}
	}
}

// mountedOver are directories that a machine has file systems of its own at.
var mountedOver = []string{"/dev", "/proc", "/run", "/sys", "/tmp"}

// instead says what a template has to do instead of writing a file that is written anyway.
func instead(at string) string {
	switch {
	case at == KubeletConfig:
		return "use kubernetes.kubeletConfig"
	case Within(at, containerdCerts):
		return "use machine.registries"
	case path.Dir(at) == unitDir:
		return "use a file " + at + ".d/NAME.conf"
	default:
		return "leave it out"
	}
}

// claim takes a path of the slot for a field of the template, unless it is taken.
func (r *renderer) claim(at, field, remedy string) bool {
	if by := r.from[at]; by != "" {
		r.problem(field, "%q is written by %s too", at, by)
		return false
	}
	if r.own(at) {
		r.problem(field, "%q is written for every machine: %s", at, remedy)
		return false
	}
	if r.from == nil {
		r.from = map[string]string{}
	}
	r.from[at] = field
	return true
}

// firstElement is the directory below the root that a clean path is in.
func firstElement(p string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return "/" + first
}

// lineEnded is a text that ends its last line.
func lineEnded(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
