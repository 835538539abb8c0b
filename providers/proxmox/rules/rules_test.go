package rules

import (
	"testing"

	"nstance.dev/server/driver"
)

// A tag of Proxmox VE has no value: a name must not read like one of the others.
func TestS4_NamesThatReadLikeTags(t *testing.T) {
	for name, refused := range map[string]bool{
		"nstance": true, "nstance-s-rack": true, "nstance-c-prod": true, "nstance-i-knc": true,
		"prod": false, "nstance-prod": false, "nstance-s": false,
	} {
		for _, owner := range []driver.Owner{{Cluster: name, Shard: "s"}, {Cluster: "c", Shard: name}} {
			if got := len(New().CheckOwner(owner)) > 0; got != refused {
				t.Errorf("%+v: refused %t, want %t", owner, got, refused)
			}
		}
	}
}
