package supply

import (
	"cmp"

	"nstance.dev/server/cache"
	"nstance.dev/server/delivery"
)

// noteReport mirrors what is new in a report into the cache, and tells of files
// that the machine could not put in place.
func (s *Supply) noteReport(m *machine, files map[string]delivery.Status, changed []string) {
	d, ok := s.opts.Describe(m.id)
	for _, name := range changed {
		status, known := files[name]
		if known {
			s.mirror(m, name)
		} else {
			s.opts.Cache.DropFile(m.id, name)
		}
		if ok && status.Error != "" {
			s.opts.Metrics.failed(kindOf(d, name))
		}
		if ok {
			s.tell(m, d, trouble{file: name}, status.Error)
		}
	}
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
func (s *Supply) tell(m *machine, d Machine, t trouble, text string) {
	news, changed := s.troubles.note(m.id, d.Group, t, text)
	if news {
		s.opts.Log.Warn("file not delivered", "instance", m.id, "file", t.file, "where", t.where(), "error", text)
		s.opts.Trouble(m.id, d.Group, t.says(text))
	}
	if changed {
		s.opts.Standing(d.Group)
	}
}

// mirror writes the row of a file, for people.
func (s *Supply) mirror(m *machine, name string) {
	m.mu.Lock()
	status := m.last[name]
	tries, last := m.ledger.Tries(name)
	m.mu.Unlock()
	text := cmp.Or(status.Error, s.troubles.of(m.id, trouble{name, true}))
	s.opts.Cache.PutFile(cache.File{
		Instance: m.id, Name: name, LastModified: status.Modified, Error: text, SentAt: last, Attempts: tries,
	})
}
