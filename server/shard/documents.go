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

func groupOf(rec bucket.InstanceRecord) fleet.GroupID {
	return fleet.GroupID{Tenant: rec.Tenant, Name: rec.Group}
}

// rowOf is what a record alone says of an instance. Whether there is a VM, and
// how it is, comes from the provider and the agent.
func rowOf(rec bucket.InstanceRecord) cache.Instance {
	row := cache.Instance{
		Instance: fleet.Instance{
			ID: rec.ID, Group: groupOf(rec), OnDemand: rec.OnDemand, State: fleet.Pending, Created: rec.CreatedAt.Time,
			InfraHash: rec.InfraHash,
		},
		Kind: rec.Kind, Template: rec.Template, InstanceType: rec.InstanceType, Arch: rec.Arch,
		SubnetPool: rec.SubnetPool, SubnetID: rec.SubnetID,
		Provider: rec.Provider, Overrides: rec.Overrides, ImageID: rec.ImageID,
	}
	copyMutable(&row, rec)
	if rec.Replace != nil {
		row.ReplaceFirst, row.SkipDrain = true, rec.Replace.SkipDrain
	}
	switch {
	case rec.Deletion != nil:
		row.Removal = removalOf(rec.Deletion)
		row.Replacement = rec.Deletion.ReplacementID
		row.State = fleet.Condemned
		if !row.Removal.DrainStarted.IsZero() {
			row.State = fleet.Draining
		}
		row.UnhealthyAt = rec.Deletion.RequestedAt.Time
		if gone := rec.Deletion.GoneAt; !gone.IsZero() {
			row.State, row.Power, row.DeletedAt = fleet.Deleted, fleet.Gone, gone.Time
		}
	case rec.Status == bucket.StatusRegistered:
		row.State, row.Power = fleet.Running, fleet.Up
	case rec.ProviderID != "":
		row.State, row.Power = fleet.Provisioning, fleet.Up
	}
	return row
}

// copyMutable brings into a row what changes in a record during a life, but for
// the state.
func copyMutable(row *cache.Instance, rec bucket.InstanceRecord) {
	if rec.ProviderID != "" {
		row.ProviderID = rec.ProviderID
	}
	row.Hostname, row.IPv4, row.IPv6 = rec.Hostname, rec.IPv4, rec.IPv6
	row.NonceSHA256, row.NonceExpires = rec.NonceSHA256, rec.NonceExpires.Time
	row.PublicKeyPEM = rec.PublicKeyPEM
	row.CertSerial, row.PrevSerial = rec.Certificate.Serial, rec.Certificate.PreviousSerial
	row.CertNotAfter = rec.Certificate.NotAfter.Time
	row.RegisteredAt = rec.RegisteredAt.Time
}

// mirror brings a record's new version into its row. An agent may have registered
// since that version was written, and its own version have come here first.
func (r *Reign) mirror(rec bucket.InstanceRecord) {
	_, err := r.cache.Update(rec.ID, func(in *cache.Instance) error {
		if rec.RegisteredAt.IsZero() && !in.RegisteredAt.IsZero() {
			return nil
		}
		copyMutable(in, rec)
		return nil
	})
	if err != nil {
		r.log.Warn("row of a record not updated", "instance", rec.ID, "error", err)
	}
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

func removalOf(d *bucket.Deletion) fleet.Removal {
	return fleet.Removal{
		Reason: fleet.Reason(d.Reason), RequestedAt: d.RequestedAt.Time,
		DrainStarted: d.DrainStartedAt.Time, DeleteAt: d.DeleteAt.Time, Acked: !d.DrainAckedAt.IsZero(),
	}
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
