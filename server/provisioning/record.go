package provisioning

import (
	"encoding/json"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/layout"
	"nstance.dev/server/pki"
	"nstance.dev/server/userdata"
)

// builder makes the record of a new instance, and its create call.
type builder struct {
	opts   Options
	images func() map[string]string // by key, those that are known
}

// record makes the record of a new instance and its nonce.
func (d *builder) record(id identity.ID, eff *effective.Group, s *launchInputs, req Request) (layout.InstanceRecord, string, error) {
	now := d.opts.Now()
	ttl := d.nonceTTL()
	owner := d.opts.Owner
	token, err := d.opts.Keys().Nonces.Sign(identity.NonceClaims{
		Kind: identity.NonceAgent, Subject: id.String(), ClusterID: owner.Cluster, Tenant: eff.Tenant,
		Shard: owner.Shard, Group: eff.Key, OnDemand: req.OnDemand, ConfigHash: eff.RuntimeHash,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), ExpiresAt: now.Add(ttl).Unix(),
	})
	if err != nil {
		return layout.InstanceRecord{}, "", fmt.Errorf("nonce for %s: %w", id, err)
	}
	rec := layout.InstanceRecord{
		ID: id, Tenant: eff.Tenant, ClusterID: owner.Cluster, Shard: owner.Shard,
		Group: eff.Key, Template: eff.Template, Kind: eff.Kind, OnDemand: req.OnDemand,
		InstanceType: s.claim.Offering.Type, Arch: eff.Arch, SubnetPool: eff.SubnetPool, SubnetID: s.claim.Offering.Subnet,
		InfraHash: eff.InfraHash, Status: layout.StatusPending, CreatedAt: layout.At(now), Replaces: req.Replaces,
		Machine: eff.Machine != nil,
		ImageID: s.imageID, GroupEntry: d.opts.Groups.EntryToKeep(eff, req.OnDemand),
		Provider: d.opts.Groups.Config().Server.Provider.Kind, NonceSHA256: pki.HashNonce(token), NonceExpires: layout.At(now.Add(ttl)),
	}
	if s.userdata != nil {
		rec.UserdataSHA256 = userdata.Hash(s.userdata)
	}
	if p := req.purchase; p != nil {
		rec.Binding = p.Binding
		if p.CapacityType != "" {
			rec.Purchase = &layout.Purchase{CapacityType: string(p.CapacityType), Reservation: p.Reservation}
		}
	}
	if req.OnDemand {
		if rec.Overrides, err = json.Marshal(req.Overrides); err != nil {
			return rec, "", fmt.Errorf("overrides of %s: %w", id, err)
		}
	}
	return rec, token, nil
}

// nonceTTL is how long the nonce of a new machine lives. It is made before the machine is
// asked for, and cannot be renewed in it.
func (d *builder) nonceTTL() time.Duration {
	server := d.opts.Groups.Config().Server
	if ttl := server.Registration.NonceTTL.Std(); ttl > 0 {
		return ttl
	}
	ttl := server.GarbageCollection.RegistrationTimeout.Std()
	if d.opts.LongestCreate != nil {
		ttl += d.opts.LongestCreate()
	}
	return ttl
}

// staleAt is when half of the time is over that an instance has to register.
func staleAt(rec layout.InstanceRecord) time.Time {
	return rec.CreatedAt.Add(rec.NonceExpires.Sub(rec.CreatedAt.Time) / 2)
}

// FillAddresses notes what the provider says of a machine's place. What a
// registered agent has reported is not overruled.
func FillAddresses(rec *layout.InstanceRecord, m driver.Machine) {
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
