package proxmox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pve "github.com/luthermonson/go-proxmox"
	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// end removes whatever there is of an instance, with its turn held.
func (d *Driver) end(ctx context.Context, ref driver.Ref) error {
	if j := d.reg.job(ref.InstanceID); j != nil && d.reg.making(ref.InstanceID) {
		if err := d.undo(ctx, j); err != nil {
			return err
		}
	}
	c, destroyed, err := d.sweep(ctx, ref, graceOf(ctx, d.opts.Now()))
	if err != nil {
		return err
	}
	if !destroyed {
		if err := d.clear(ctx, c, ref.InstanceID); err != nil {
			return err
		}
	}
	d.reg.end(ref.InstanceID)
	return nil
}

// undo removes what a create has made that does not go on.
func (d *Driver) undo(ctx context.Context, j *job) error {
	if err := d.calm(ctx, j); err != nil {
		return err
	}
	j.release()
	if _, _, err := d.sweep(ctx, driver.Ref{InstanceID: j.request.InstanceID}, 0); err != nil || j.stage < stageUpload {
		return err
	}
	return d.removeISO(ctx, d.reg.progress(j).at.node, isoVolume(d.opts.ISOStorage, j.request.InstanceID))
}

// sweep destroys the machine of an instance, and looks again whether the cluster has
// one still: it may have moved to another node meanwhile. c is the cluster as it was
// seen last.
func (d *Driver) sweep(ctx context.Context, ref driver.Ref, grace time.Duration) (c cluster, destroyed bool, err error) {
	for range endTries {
		var found []sighting
		c, found, err = d.find(ctx, ref)
		if err != nil || len(found) == 0 {
			return c, destroyed, err
		}
		for _, s := range found {
			if !c.online[s.node] {
				return c, destroyed, be(driver.Transient, "machine %s: its node is away", s.at)
			}
			if err := d.destroy(ctx, s.at, ref.InstanceID, grace); err != nil {
				return c, destroyed, fmt.Errorf("machine %s: %w", s.at, err)
			}
			destroyed = true
		}
	}
	return c, destroyed, errStays
}

// clear removes the CD of an instance that has no machine, wherever it may lie: a
// machine that somebody destroyed by hand leaves it behind.
func (d *Driver) clear(ctx context.Context, c cluster, id identity.ID) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looks)
	for _, node := range c.places(d.opts.ISOStorage) {
		g.Go(func() error { return d.removeISO(ctx, node, isoVolume(d.opts.ISOStorage, id)) })
	}
	return g.Wait()
}

// errStays says that a machine is there after all that could be done.
var errStays = be(driver.Transient, "the machine is there still")

// calm waits until nothing is done to the machine of a create any more.
func (d *Driver) calm(ctx context.Context, j *job) error {
	if j.upid != "" {
		if err := d.api.wait(ctx, j.upid, nil); err != nil && !taskFailed(err) {
			return err
		}
		j.upid = ""
	}
	if !j.doubt {
		return nil
	}
	for since := d.opts.Now(); ; {
		m := d.reg.progress(j).at
		ours, err := d.settle(ctx, j, m)
		if err != nil || ours {
			j.doubt = err != nil
			return err
		}
		if d.opts.Now().Sub(since) > lateClone {
			j.doubt = false
			return nil
		}
		select {
		case <-time.After(longestLook):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

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
	case lock == lockDestroyed:
		return endNone
	case lock != "" && lock != lockSuspended:
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
func (d *Driver) destroy(ctx context.Context, m at, id identity.ID, grace time.Duration) error {
	asked := grace < time.Second
	for range endTries {
		vm, err := d.api.current(ctx, m)
		if kindOf(err) == driver.NotFound {
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
			upid, err = d.api.shutdown(ctx, m, grace)
			asked = true
		case endStop:
			upid, err = d.api.stop(ctx, m)
		case endRemove:
			upid, err = d.remove(ctx, m, vm)
		case endWait:
			return be(driver.Transient, "locked (%s); if nothing is being done to it, unlock it: qm unlock %d", vm.Lock, m.vmid)
		case endNone:
			return nil
		}
		if err == nil {
			err = d.api.wait(ctx, upid, nil)
		}
		if err != nil && !overtaken(err) {
			return err
		}
	}
	return errStays
}

// overtaken reports whether err says that a machine's state was another one when it
// was to be changed. Another look shows which.
func overtaken(err error) bool {
	var r *refusal
	return kindOf(err) == driver.NotFound ||
		errors.As(err, &r) && (strings.Contains(r.reason, "not running") || strings.Contains(r.reason, "is running"))
}

// remove destroys a machine that does not run, its CD first: it holds the user data.
func (d *Driver) remove(ctx context.Context, m at, vm *pve.VirtualMachine) (pve.UPID, error) {
	id := identity.ID(vm.VirtualMachineConfig.Name)
	volumes := []string{isoVolume(d.opts.ISOStorage, id)} // it may have been made, and not put in
	for _, value := range vm.VirtualMachineConfig.IDEs {
		volume, _, _ := strings.Cut(value, ",")
		if strings.HasSuffix(volume, ":iso/"+isoName(id)) && volume != volumes[0] {
			volumes = append(volumes, volume)
		}
	}
	for _, volume := range volumes {
		if err := d.removeISO(ctx, m.node, volume); err != nil {
			return "", err
		}
	}
	return d.api.destroy(ctx, m)
}

func (d *Driver) removeISO(ctx context.Context, node, volume string) error {
	upid, err := d.api.removeVolume(ctx, node, volume)
	if err == nil {
		err = d.api.wait(ctx, upid, nil)
	}
	if missing(err, volume) {
		return nil
	}
	return err
}

// missing reports whether err says that a volume does not exist, or its storage.
func missing(err error, volume string) bool {
	var r *refusal
	if !errors.As(err, &r) {
		return false
	}
	for _, words := range []string{
		"storage '" + storageOf(volume) + "' does not exist", "no such volume", "volume '" + volume + "' does not exist",
	} {
		if strings.Contains(r.reason, words) {
			return true
		}
	}
	return false
}
