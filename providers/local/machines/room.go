package machines

import (
	"context"
	"fmt"

	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// CheckSubnet returns how many machines still fit where the option room names
// the subnet; any other is unlimited.
func (all *Machines) CheckSubnet(ctx context.Context, subnet string) (int, error) {
	room, limited := all.opts.Room[subnet]
	if !limited {
		if err := ctx.Err(); err != nil {
			return 0, driver.Fail(driver.Transient, "check-subnet", err)
		}
		return -1, nil
	}
	taken := 0
	err := all.store.Every(ctx, func(_ string, meta store.Metadata) error {
		if meta.SubnetID == subnet {
			taken++
		}
		return nil
	})
	if err != nil {
		return 0, driver.Fail(driver.Transient, "check-subnet", err)
	}
	return max(room-taken, 0), nil
}

// settle lays out a machine where there is room for it.
func (all *Machines) settle(ctx context.Context, req driver.CreateRequest) error {
	if _, limited := all.opts.Room[req.SubnetID]; limited {
		all.placing.Lock()
		defer all.placing.Unlock()
		switch free, err := all.CheckSubnet(ctx, req.SubnetID); {
		case err != nil:
			return err
		case free == 0:
			return driver.Fail(driver.Capacity, "create", fmt.Errorf("subnet %q has no room", req.SubnetID))
		}
	}
	if err := all.store.Build(req); err != nil {
		return driver.Fail(driver.Transient, "create", err)
	}
	return nil
}
