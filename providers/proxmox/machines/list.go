package machines

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/cluster"
	"nstance.dev/providers/proxmox/metadata"
	"nstance.dev/server/driver"
)

// looks is how many nodes are asked at once.
const looks = 8

// List returns the machines of an owner. What the list of the cluster says of one that
// runs is some seconds old; one that does not is asked for at its node, because it may
// have been started since. Only what that costs a call for has the display fields.
func (all *Machines) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	underway := all.creates.Underway(owner) // first: one that is done meanwhile is in the list
	c, err := all.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	ours, err := all.owned(ctx, c, owner)
	if err != nil {
		return nil, err
	}
	list, err := all.statuses(ctx, c, ours)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(underway)) {
		listed := slices.ContainsFunc(ours, func(s cluster.Machine) bool { return s.ID() == id })
		if m, making := all.beingMade(id); making && !listed {
			list = append(list, m)
		}
	}
	return list, nil
}

func (all *Machines) owned(ctx context.Context, c cluster.State, owner driver.Owner) ([]cluster.Machine, error) {
	var ours []cluster.Machine
	for _, s := range c.Machines {
		made, err := all.recognise(ctx, c, &s)
		if err != nil {
			return nil, err
		}
		if made && metadata.OwnedBy(s.Tags, owner) {
			ours = append(ours, s)
		}
	}
	return ours, nil
}

// statuses are the machines with their state; one that has gone meanwhile is left out.
func (all *Machines) statuses(ctx context.Context, c cluster.State, ours []cluster.Machine) ([]driver.Machine, error) {
	machines, gone := make([]driver.Machine, len(ours)), make([]bool, len(ours))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looks)
	for i, s := range ours {
		if status := cluster.StatusOf(s.Status, s.Lock); status == driver.Running || status == driver.Suspended {
			machines[i] = driver.Machine{
				InstanceID: s.ID(), RawID: s.Name, ProviderID: s.ProviderID(),
				Hostname: s.Name, Status: all.shown(s.ID(), status),
			}
			continue
		}
		g.Go(func() (err error) {
			machines[i], err = all.look(ctx, c, s)
			if gone[i] = api.KindOf(err) == driver.NotFound; gone[i] {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	list := make([]driver.Machine, 0, len(ours))
	for i, m := range machines {
		if !gone[i] {
			list = append(list, m)
		}
	}
	return list, nil
}
