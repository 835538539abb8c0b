package instances

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/api"
	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
)

const opDelete = "delete"

// Delete begins the end of a machine and does not wait for it.
func (in *Instances) Delete(ctx context.Context, ref driver.Ref) error {
	if err := api.Begin(ctx, opDelete); err != nil {
		return err
	}
	name, err := api.NameOf(opDelete, ref)
	if err != nil {
		return err
	}
	if err := in.recognize(ctx, ref); err != nil {
		return err
	}
	if id, err := identity.ParseID(name); err == nil {
		in.ended.add(id, in.now()) // before the call: a create on its way must see it
	}
	return in.delete(ctx, name)
}

// recognize refuses to end a machine of another name whose label is not the
// instance id that is meant.
func (in *Instances) recognize(ctx context.Context, ref driver.Ref) error {
	if ref.InstanceID == "" || ref.ProviderID == "" || ref.ProviderID == string(ref.InstanceID) {
		return nil
	}
	m, err := in.get(ctx, opDelete, ref.ProviderID)
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

func (in *Instances) delete(ctx context.Context, name string) error {
	if !rules.ResourceName.MatchString(name) {
		return nil // no machine has such a name
	}
	_, err := in.api.Instances.Delete(ctx, &computepb.DeleteInstanceRequest{Project: in.api.Project, Zone: in.api.Zone, Instance: name})
	switch {
	case err == nil:
		return nil
	case api.ReasonOf(err) == api.ReasonNotReady:
		return in.refused(ctx, name, err)
	}
	if err = api.Fail(opDelete, api.Writes, err); driver.ClassOf(err) == driver.MissingRef {
		return nil
	}
	return err
}

// refused says whether a machine that is not ready for a delete is so because it
// is being deleted.
func (in *Instances) refused(ctx context.Context, name string, because error) error {
	inst, err := in.api.Fetch(ctx, opDelete, name)
	if err != nil {
		if driver.IsNotFound(err) {
			return nil
		}
		return err
	}
	deletes, err := in.api.Deletions(ctx, inst.GetId())
	if err != nil {
		return api.Fail(opDelete, api.Reads, err)
	}
	if slices.ContainsFunc(deletes, api.InProgress) {
		return nil
	}
	return api.Fail(opDelete, api.Writes, because)
}
