package gcp

import (
	"context"
	"fmt"

	"nstance.dev/server/driver"
)

// self is the machine that this server runs on.
type self struct{ zone, name string }

// SelfID returns the name of the machine that this server runs on, or its path if
// it is in another zone. The error is of kind Transient if the metadata server
// does not answer, as outside of Google's cloud.
func (d *Driver) SelfID(ctx context.Context) (string, error) {
	const op = "self-id"
	if err := begin(ctx, op); err != nil {
		return "", err
	}
	me, err := d.self(ctx, op)
	if err != nil {
		return "", err
	}
	if me.zone == d.zone {
		return me.name, nil
	}
	return "zones/" + me.zone + "/instances/" + me.name, nil
}

func (d *Driver) self(ctx context.Context, op string) (self, error) {
	name, err := d.metadata.GetWithContext(ctx, "instance/name")
	if err != nil {
		return self{}, driver.Fail(driver.Transient, op, fmt.Errorf("which machine this is: %w", err))
	}
	zone, err := d.metadata.GetWithContext(ctx, "instance/zone") // projects/{number}/zones/{zone}
	if err != nil {
		return self{}, driver.Fail(driver.Transient, op, fmt.Errorf("which zone this is: %w", err))
	}
	return self{zone: baseName(zone), name: name}, nil
}
