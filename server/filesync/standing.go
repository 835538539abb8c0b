package filesync

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/filesync/delivery"
)

// File is how a machine has one file, for people.
type File struct {
	Name     string
	Kind     string    // as in the configuration; empty: that does not have it any more
	Current  bool      // it is the file as it is to be
	Modified time.Time // when what is in place was made; zero: nothing is
	Ends     time.Time // of a certificate that is in place; zero: it is none
	Error    string    // why it could not be brought or put in place
}

// Files are those that a machine has or is to have, by name, as its last report says; none of a
// machine that has not connected in this term.
func (s *Syncer) Files(id identity.ID) []File {
	m := s.find(id)
	if m == nil {
		return nil
	}
	d, ok := s.opts.Describe(id)
	if !ok {
		return nil
	}
	now := s.opts.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []File
	known := map[string]bool{}
	for _, f := range m.wanted.Files {
		if wanted, ok := d.Config.Files[f.Name]; ok {
			known[f.Name] = true
			all = append(all, m.file(f, wanted.Kind, now))
		}
	}
	for name, f := range d.Config.Files {
		if !known[name] { // what it is to be is not known yet
			known[name] = true
			status, _ := m.ledger.Reported().Find(name)
			all = append(all, File{Name: name, Kind: f.Kind, Modified: placed(status), Error: status.Error})
		}
	}
	for name, status := range m.ledger.Reported().All() {
		if !known[name] {
			all = append(all, File{Name: name, Modified: placed(status), Error: status.Error})
		}
	}
	for i, f := range all {
		all[i].Error = cmp.Or(f.Error, s.troubles.of(id, trouble{f.Name, true}))
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// file describes a file that the machine is to have. The caller holds mu.
func (m *machine) file(f delivery.File, kind string, now time.Time) File {
	status, current := m.ledger.Standing(m.wanted, f, now)
	out := File{Name: f.Name, Kind: kind, Current: current, Modified: placed(status), Error: status.Error}
	if f.Certificate() && !out.Modified.IsZero() && f.Life > 0 {
		out.Ends = f.EndsAt(out.Modified)
	}
	return out
}

// placed is when what is in place was made; zero: nothing is.
func placed(s delivery.Status) time.Time {
	if s.Error != "" {
		return time.Time{}
	}
	return s.Modified
}
