package shard

import "nstance.dev/server/catalog"

// typeListing is how the catalogue of machine types is kept: groups are shown with what
// their machines offer.
func (r *Reign) typeListing() catalog.Listing {
	return catalog.Listing{
		List: r.provider.ListTypes, Over: r.stumble, Now: r.now, Log: r.log,
		Changed: func() {
			for id := range r.wanted.all() {
				r.publishGroup(id)
			}
		},
	}
}
