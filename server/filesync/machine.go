package filesync

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/filesync/delivery"
)

// maxReported bounds what one report can make the server remember; an agent
// lists no more.
const maxReported = 1024

var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// machine is what is known of one machine's files.
type machine struct {
	id identity.ID

	mu     sync.Mutex
	line   Line // nil: not connected
	ledger delivery.Ledger

	wanted delivery.Wanted
	basis  basis     // what wanted was made from
	again  time.Time // wanted is made anew: something could not be read; zero: not

	logged time.Time // of the last log of certificates
}

// basis is what the files that a machine is to have depend on.
type basis struct {
	known             bool
	generation, epoch uint64
}

func (m *machine) invalidate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.basis = basis{}
}

// statuses reads the files of a report.
func statuses(files map[string]*nstancev1.FileStatus) delivery.Statuses {
	return delivery.NewStatuses(min(len(files), maxReported), func(yield func(string, delivery.Status) bool) {
		n := 0
		for name, f := range files {
			if n++; n > maxReported {
				return
			}
			if fileName.MatchString(name) && !yield(name, statusOf(f)) { // no file that was sent has another name
				return
			}
		}
	})
}

// statusOf reads the status of one file.
func statusOf(f *nstancev1.FileStatus) delivery.Status {
	status := delivery.Status{Error: printable(f.GetError())}
	if at := f.GetLastModified(); at.IsValid() {
		status.Modified = at.AsTime()
	}
	if digest := f.GetSha256(); len(digest) == 32 {
		status.Digest = string(digest)
	}
	return status
}

// printable cuts text of an agent down to what may stand in a log or an event.
func printable(s string) string {
	const most = 200
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s[:min(len(s), most)])
}

// heard notes a report and returns the names of the files about which it says
// something new; nil if there are none. The caller holds mu, as for what follows.
func (m *machine) heard(hash string, files delivery.Statuses, now time.Time) (changed []string) {
	changed = files.Differ(m.ledger.Reported())
	m.ledger.Heard(delivery.Report{Hash: hash, Files: files}, now)
	return changed
}

// due reports whether it is worth a worker's while to look at the machine.
func (m *machine) due(now basis, at time.Time) bool {
	return m.stale(now, at) || !m.ledger.Plan(m.wanted, at).Empty()
}

// stale reports whether wanted has to be made anew.
func (m *machine) stale(now basis, at time.Time) bool {
	return m.basis != now || !m.again.IsZero() && !at.Before(m.again)
}

// ask asks for the public halves of keys.
func (m *machine) ask(names []string, now time.Time) bool {
	if !m.line.Offer(&nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_KeyRequest{
		KeyRequest: &nstancev1.KeyRequest{KeyNames: names},
	}}) {
		return false
	}
	m.ledger.Asked(names, now)
	return true
}

// moment is when certificates are issued that are logged together: never the
// same one twice, by the clock of keys in storage.
func (m *machine) moment(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if next := m.logged.Add(time.Millisecond); now.Before(next) {
		now = next
	}
	m.logged = now
	return now
}
