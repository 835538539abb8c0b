package status

import (
	"slices"
	"strings"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// Details are what answers about one instance alone have beside its row.
type Details struct {
	Life  []Step // so far, in order
	Files []File // by name
}

// Step is something that has become of an instance.
type Step struct {
	State string // one of the constants
	At    time.Time
}

// The steps of a life.
const (
	Created     = "created"     // its record was made
	Launched    = "launched"    // the provider took the create
	Registered  = "registered"  // its agent proved who it is
	Condemned   = "condemned"   // its end was decided
	Draining    = "draining"    // its work was asked to leave
	Drained     = "drained"     // that is done, or need not be
	Terminating = "terminating" // its machine is being deleted
	Deleted     = "deleted"     // its machine is gone
)

// File is a file or certificate at an instance.
type File struct {
	Name     string
	Kind     string    // as in the configuration; empty: that does not have it any more
	Current  bool      // it is the file as it is to be
	Modified time.Time // when what is in place was made; zero: nothing is, or it is not known
	Ends     time.Time // of a certificate that is in place; zero: it is none
	Error    string    // why it could not be brought or put in place
}

// certificate is the kind of certificates, as in the configuration.
const certificate = "certificate"

// AgentCertificate is the file that holds the certificate which an agent shows its server.
const AgentCertificate = "identity.crt"

// Detailed describes one instance by all that is known of it.
func (r *Reader) Detailed(in cache.Instance) Instance {
	st := r.Instance(in)
	st.Details = &Details{Life: r.life(in), Files: r.files(in)}
	return st
}

func (r *Reader) files(in cache.Instance) []File {
	var all []File
	if r.opts.Files != nil {
		all = r.opts.Files(in.ID)
	}
	if !in.CertNotAfter.IsZero() {
		own := File{Name: AgentCertificate, Kind: certificate, Current: r.opts.Now().Before(in.CertNotAfter), Ends: in.CertNotAfter}
		all = append(all, own)
	}
	slices.SortStableFunc(all, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// life are the steps of an instance's life, as its record, its row and the decisions tell them.
func (r *Reader) life(in cache.Instance) []Step {
	var all []Step
	add := func(state string, at time.Time) {
		if !at.IsZero() {
			all = append(all, Step{state, at})
		}
	}
	add(Created, in.Created)
	if r.opts.Record != nil {
		rec, _ := r.opts.Record(in.ID) // of one that is deleted it may be known for a while
		add(Launched, rec.LaunchedAt.Time)
		if rec.Deletion != nil && !in.Removal.DrainStarted.IsZero() {
			add(Drained, rec.Deletion.DrainAckedAt.Time)
		}
	}
	add(Registered, in.RegisteredAt)
	add(Condemned, in.Removal.RequestedAt)
	add(Draining, in.Removal.DrainStarted)
	if in.State == fleet.Deleting || in.State == fleet.Deleted {
		add(Terminating, r.deleteDecided(in))
	}
	add(Deleted, in.DeletedAt)
	slices.SortStableFunc(all, func(a, b Step) int { return a.At.Compare(b.At) })
	return all
}

// deleteDecided is when the deletion of an instance's machine was decided and nothing blocked it; zero: it was not,
// or that is not known any more.
func (r *Reader) deleteDecided(in cache.Instance) time.Time {
	for _, d := range r.opts.Cache.Decisions(in.Group) {
		if d.Instance == in.ID && d.Action == explain.Delete && !d.Blocked() {
			return d.At
		}
	}
	return time.Time{}
}
