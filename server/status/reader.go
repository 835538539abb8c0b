package status

import (
	"iter"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/catalog"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// Options are what a [Reader] reads. Required are those up to Now.
type Options struct {
	Shard   string
	Term    uint64
	Cache   *cache.Cache
	Groups  Groups
	Catalog *catalog.Book
	Driver  driver.Driver // asked how other systems know its machines, where it is a [driver.URIer]
	Now     func() time.Time
	// Record returns what is stored of an instance, or was lately; nil: nothing is known.
	Record func(identity.ID) (layout.InstanceRecord, bool)
	// Files returns the files of an instance, by name; nil: nothing is known.
	Files func(identity.ID) []File
	// Usage is what the machines of a group of mode demand take; nil, or nil of a group: not known.
	Usage func(fleet.GroupID) *Usage
}

// Usage is what the machines of a group of mode demand take, as its bounds count it.
type Usage struct {
	Machines, Idle  int64
	VCPU, MemoryGiB int64 // rounded up
	GPUs            map[string]int64
	HourlyMicroUSD  int64
	Full            bool // its bounds leave no room for one more machine
	Shortfalls      int  // needs that lack something that its machines could be
}

// Groups is what a [Reader] asks about what the groups should be: the store of package groups.
type Groups interface {
	// Config is the configuration in force.
	Config() *effective.Config
	// Find returns what is known of a group that exists, be it blocked or deleted.
	Find(id fleet.GroupID) (*effective.Group, bool)
	// All yields every group, in no order.
	All() iter.Seq2[fleet.GroupID, *effective.Group]
	// PauseOf returns the pause that counts for a group now; false: none does.
	PauseOf(id fleet.GroupID, now time.Time) (groupfile.Pause, bool)
}

// Reader describes groups and instances. It is safe for concurrent use.
type Reader struct {
	Summaries Summaries // of the groups, as the loop leaves them

	opts Options

	mu        sync.Mutex
	described map[string]uint64 // descriptions of a tenant's groups made so far
}

// New returns a reader.
func New(opts Options) *Reader {
	return &Reader{opts: opts, described: map[string]uint64{}}
}

// next is the revision of the next description of a group of the tenant.
func (r *Reader) next(tenant string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.described[tenant]++
	return r.revision(r.described[tenant])
}

// revision makes a revision that also grows from one leader to the next, out of a count.
func (r *Reader) revision(n uint64) int64 { return int64(r.opts.Term<<40 + n) }

// ConfigDigest returns the digest of the tenant's part of the configuration that this term
// decides by.
func (r *Reader) ConfigDigest(tenant string) string {
	return r.opts.Groups.Config().DigestFor(tenant)
}

// FollowConfigDigest returns ConfigDigest for one watcher, made anew only for another
// configuration. The result is not safe for concurrent use.
func (r *Reader) FollowConfigDigest(tenant string) func() string {
	var of *effective.Config
	var digest string
	return func() string {
		if now := r.opts.Groups.Config(); now != of {
			of, digest = now, now.DigestFor(tenant)
		}
		return digest
	}
}

// ProviderURI is how other systems know a machine that the provider has, in the spec of its Node
// for one; unique over all shards.
func (r *Reader) ProviderURI(in cache.Instance) string {
	if d, ok := r.opts.Driver.(driver.URIer); ok {
		return d.ProviderURI(driver.Ref{InstanceID: in.ID, ProviderID: in.ProviderID})
	}
	return "nstance://" + r.opts.Shard + "/" + in.ID.String()
}
