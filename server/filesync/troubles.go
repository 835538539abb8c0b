package filesync

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// trouble is something that may be wrong again and again, and is told of once.
type trouble struct {
	file string
	here bool // it could not be made; else the machine could not put it in place
}

// troubles are what is wrong with the files of the machines now. It is safe for
// concurrent use.
type troubles struct {
	mu      sync.Mutex
	byID    map[identity.ID]*troubled
	byGroup map[fleet.GroupID]map[identity.ID]bool // of whom there is something to say
}

// troubled is one machine, and what is wrong with its files.
type troubled struct {
	group fleet.GroupID
	texts map[trouble]string // never empty
}

func newTroubles() *troubles {
	return &troubles{byID: map[identity.ID]*troubled{}, byGroup: map[fleet.GroupID]map[identity.ID]bool{}}
}

// note takes down what is wrong with a file now; "" is nothing. It reports whether
// that is another trouble than the last time, and whether the standing of the group
// has changed.
func (t *troubles) note(id identity.ID, group fleet.GroupID, what trouble, text string) (news, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.byID[id]
	if m == nil && text == "" || m != nil && m.texts[what] == text {
		return false, false
	}
	if text == "" {
		if delete(m.texts, what); len(m.texts) == 0 {
			t.drop(id)
		}
		return false, true
	}
	if m == nil {
		m = &troubled{group: group, texts: map[trouble]string{}}
		t.byID[id] = m
		if t.byGroup[group] == nil {
			t.byGroup[group] = map[identity.ID]bool{}
		}
		t.byGroup[group][id] = true
	}
	m.texts[what] = text
	return true, true
}

// keep forgets what was wrong with files that are not wanted any more. It reports
// whether there was such a thing.
func (t *troubles) keep(id identity.ID, wanted func(file string) bool) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.byID[id]
	if m == nil {
		return false
	}
	for what := range m.texts {
		if !wanted(what.file) {
			delete(m.texts, what)
			changed = true
		}
	}
	if len(m.texts) == 0 {
		t.drop(id)
	}
	return changed
}

// forget drops a machine.
func (t *troubles) forget(id identity.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[id] != nil {
		t.drop(id)
	}
}

// drop needs mu, and a machine that is known.
func (t *troubles) drop(id identity.ID) {
	group := t.byID[id].group
	delete(t.byID, id)
	if delete(t.byGroup[group], id); len(t.byGroup[group]) == 0 {
		delete(t.byGroup, group)
	}
}

// of is what stands against one file; "" is nothing.
func (t *troubles) of(id identity.ID, what trouble) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.byID[id]; m != nil {
		return m.texts[what]
	}
	return ""
}

// in are the machines of a group to which files could not be brought, in order.
func (t *troubles) in(group fleet.GroupID) []explain.Undelivered {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []explain.Undelivered
	for id := range t.byGroup[group] {
		all = append(all, explain.Undelivered{Instance: id, Why: t.byID[id].why()})
	}
	slices.SortFunc(all, func(a, b explain.Undelivered) int { return cmp.Compare(a.Instance, b.Instance) })
	return all
}

// why is what is wrong with its first file by name, and how many others there are.
func (m *troubled) why() string {
	files := make(map[string]bool, len(m.texts))
	var first trouble
	for what := range m.texts {
		files[what.file] = true
		if first.file == "" || what.before(first) {
			first = what
		}
	}
	text := first.says(m.texts[first])
	if more := len(files) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func (what trouble) before(other trouble) bool {
	return what.file < other.file || what.file == other.file && what.here && !other.here
}

// where is whose doing it is.
func (what trouble) where() string {
	if what.here {
		return "on the server"
	}
	return "on the machine"
}

// says is the trouble in words.
func (what trouble) says(text string) string {
	return "file " + what.file + ", " + what.where() + ": " + text
}
