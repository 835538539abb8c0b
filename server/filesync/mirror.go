package filesync

import (
	"cmp"

	"nstance.dev/server/cache"
	"nstance.dev/server/filesync/delivery"
)

// noteReport mirrors what is new in a report into the cache, and tells of files
// that the machine could not put in place.
func (s *Syncer) noteReport(m *machine, files delivery.Statuses, changed []string) {
	for _, name := range changed {
		status, known := files.Find(name)
		if known {
			s.mirror(m, name)
		} else {
			s.opts.Cache.DropFile(m.id, name)
		}
		s.noteTrouble(m, name, status.Error)
	}
}

// noteTrouble counts and tells what a machine says is wrong with a file; "" is nothing.
// What the machine is to have is looked up only where something is wrong, or was.
func (s *Syncer) noteTrouble(m *machine, name, text string) {
	what := trouble{file: name}
	if text == "" && s.troubles.of(m.id, what) == "" {
		return
	}
	d, ok := s.opts.Describe(m.id)
	if !ok {
		return
	}
	if text != "" {
		s.opts.Metrics.failed(kindOf(d, name))
	}
	s.tell(m, d, what, text)
}

// kindOf is the kind of a file for metrics: a machine may report files that
// nobody wants.
func kindOf(d Machine, file string) string {
	if f, ok := d.Config.Files[file]; ok {
		return f.Kind
	}
	return "unknown"
}

// tell says what is wrong with a file, unless it was said before; "" is nothing.
func (s *Syncer) tell(m *machine, d Machine, t trouble, text string) {
	news, changed := s.troubles.note(m.id, d.Group, t, text)
	if news {
		s.opts.Log.Warn("file not delivered", "instance", m.id, "file", t.file, "where", t.where(), "error", text)
		s.opts.Trouble(m.id, d.Group, t.says(text))
	}
	if changed {
		s.opts.UndeliveredChanged(d.Group)
	}
}

// mirror writes the row of a file, for people.
func (s *Syncer) mirror(m *machine, name string) {
	m.mu.Lock()
	status, _ := m.ledger.Reported().Find(name)
	tries, last := m.ledger.Tries(name)
	m.mu.Unlock()
	text := cmp.Or(status.Error, s.troubles.of(m.id, trouble{name, true}))
	s.opts.Cache.PutFile(cache.File{
		Instance: m.id, Name: name, LastModified: status.Modified, Error: text, SentAt: last, Attempts: tries,
	})
}
