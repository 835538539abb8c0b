package store

import (
	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Resolve returns the instance id in ref; for machines of this provider the
// provider id is the same.
func Resolve(op string, ref driver.Ref) (identity.ID, error) {
	name := string(ref.InstanceID)
	if name == "" {
		name = ref.ProviderID
	}
	id, err := identity.ParseID(name)
	if err != nil {
		return "", driver.Fail(driver.Invalid, op, err)
	}
	return id, nil
}
