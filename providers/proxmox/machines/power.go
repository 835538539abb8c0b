package machines

import (
	"context"
	"errors"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/server/driver"
)

// Power switches the machine of an instance on or off, or restarts it. An action that
// its node has accepted goes on when ctx ends.
func (all *Machines) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	if all.creates.Deleted(ref.InstanceID) {
		return api.Errorf(driver.Invalid, "%s was deleted", ref.InstanceID)
	}
	_, found, err := all.find(ctx, ref)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return api.Errorf(driver.NotFound, "no machine is called %s", ref.InstanceID)
	}
	m := found[0].VM
	vm, err := all.api.Current(ctx, m)
	if err != nil {
		return err
	}
	upid, err := all.switchTo(ctx, m, action, vm.Status == "running")
	if err != nil {
		return err
	}
	err = all.api.Wait(ctx, upid, nil)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil // accepted, and not over
	}
	return err
}

// PowerActions are all, for a machine that is not to be deleted.
func (all *Machines) PowerActions(ctx context.Context, ref driver.Ref) ([]driver.PowerAction, error) {
	if all.creates.Deleted(ref.InstanceID) {
		return nil, nil
	}
	_, found, err := all.find(ctx, ref)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, api.Errorf(driver.NotFound, "no machine is called %s", ref.InstanceID)
	}
	return driver.PowerActions(), nil
}

// switchTo begins an action; there may be nothing to do.
func (all *Machines) switchTo(ctx context.Context, m api.VM, action driver.PowerAction, runs bool) (pve.UPID, error) {
	switch {
	case action == driver.PowerOff && runs:
		return all.api.Shutdown(ctx, m, longestGrace)
	case action == driver.PowerOffHard && runs:
		return all.api.Stop(ctx, m)
	case action == driver.PowerOff, action == driver.PowerOffHard, action == driver.PowerOn && runs:
		return "", nil
	case action == driver.PowerReboot && !runs:
		return "", api.Errorf(driver.Invalid, "the machine does not run")
	case action == driver.PowerReboot:
		return all.api.Reboot(ctx, m)
	case action == driver.PowerCycle && runs:
		return all.api.Reset(ctx, m)
	}
	return all.api.Start(ctx, m)
}
