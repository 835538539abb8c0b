package shard

import (
	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
	"nstance.dev/server/pki"
	"nstance.dev/server/sources"
	"nstance.dev/server/supply"
)

// newSupply is what brings the machines of a reign their files.
func newSupply(r *Reign) *supply.Supply {
	return supply.New(supply.Options{
		Shard: r.opts.Shard, Term: r.term, Store: r.opts.Store, Cache: r.cache,
		Sources: sources.New(sources.Options{
			Objects: r.opts.Store, Secrets: r.opts.Secrets, Now: r.opts.Now,
			From: func() bucket.FileSources { return r.wanted.config().FileSources() },
		}),
		Authority:  func() *pki.Authority { return r.opts.Keys().Authority },
		Describe:   r.describeSupply,
		Generation: r.wanted.generation.Load,
		Trouble: func(id identity.ID, group fleet.GroupID, text string) {
			r.events.failure(r.cache, group, id, "files", text, r.now())
		},
		Standing: r.Enqueue,
		Metrics:  r.opts.Metrics.supply, Log: r.log, Now: r.opts.Now,
	})
}

// describeSupply is what an instance is to have, and the data of its templates;
// false while that is not known, and for one that is deleted.
func (r *Reign) describeSupply(id identity.ID) (supply.Machine, bool) {
	rec, stored := r.instances.Record(id)
	row, ok := r.instances.Known(id)
	if !stored || !ok {
		return supply.Machine{}, false
	}
	d, ok := r.definition(row.Group, rec)
	if !ok {
		return supply.Machine{}, false
	}
	return supply.Machine{
		Group: row.Group, Config: d.Group, Certificates: d.Certificates, Data: r.templateData(rec, d.Group),
	}, true
}

// undelivered are the machines of a group that lack files.
func (r *Reign) undelivered(group fleet.GroupID) []decisions.Undelivered {
	var all []decisions.Undelivered
	for _, u := range r.files.Undelivered(group) {
		all = append(all, decisions.Undelivered{Instance: u.ID, Why: u.Why})
	}
	return all
}

// resupply tells the machines of a group that their files have changed.
func (r *Reign) resupply(group fleet.GroupID) {
	var ids []identity.ID
	for _, in := range r.cache.Group(group) {
		ids = append(ids, in.ID)
	}
	r.files.Changed(ids)
}
