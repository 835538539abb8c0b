package delivery

import (
	"strings"
	"time"
)

// Ledger is what is known of one machine's files. The zero value knows nothing. It is
// used by one goroutine at a time.
type Ledger struct {
	heard  bool // on this stream
	report Report

	files  map[string]fileTry
	staged map[string]mark // by name: sent on this stream, and not committed
	commit try             // of the last commit; its version is the hash
	keys   try             // its version is all their names
}

// mark is what a staged file was made from.
type mark struct{ hash, version string }

// try is the last of a row of tries of one thing.
type try struct {
	count   int // since the last success
	at      time.Time
	version string
}

// fileTry is the last of a row of tries of one file.
type fileTry struct {
	try
	sent sent // which may be older: the last try may have failed
}

// sent is what was last sent of a file; the zero value is nothing.
type sent struct {
	version  string
	modified time.Time
}

// due reports whether the pause after the last try is over. Another version does not wait.
func (t try) due(version string, now time.Time) bool {
	return t.version != version || !now.Before(t.at.Add(pause(t.count)))
}

func (t try) again(version string, now time.Time) try {
	if t.version != version {
		t.count = 0
	}
	return try{count: t.count + 1, at: now, version: version}
}

// Connected notes that the machine has a new stream. What was staged on the one before is
// lost, and so may be what was tried once and not confirmed: it does not wait.
func (l *Ledger) Connected() {
	l.heard, l.staged = false, nil
	for name, t := range l.files {
		t.try = t.afresh()
		l.files[name] = t
	}
	l.commit, l.keys = l.commit.afresh(), try{}
}

func (t try) afresh() try {
	if t.count == 1 {
		t.at = time.Time{}
	}
	return t
}

// Heard notes a report. A file that stands as it was sent, for longer than the next pause
// would be, has succeeded.
func (l *Ledger) Heard(r Report, now time.Time) {
	l.heard, l.report = true, r
	for name, t := range l.files {
		s, _ := r.Files.Find(name)
		if s.inPlace() && s.Modified.Equal(t.sent.modified) && now.Sub(t.at) >= pause(t.count) {
			t.count = 0
			l.files[name] = t
		}
	}
	if l.commit.version == r.Hash {
		l.commit.count = 0
	}
}

// Standing returns what was last reported of a file of w, and whether it is the file as it is to
// be now.
func (l *Ledger) Standing(w Wanted, f File, now time.Time) (s Status, current bool) {
	s, _ = l.report.Files.Find(f.Name)
	if !f.Certificate() {
		return s, l.report.Hash == w.Hash && f.is(s)
	}
	p := planning{ledger: l, now: now}
	_, lacking := p.lacksCertificate(f)
	return s, !f.NoKey && !lacking
}

// Reported returns the files of the last report, on whatever stream it came.
func (l *Ledger) Reported() Statuses { return l.report.Files }

// Sent notes a file that was sent, made from the configuration of a hash. It bears the time
// modified, by which reports confirm it.
func (l *Ledger) Sent(f File, hash string, modified, now time.Time) {
	t := l.tried(f, now)
	t.sent = sent{f.Version, modified}
	l.files[f.Name] = t
	if l.staged == nil {
		l.staged = map[string]mark{}
	}
	l.staged[f.Name] = mark{hash, f.Version}
}

// Staged reports whether something was sent on this stream that is not committed.
func (l *Ledger) Staged() bool { return len(l.staged) > 0 }

// Failed notes a file that could not be made.
func (l *Ledger) Failed(f File, now time.Time) { l.files[f.Name] = l.tried(f, now) }

// tried returns the try that follows; there is a map for it.
func (l *Ledger) tried(f File, now time.Time) fileTry {
	if l.files == nil {
		l.files = map[string]fileTry{}
	}
	t := l.files[f.Name]
	t.try = t.again(f.Version, now)
	return t
}

// Committed notes a commit that was sent.
func (l *Ledger) Committed(hash string, now time.Time) {
	l.staged = nil
	l.commit = l.commit.again(hash, now)
}

// Abandoned notes that a batch cannot be made whole: nothing of it was sent.
func (l *Ledger) Abandoned(hash string, now time.Time) { l.commit = l.commit.again(hash, now) }

// Asked notes that keys were asked for.
func (l *Ledger) Asked(keys []string, now time.Time) { l.keys = l.keys.again(all(keys), now) }

// all makes one text of names, none of which has a slash.
func all(names []string) string { return strings.Join(names, "/") }

// Tries returns how often a file was tried since it last succeeded, and when last.
func (l *Ledger) Tries(name string) (count int, last time.Time) {
	t := l.files[name]
	return t.count, t.at
}
