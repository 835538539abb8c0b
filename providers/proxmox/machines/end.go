package machines

import (
	"context"
	"fmt"
	"strings"
	"time"

	pve "github.com/luthermonson/go-proxmox"
	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/cluster"
	"nstance.dev/providers/proxmox/seed"
	"nstance.dev/server/driver"
)

// End ends the machine of an instance, and removes its CD: its system is asked to, then it
// is switched off and destroyed with its disks. There may be none. A call whose time runs
// out is gone on with by the next one.
func (all *Machines) End(ctx context.Context, ref driver.Ref) error {
	c, destroyed, err := all.Sweep(ctx, ref, graceOf(ctx, all.now()))
	if err != nil || destroyed {
		return err
	}
	return all.clear(ctx, c, ref.InstanceID)
}

// Sweep destroys the machine of an instance, and looks again whether the cluster has
// one still: it may have moved to another node meanwhile. c is the cluster as it was
// seen last.
func (all *Machines) Sweep(ctx context.Context, ref driver.Ref, grace time.Duration) (c cluster.State, destroyed bool, err error) {
	for range endTries {
		var found []cluster.Machine
		c, found, err = all.find(ctx, ref)
		if err != nil || len(found) == 0 {
			return c, destroyed, err
		}
		for _, s := range found {
			if !c.Online[s.Node] {
				return c, destroyed, api.Errorf(driver.Transient, "machine %s: its node is away", s.VM)
			}
			if err := all.destroy(ctx, s.VM, ref.InstanceID, grace); err != nil {
				return c, destroyed, fmt.Errorf("machine %s: %w", s.VM, err)
			}
			destroyed = true
		}
	}
	return c, destroyed, errStays
}

// clear removes the CD of an instance that has no machine, wherever it may lie: a
// machine that somebody destroyed by hand leaves it behind.
func (all *Machines) clear(ctx context.Context, c cluster.State, id identity.ID) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looks)
	for _, node := range c.Places(all.isoStorage) {
		g.Go(func() error { return all.RemoveISO(ctx, node, seed.Volume(all.isoStorage, id)) })
	}
	return g.Wait()
}

// errStays says that a machine is there after all that could be done.
var errStays = api.Errorf(driver.Transient, "the machine still exists")

// How long a machine's system has to end: what the server's time-out leaves for
// the rest, and no more than longestGrace.
const (
	longestGrace = 30 * time.Second
	graceShare   = 2
)

func graceOf(ctx context.Context, now time.Time) time.Duration {
	deadline, limited := ctx.Deadline()
	if !limited {
		return longestGrace
	}
	return min(longestGrace, deadline.Sub(now)/graceShare).Truncate(time.Second)
}

// ending is the next thing to do to a machine that is to go.
type ending int

const (
	endAsk    ending = iota // its system is asked to end
	endStop                 // it is switched off
	endRemove               // it is destroyed
	endWait                 // somebody works on it
	endNone                 // there is nothing left
)

// nextEnding decides it, by the machine's state. asked: that was done already.
func nextEnding(status, lock string, asked bool) ending {
	switch {
	case lock == cluster.LockDestroyed:
		return endNone
	case lock != "" && lock != cluster.LockSuspended:
		return endWait
	case status == "stopped":
		return endRemove
	case asked:
		return endStop
	}
	return endAsk
}

// endTries bounds the looks at a machine that does not go.
const endTries = 8

// destroy ends a machine if it is that of an instance; a number alone is no reason.
func (all *Machines) destroy(ctx context.Context, m api.VM, id identity.ID, grace time.Duration) error {
	asked := grace < time.Second
	for range endTries {
		vm, err := all.api.Current(ctx, m)
		if api.KindOf(err) == driver.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if name := vm.VirtualMachineConfig.Name; name != string(id) {
			return nil
		}
		var upid pve.UPID
		next := nextEnding(vm.Status, vm.Lock, asked)
		switch next {
		case endAsk:
			upid, err = all.api.Shutdown(ctx, m, grace)
			asked = true
		case endStop:
			upid, err = all.api.Stop(ctx, m)
		case endRemove:
			upid, err = all.remove(ctx, m, vm)
		case endWait:
			return api.Errorf(driver.Transient, "locked (%s); if nothing is being done to it, unlock it: qm unlock %d", vm.Lock, m.Number)
		case endNone:
			return nil
		}
		if err == nil {
			err = all.api.Wait(ctx, upid, nil)
		}
		if err != nil && !api.Overtaken(err) {
			return err
		}
	}
	return errStays
}

// remove destroys a machine that does not run, its CD first: it holds the user data.
func (all *Machines) remove(ctx context.Context, m api.VM, vm *pve.VirtualMachine) (pve.UPID, error) {
	id := identity.ID(vm.VirtualMachineConfig.Name)
	volumes := []string{seed.Volume(all.isoStorage, id)} // it may have been made, and not put in
	for _, value := range vm.VirtualMachineConfig.IDEs {
		volume, _, _ := strings.Cut(value, ",")
		if strings.HasSuffix(volume, ":iso/"+seed.FileName(id)) && volume != volumes[0] {
			volumes = append(volumes, volume)
		}
	}
	for _, volume := range volumes {
		if err := all.RemoveISO(ctx, m.Node, volume); err != nil {
			return "", err
		}
	}
	return all.api.Destroy(ctx, m)
}

// RemoveISO removes a CD; it is no failure if it does not exist, or its storage.
func (all *Machines) RemoveISO(ctx context.Context, node, volume string) error {
	upid, err := all.api.RemoveVolume(ctx, node, volume)
	if err == nil {
		err = all.api.Wait(ctx, upid, nil)
	}
	if api.VolumeMissing(err, volume) {
		return nil
	}
	return err
}
