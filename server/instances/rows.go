package instances

import (
	"cmp"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// GroupOf is the group of a record's instance.
func GroupOf(rec layout.InstanceRecord) fleet.GroupID {
	return fleet.GroupID{Tenant: rec.Tenant, Name: rec.Group}
}

// RowOf is what a record alone says of an instance. Whether there is a VM, and
// how it is, comes from the provider and the agent.
func RowOf(rec layout.InstanceRecord) cache.Instance {
	row := cache.Instance{
		Instance: fleet.Instance{
			ID: rec.ID, Group: GroupOf(rec), OnDemand: rec.OnDemand, State: fleet.Pending, Created: rec.CreatedAt.Time,
			InfraHash: rec.InfraHash,
		},
		Kind: rec.Kind, Template: rec.Template, InstanceType: rec.InstanceType, Arch: rec.Arch,
		SubnetPool: rec.SubnetPool, SubnetID: rec.SubnetID,
		Provider: rec.Provider, Overrides: rec.Overrides, ImageID: rec.ImageID,
	}
	copyMutable(&row, rec)
	switch {
	case rec.Deletion != nil:
		row.Removal = RemovalOf(rec.Deletion)
		row.Replacement = rec.Deletion.ReplacementID
		row.State = fleet.Condemned
		if !row.Removal.DrainStarted.IsZero() {
			row.State = fleet.Draining
		}
		row.UnhealthyAt = rec.Deletion.RequestedAt.Time
		if gone := rec.Deletion.GoneAt; !gone.IsZero() {
			row.State, row.Power, row.DeletedAt = fleet.Deleted, fleet.Gone, gone.Time
		}
	case rec.Status == layout.StatusRegistered:
		row.State, row.Power = fleet.Running, fleet.Up
	case rec.ProviderID != "":
		row.State, row.Power = fleet.Provisioning, fleet.Up
	}
	return row
}

// follow brings a row up to a record that has changed from what it was, and says what that
// means for the instance. What the provider shows of an instance that has not registered may
// be newer than its record.
func follow(in *cache.Instance, was, rec layout.InstanceRecord) (Event, error) {
	if in.State == fleet.Deleted {
		return 0, nil
	}
	before := *in
	copyMutable(in, rec)
	switch d := rec.Deletion; {
	case d == nil && was.Deletion != nil:
		return RemovalCancelled, restore(in)
	case d != nil && !d.GoneAt.IsZero():
		return Ended, end(in, fleet.EventGone, d.GoneAt.Time)
	case d != nil:
		if err := condemn(in, RemovalOf(d)); err != nil {
			return 0, err
		}
		if !before.State.Leaving() || !in.Removal.DeleteAt.Equal(before.Removal.DeleteAt) {
			return Condemned, nil
		}
	case before.RegisteredAt.IsZero() && !rec.RegisteredAt.IsZero():
		return Registered, noteRegistered(in)
	}
	return Updated, nil
}

// copyMutable brings into a row what changes in a record during a life, but for
// the state.
func copyMutable(row *cache.Instance, rec layout.InstanceRecord) {
	row.ProviderID = cmp.Or(rec.ProviderID, row.ProviderID)
	if rec.RegisteredAt.IsZero() {
		row.Hostname, row.IPv4, row.IPv6 = cmp.Or(row.Hostname, rec.Hostname), cmp.Or(row.IPv4, rec.IPv4), cmp.Or(row.IPv6, rec.IPv6)
	} else {
		row.Hostname, row.IPv4, row.IPv6 = rec.Hostname, rec.IPv4, rec.IPv6
	}
	row.NonceSHA256, row.NonceExpires = rec.NonceSHA256, rec.NonceExpires.Time
	row.RegisteredAt = rec.RegisteredAt.Time
	row.Machine, row.Hold = machineOf(rec), HoldOf(rec.Hold)
	if rec.Certificate.Serial != "" { // an adopted instance's is learnt before it is recorded
		row.PublicKeyPEM = rec.PublicKeyPEM
		row.CertSerial, row.PrevSerial = rec.Certificate.Serial, rec.Certificate.PreviousSerial
		row.CertNotAfter = rec.Certificate.NotAfter.Time
	}
	if rec.Replace != nil {
		row.ReplaceFirst, row.SkipDrain = true, row.SkipDrain || rec.Replace.SkipDrain
	}
}

// machineOf is what a record says of the node machine on its instance.
func machineOf(rec layout.InstanceRecord) cache.Machine {
	m := cache.Machine{On: rec.Machine}
	switch b := rec.Binding; {
	case !m.On, b == nil && rec.Purchase == nil && rec.Served == "" && rec.Failed == nil:
	case b == nil, b.State == layout.BindingIntent, b.Cluster != rec.Tenant:
		m.Binding = IdleMachine
	default:
		m.Binding = string(b.State)
	}
	return m
}

// IdleMachine is the binding of a machine that serves no cluster and that demand mode made, or has bound before.
const IdleMachine = "idle"

// condemn moves a row to condemned, and on to draining if its removal says so. In one that
// is leaving it brings the removal up to date.
func condemn(in *cache.Instance, removal fleet.Removal) error {
	if in.State.Leaving() {
		in.Removal = removal
		return nil
	}
	state, err := in.State.On(fleet.EventCondemned)
	if err != nil {
		return err
	}
	if !removal.DrainStarted.IsZero() {
		if state, err = state.On(fleet.EventDrainStarted); err != nil {
			return err
		}
	}
	in.State, in.Removal = state, removal
	if in.UnhealthyAt.IsZero() {
		in.UnhealthyAt = removal.RequestedAt
	}
	return nil
}

// restore takes back a condemnation.
func restore(in *cache.Instance) error {
	state, err := in.State.On(fleet.EventReconsidered)
	if err != nil {
		return err
	}
	in.State, in.Removal, in.UnhealthyAt = state, fleet.Removal{}, time.Time{}
	return nil
}

// noteRegistered notes in a row that the instance's agent has registered (again): it is well.
func noteRegistered(in *cache.Instance) error {
	state, err := in.State.On(fleet.EventRegistered)
	if err != nil {
		return err
	}
	in.State, in.Power, in.Verdict, in.UnhealthyAt = state, fleet.Up, "", time.Time{}
	return nil
}

// end notes in a row that there is no machine any more.
func end(in *cache.Instance, event fleet.Event, at time.Time) error {
	state, err := in.State.On(event)
	if err != nil || in.State == state {
		return err
	}
	in.State, in.Power, in.DeletedAt = state, fleet.Gone, at
	return nil
}

// HoldOf is what a record says of its instance's hold.
func HoldOf(h *layout.Hold) fleet.Hold {
	if h == nil {
		return fleet.Hold{}
	}
	return fleet.Hold{Reason: fleet.HoldReason(h.Reason), Since: h.Since.Time, Until: h.Until.Time}
}

// RemovalOf is what a record says of its instance's removal.
func RemovalOf(d *layout.Deletion) fleet.Removal {
	return fleet.Removal{
		Reason: fleet.Reason(d.Reason), RequestedAt: d.RequestedAt.Time,
		DrainStarted: d.DrainStartedAt.Time, DeleteAt: d.DeleteAt.Time, Acked: !d.DrainAckedAt.IsZero(),
	}
}
