package shard

import (
	"encoding/json"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/placement"
)

// newRecord is the record of an instance that is to be made.
func newRecord(id identity.ID, opts Options, eff *config.EffectiveGroup, place placement.Offering, extra launchOptions, now time.Time) (bucket.InstanceRecord, error) {
	rec := bucket.InstanceRecord{
		ID: id, Tenant: eff.Tenant, ClusterID: opts.Cluster, Shard: opts.Shard,
		Group: eff.Key, Template: eff.Template, Kind: eff.Kind, OnDemand: extra.onDemand,
		InstanceType: place.Type, Arch: eff.Arch, SubnetPool: eff.SubnetPool, SubnetID: place.Subnet,
		InfraHash: eff.InfraHash, Status: bucket.StatusPending, CreatedAt: bucket.At(now), Replaces: extra.replaces,
	}
	if extra.onDemand {
		overrides, err := json.Marshal(extra.overrides)
		if err != nil {
			return rec, fmt.Errorf("overrides of %s: %w", id, err)
		}
		rec.Overrides = overrides
	}
	return rec, nil
}

func deletionOf(a fleet.Condemn, replacement identity.ID, now time.Time) *bucket.Deletion {
	d := &bucket.Deletion{
		Reason: string(a.Reason), RequestedAt: bucket.At(now), DeleteAt: bucket.At(a.DeleteAt), ReplacementID: replacement,
	}
	if a.Drain {
		d.DrainStartedAt = bucket.At(now)
	}
	return d
}

// fillAddresses notes what the provider says of a machine's place. What a
// registered agent has reported is not overruled.
func fillAddresses(rec *bucket.InstanceRecord, m driver.Machine) {
	if !rec.RegisteredAt.IsZero() {
		return
	}
	if m.Hostname != "" {
		rec.Hostname = m.Hostname
	}
	if m.IPv4.IsValid() {
		rec.IPv4 = m.IPv4.String()
	}
	if m.IPv6.IsValid() {
		rec.IPv6 = m.IPv6.String()
	}
}

func fillRowAddresses(in *cache.Instance, m driver.Machine) {
	if m.Hostname != "" {
		in.Hostname = m.Hostname
	}
	if m.IPv4.IsValid() {
		in.IPv4 = m.IPv4.String()
	}
	if m.IPv6.IsValid() {
		in.IPv6 = m.IPv6.String()
	}
}
