package api

import (
	"context"
	"errors"

	"nstance.dev/server/driver"
)

// Begin refuses a call that is given up before it begins.
func Begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	return nil
}

// NameOf is the name of a machine: its provider id, else its instance id. The error is of class
// Invalid if there is neither.
func NameOf(op string, ref driver.Ref) (string, error) {
	switch {
	case ref.ProviderID != "":
		return ref.ProviderID, nil
	case ref.InstanceID != "":
		return string(ref.InstanceID), nil
	}
	return "", driver.Fail(driver.Invalid, op, errors.New("neither an instance id nor a provider id is given"))
}
