package demandmode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/agents"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/provisioning"
)

// Launcher makes machines. [provisioning.Launcher] is one.
type Launcher interface {
	Buy(ctx context.Context, id identity.ID, eff *effective.Group, p provisioning.Purchase) error
}

// Removals end instances. [removal.Remover] is one.
type Removals interface {
	Condemn(ctx context.Context, a fleet.Condemn) error
	// Retire condemns an instance that works, with the drain of its group.
	Retire(ctx context.Context, id identity.ID, reason fleet.Reason, why string) error
}

// Agents are those of the machines. [agents.Service] is one.
type Agents interface {
	JoinCluster(id identity.ID, j binding.Join) error
	LeaveCluster(id identity.ID, name string) error
	// RepeatBindings says again, by Greeted and Binding of the mode, which agents are connected and what they have reported.
	RepeatBindings()
}

// records are the instances of the shard.
type records struct {
	*instances.Store
	rows *cache.Cache
}

// All implements [demandloop.Records].
func (r records) All() []cache.Instance {
	all := r.rows.All()
	kept := all[:0:0]
	for i := range all {
		if all[i].State != fleet.Deleted {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// machines are the effects of the loop.
type machines struct {
	opts    Options
	refused func(identity.ID, demand.Failure) // says why a machine is not made, before its instance ends
}

// errGroup says that a group cannot be bought from any more.
var errGroup = errors.New("the group does not exist, or is blocked")

// Launch implements [demandloop.Machines].
func (m machines) Launch(ctx context.Context, p demandloop.Purchase) error {
	eff, ok := m.opts.Groups.Effective(p.Source.Group)
	if !ok || eff.Demand == nil || eff.Deleted || eff.Blocked != "" {
		return &demandloop.LaunchError{Failure: demand.FailureOther, Err: fmt.Errorf("%s: %w", p.Source.Group, errGroup)}
	}
	err := m.opts.Launcher.Buy(ctx, p.ID, eff, provisioning.Purchase{
		InstanceType: p.Source.InstanceType, CapacityType: driver.CapacityType(p.Source.CapacityType), Reservation: p.Source.Reservation,
		Binding: p.Binding, Join: string(p.UserData),
		Refused: func(class driver.ErrorClass) { m.refused(p.ID, failureOf(class)) },
	})
	if failed := (*driver.Error)(nil); errors.As(err, &failed) {
		return &demandloop.LaunchError{Failure: failureOf(failed.Class), Err: err}
	}
	return err
}

// Condemn implements [demandloop.Machines].
func (m machines) Condemn(ctx context.Context, id identity.ID, reason fleet.Reason, why string) error {
	if reason == fleet.ReasonExpired || reason == fleet.ReasonConfigDrift {
		return m.opts.Removals.Retire(ctx, id, reason, why)
	}
	return m.opts.Removals.Condemn(ctx, fleet.Condemn{ID: id, Reason: reason, Why: why})
}

// Join implements [demandloop.Machines].
func (m machines) Join(id identity.ID, join binding.Join) error {
	return said(m.opts.Agents.JoinCluster(id, join))
}

// Leave implements [demandloop.Machines].
func (m machines) Leave(id identity.ID, name string) error {
	return said(m.opts.Agents.LeaveCluster(id, name))
}

// said is an error of the agents in the words of the loop.
func said(err error) error {
	switch {
	case errors.Is(err, agents.ErrNotConnected):
		return demandloop.ErrNotConnected
	case errors.Is(err, agents.ErrNoCapability):
		return demandloop.ErrNoCapability
	case errors.Is(err, agents.ErrStreamFull):
		return demandloop.ErrStreamFull
	default:
		return err
	}
}

// random is a name that never comes again.
func random() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // it does not fail
	return hex.EncodeToString(raw[:])
}
