package box

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"nstance.dev/server/objectstore"
)

// Sightings are what a watch has seen of the machines.
type Sightings struct {
	// Most is how many processes of machines ran at a time.
	Most int

	// Changes are the machines that appeared or vanished, as directories and as
	// records, each in its order.
	Changes []string

	// Wrong is what must never be: two processes of one machine at a time (S5), and
	// machines or records that came back after they had gone (S18).
	Wrong []string
}

// Watch looks at the machines over and over until the returned function is called,
// which tells what was seen. It looks at processes and directories of this box and,
// while the storage answers, at the records; a look that fails has seen nothing.
func (b *Box) Watch() (stop func() Sightings) {
	w := &watch{
		directories: history{what: "directory of", gone: map[string]bool{}},
		records:     history{what: "record", gone: map[string]bool{}},
	}
	w.directories.now = b.Directories()
	var err error
	if w.records.now, err = b.recordKeys(); err != nil {
		b.t.Errorf("list the records: %v", err)
	}
	endBox := repeat(5*time.Millisecond, func() {
		w.processes(b.Machines())
		w.directories.look(b.Directories(), b.directoryGone)
	})
	endStore := repeat(50*time.Millisecond, func() {
		if keys, err := b.recordKeys(); err == nil {
			w.records.look(keys, b.objectGone)
		}
	})
	return sync.OnceValue(func() Sightings {
		endBox()
		endStore()
		return Sightings{
			Most:    w.most,
			Changes: append(w.directories.changes, w.records.changes...),
			Wrong:   slices.Concat(w.doubles, w.directories.wrong, w.records.wrong),
		}
	})
}

// watch is what one watch has seen so far.
type watch struct {
	most    int
	doubles []string

	directories, records history
}

// processes counts what runs, and finds machines that run twice.
func (w *watch) processes(machines []Machine) {
	machines = slices.DeleteFunc(machines, func(m Machine) bool { return !m.Begun })
	w.most = max(w.most, len(machines))
	for i := 1; i < len(machines); i++ {
		if a, b := machines[i-1], machines[i]; a.ID == b.ID {
			w.doubles = append(w.doubles, fmt.Sprintf("two processes at a time: %s and %s", a, b))
		}
	}
}

// history is what came and went of one kind of thing.
type history struct {
	what    string
	now     []string
	gone    map[string]bool
	changes []string
	wrong   []string
}

// look compares with the look before. What a listing lacks has vanished only if a
// second look at it says so.
func (h *history) look(now []string, gone func(name string) bool) {
	for _, id := range h.now {
		switch {
		case slices.Contains(now, id):
		case !gone(id):
			now = append(now, id)
		default:
			h.gone[id] = true
			h.changes = append(h.changes, fmt.Sprintf("%s %s vanished", h.what, id))
		}
	}
	for _, id := range now {
		if slices.Contains(h.now, id) {
			continue
		}
		h.changes = append(h.changes, fmt.Sprintf("%s %s appeared", h.what, id))
		if h.gone[id] {
			h.wrong = append(h.wrong, fmt.Sprintf("%s %s came back", h.what, id))
		}
	}
	h.now = now
}

func (b *Box) directoryGone(id string) bool {
	_, err := os.Lstat(b.Path("machines", id))
	return errors.Is(err, os.ErrNotExist)
}

func (b *Box) objectGone(key string) bool {
	_, err := b.get(key)
	return errors.Is(err, objectstore.ErrNotFound)
}
