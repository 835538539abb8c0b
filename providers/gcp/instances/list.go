package instances

import (
	"context"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// Get returns the machine of a name.
func (in *Instances) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	const op = "get"
	if err := api.Begin(ctx, op); err != nil {
		return driver.Machine{}, err
	}
	name, err := api.NameOf(op, ref)
	if err != nil {
		return driver.Machine{}, err
	}
	return in.get(ctx, op, name)
}

func (in *Instances) get(ctx context.Context, op, name string) (driver.Machine, error) {
	inst, err := in.api.Fetch(ctx, op, name)
	if err != nil {
		return driver.Machine{}, err
	}
	return machineOf(in.api.Place, inst), nil
}

// List returns the machines with the owner's labels.
func (in *Instances) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	const op = "list"
	if err := api.Begin(ctx, op); err != nil {
		return nil, err
	}
	var machines []driver.Machine
	err := in.api.Each(ctx, op, in.api.Zone, ownerFilter(owner), func(inst *computepb.Instance) {
		if owned(inst.GetLabels(), owner) {
			machines = append(machines, machineOf(in.api.Place, inst))
		}
	})
	if err != nil {
		return nil, err
	}
	return machines, nil
}
