// Package machines finds, lists, switches and ends the machines of a cluster.
//
// A machine's name is its instance id; its number says where it is and may be given out
// again, so every call looks for the machine again. What a create of this process has in
// flight counts too, see [Creates]: a clone does not show in the cluster's list at once.
package machines

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/server/driver"
)

// Machines are those of one cluster. Make it with [New]. Methods are safe for concurrent
// use; that one call at a time changes a machine, the caller sees to.
type Machines struct {
	api        *api.Client
	creates    Creates
	isoStorage string // of the machines' CDs
	log        *slog.Logger
	now        func() time.Time
}

// Creates is what this process remembers of the creates that it has in flight.
type Creates interface {
	// Deleted reports whether an instance was to be deleted, in the last hour.
	Deleted(id identity.ID) bool
	// Making reports whether a clone was asked for whose create has not ended.
	Making(id identity.ID) bool
	// Made reports whether a machine of that id was made there, a short while ago.
	Made(id identity.ID, m api.VM) bool
	// InFlight returns where a machine will be that is being made; false if none is.
	InFlight(id identity.ID) (api.VM, bool)
	// Underway returns the machines of an owner that are being made, by id.
	Underway(owner driver.Owner) map[identity.ID]api.VM
}

// New returns the machines behind an API. It asks nothing. isoStorage is the
// storage of the machines' CDs.
func New(client *api.Client, creates Creates, isoStorage string, log *slog.Logger, now func() time.Time) *Machines {
	return &Machines{api: client, creates: creates, isoStorage: isoStorage, log: log, now: now}
}

// Get returns the machine that ref means as its node sees it now, or an error of class
// NotFound.
func (all *Machines) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	c, found, err := all.find(ctx, ref)
	if err != nil {
		return driver.Machine{}, err
	}
	for _, s := range found {
		m, err := all.look(ctx, c, s)
		if api.KindOf(err) == driver.NotFound {
			continue // gone, or away, since it was listed
		}
		return m, err
	}
	if m, ok := all.beingMade(ref.InstanceID); ok {
		return m, nil
	}
	return driver.Machine{}, api.Errorf(driver.NotFound, "no machine is called %s", nameOf(ref))
}

func nameOf(ref driver.Ref) string {
	if ref.InstanceID != "" {
		return string(ref.InstanceID)
	}
	return "no. " + ref.ProviderID
}

// beingMade is a machine whose clone was asked for and does not show.
func (all *Machines) beingMade(id identity.ID) (driver.Machine, bool) {
	m, making := all.creates.InFlight(id)
	if !making {
		return driver.Machine{}, false
	}
	return driver.Machine{InstanceID: id, RawID: string(id), ProviderID: m.ProviderID(), Status: driver.Pending, Hostname: string(id)}, true
}
