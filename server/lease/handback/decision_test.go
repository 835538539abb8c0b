package handback

import (
	"testing"
	"time"

	"nstance.dev/server/lease"
)

// TestDecide: only a lock in exactly a version of the ended process is given back (S1).
func TestDecide(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	last := lease.Document{V: lease.Version, LeaderID: "a", Term: 7, LeaseSeconds: 15, LastUpdated: at}
	before := last
	before.LastUpdated = at.Add(-5 * time.Second)
	with := func(edit func(*lease.Document)) lease.Document {
		doc := last
		edit(&doc)
		return doc
	}
	noted := []lease.Document{before, last}
	for _, tt := range []struct {
		name  string
		noted []lease.Document
		now   stored
		want  bool
	}{
		{"the last version", noted, stored{doc: last}, true},
		{"the one before, as the last write never arrived", noted, stored{doc: before}, true},
		{"a process that never led", nil, stored{doc: last}, false},
		{"a renewal by a live process with the same id, in a copy of the folder", noted, stored{doc: with(func(d *lease.Document) { d.LastUpdated = at.Add(time.Second) })}, false},
		{"the next term", noted, stored{doc: with(func(d *lease.Document) { d.Term = 8 })}, false},
		{"another server", noted, stored{doc: with(func(d *lease.Document) { d.LeaderID = "b" })}, false},
		{"released in order", noted, stored{doc: with(func(d *lease.Document) { d.Released = true })}, false},
		{"deleted", noted, stored{absent: true}, false},
		{"unreadable", noted, stored{broken: lease.ErrQuarantined}, false},
	} {
		if got, why := decide(tt.noted, tt.now); got != tt.want || why == "" {
			t.Errorf("%s: %t (%q), want %t", tt.name, got, why, tt.want)
		}
	}
}
