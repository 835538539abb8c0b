package gcp

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
)

const opDelete = "delete"

// Delete begins the end of a machine and does not wait for it.
func (d *Driver) Delete(ctx context.Context, ref driver.Ref) error {
	if err := begin(ctx, opDelete); err != nil {
		return err
	}
	name, err := nameOf(opDelete, ref)
	if err != nil {
		return err
	}
	if err := d.recognize(ctx, ref); err != nil {
		return err
	}
	if id, err := identity.ParseID(name); err == nil {
		d.ended.add(id, d.opts.Now()) // before the call: a create on its way must see it
	}
	return d.delete(ctx, name)
}

// recognize refuses to end a machine of another name whose label is not the
// instance id that is meant.
func (d *Driver) recognize(ctx context.Context, ref driver.Ref) error {
	if ref.InstanceID == "" || ref.ProviderID == "" || ref.ProviderID == string(ref.InstanceID) {
		return nil
	}
	m, err := d.get(ctx, opDelete, ref.ProviderID)
	switch {
	case driver.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case m.RawID != string(ref.InstanceID):
		return driver.Fail(driver.Invalid, opDelete, fmt.Errorf("machine %s is labelled %q, not %s", ref.ProviderID, m.RawID, ref.InstanceID))
	}
	return nil
}

func (d *Driver) delete(ctx context.Context, name string) error {
	if !rules.ResourceName.MatchString(name) {
		return nil // no machine has such a name
	}
	_, err := d.api.instances.Delete(ctx, &computepb.DeleteInstanceRequest{Project: d.project, Zone: d.zone, Instance: name})
	switch {
	case err == nil:
		return nil
	case reasonOf(err) == reasonNotReady:
		return d.refused(ctx, name, err)
	}
	if err = fail(opDelete, writes, err); driver.KindOf(err) == driver.MissingRef {
		return nil
	}
	return err
}

// refused says whether a machine that is not ready for a delete is so because it
// is being deleted.
func (d *Driver) refused(ctx context.Context, name string, because error) error {
	inst, err := d.fetch(ctx, opDelete, name)
	if err != nil {
		if driver.IsNotFound(err) {
			return nil
		}
		return err
	}
	deletes, err := d.deletions(ctx, inst.GetId())
	if err != nil {
		return fail(opDelete, reads, err)
	}
	if slices.ContainsFunc(deletes, goesOn) {
		return nil
	}
	return fail(opDelete, writes, because)
}
