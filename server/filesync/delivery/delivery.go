package delivery

import "time"

// File is one file of a machine's configuration.
type File struct {
	Name string
	// Key is the name of the key that a certificate is for; empty for all other kinds.
	Key string
	// Version changes with what the file is made of: for a secret or a stored object the
	// SHA-256 of its content, for a certificate a digest of names, life and key. Empty:
	// the configuration hash says all there is, or the version is not known.
	Version string
	// Life is how long a certificate is issued for.
	Life time.Duration
	// Until is the end of who signs it: no certificate lives longer, whatever Life says.
	// Zero: not known.
	Until time.Time
	// NoKey says that the public half of a certificate's key is not known.
	NoKey bool
}

// Certificate reports whether the file is one.
func (f File) Certificate() bool { return f.Key != "" }

// is reports whether a file that is no certificate stands as it is to be, as far as its status tells.
func (f File) is(s Status) bool {
	return s.inPlace() && (f.Version == "" || s.Digest == "" || s.Digest == f.Version)
}

// Wanted is what a machine should have. Files are in order of their names.
type Wanted struct {
	Hash  string // of the runtime configuration
	Files []File
}

// Report is what a machine says it has.
type Report struct {
	Hash  string
	Files Statuses
}

// Reason says why a file is sent. It is for people, and one of the constants.
type Reason string

// The reasons.
const (
	Missing Reason = "the machine does not have it"
	Failed  Reason = "the machine reports an error about it"
	Drifted Reason = "the configuration has changed"
	Changed Reason = "its source has changed"
	Rekeyed Reason = "its key or its names have changed"
	Aged    Reason = "two thirds of its life are over"
)

// Push is a file to be sent, and why.
type Push struct {
	File
	Reason Reason
}

// Plan is what to do for a machine now: ask for Keys, send Files in this order, then Commit.
// The zero Plan is to do nothing.
type Plan struct {
	Keys  []string // whose public halves to ask for
	Files []Push   // certificates are the last
	// Whole says that the files which are no certificates are sent all or none.
	Whole bool
	// Commit is the hash that ends the batch; empty: there is none.
	Commit string
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Keys) == 0 && len(p.Files) == 0 && p.Commit == "" }

// Pauses between two tries of the same thing.
const (
	firstPause   = time.Minute
	longestPause = 30 * time.Minute
)

// pause is how long to wait after so many tries.
func pause(tries int) time.Duration {
	if tries <= 0 {
		return 0
	}
	return min(firstPause<<min(tries-1, 10), longestPause)
}

// EndsAt is the end of a certificate that was issued at a time.
func (f File) EndsAt(issued time.Time) time.Time {
	end := issued.Add(f.Life)
	if !f.Until.IsZero() && f.Until.Before(end) {
		return f.Until
	}
	return end
}

// RenewAt is the moment at which a certificate that was issued at a time is due to be
// renewed: when two thirds of its life are over, which ends with whoever signed it. One
// whose life is cut short by that has a pause before it at least: near the end of an
// authority the lives get shorter and shorter, and only another authority mends that.
func (f File) RenewAt(issued time.Time) time.Time {
	life := f.Life
	if left := f.Until.Sub(issued); !f.Until.IsZero() && left < life {
		life = max(left, min(longestPause*3/2, life))
	}
	return issued.Add(life * 2 / 3)
}
