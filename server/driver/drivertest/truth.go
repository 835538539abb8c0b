package drivertest

import (
	"context"
	"slices"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Machines returns the truth: every machine that exists at this moment, of all
// owners, those being deleted included, in order of creation.
func (c *Cloud) Machines() []VM {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truth()
}

func (c *Cloud) truth() []VM {
	var vms []*vm
	for _, v := range c.vms {
		if v.gone.IsZero() {
			vms = append(vms, v)
		}
	}
	slices.SortFunc(vms, byAge)
	all := make([]VM, len(vms))
	for i, v := range vms {
		all[i] = v.VM
	}
	return all
}

// Machine returns the truth about one machine, and whether it exists.
func (c *Cloud) Machine(id identity.ID) (VM, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.alive(id); v != nil {
		return v.VM, true
	}
	return VM{}, false
}

// Created returns how many machines ever came to exist, planted ones included.
func (c *Cloud) Created() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

// WaitFor blocks until holds is true of the truth, or ctx ends, and then
// returns its error. It looks at every change and misses none; holds must not
// touch the cloud.
func (c *Cloud) WaitFor(ctx context.Context, holds func([]VM) bool) error {
	for {
		c.mu.Lock()
		now, changed := c.truth(), c.changed
		c.mu.Unlock()
		if holds(now) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notify wakes whoever waits for a change.
func (c *Cloud) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// alive returns the machine of id if it exists, else nil.
func (c *Cloud) alive(id identity.ID) *vm {
	if v := c.vms[c.byID[id]]; v != nil && v.gone.IsZero() {
		return v
	}
	return nil
}

// SetStatus changes a machine as someone at the cloud's console would, or fate:
// Failed for a crash, Stopped for a stop, Running for a start. It reports
// whether the machine exists.
func (c *Cloud) SetStatus(id identity.ID, to driver.Status) bool {
	return c.byHand(id, func(v *vm) { c.set(v, to) })
}

// Kill makes a machine fail. It reports whether the machine exists.
func (c *Cloud) Kill(id identity.ID) bool { return c.SetStatus(id, driver.Failed) }

// Break makes a machine fail for a reason that the cloud tells. It reports whether the
// machine exists.
func (c *Cloud) Break(id identity.ID, reason string) bool {
	return c.byHand(id, func(v *vm) {
		v.Reason = reason
		c.set(v, driver.Failed)
	})
}

// Abort has the cloud end a machine by itself, for a reason: no listing shows it any
// more, and Get remembers it. So does a cloud that takes an order and then fails to
// carry it out. It reports whether the machine existed.
func (c *Cloud) Abort(id identity.ID, reason string) bool {
	return c.byHand(id, func(v *vm) {
		v.Reason = reason
		c.end(v)
	})
}

// Remove takes a machine away at once, as someone at the console would who
// deletes it. It reports whether the machine existed.
func (c *Cloud) Remove(id identity.ID) bool {
	return c.byHand(id, c.end)
}

// Retag writes other tags on a machine, which are text to the cloud. It reports whether the
// machine existed.
func (c *Cloud) Retag(id identity.ID, tenant, group, template string) bool {
	return c.byHand(id, func(v *vm) { v.Tenant, v.Group, v.Template = tenant, group, template })
}

func (c *Cloud) byHand(id identity.ID, change func(*vm)) bool {
	found := false
	_ = c.apply(func() error {
		if v := c.alive(id); v != nil {
			found = true
			change(v)
		}
		return nil
	})
	return found
}

// Plant puts a running machine with the owner's tags into the cloud that no
// create asked for, with rawID as its identity tag, and returns its provider id.
func (c *Cloud) Plant(owner driver.Owner, rawID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.add(owner, rawID, driver.Running)
	if id, err := identity.ParseID(rawID); err == nil {
		v.InstanceID = id
		if _, used := c.byID[id]; !used {
			c.byID[id] = v.ProviderID
		}
	}
	return v.ProviderID
}

// Place is a subnet and an instance type; an empty field stands for every one.
type Place struct{ Subnet, Type string }

// SetRoom lets at most n machines live in a place: creates beyond that fail
// with Capacity. A negative n takes the limit away.
func (c *Cloud) SetRoom(p Place, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < 0 {
		delete(c.room, p)
		return
	}
	c.room[p] = n
}

func (c *Cloud) hasRoom(subnet, instanceType string) bool {
	for p := range c.room {
		if (p.Subnet == "" || p.Subnet == subnet) && (p.Type == "" || p.Type == instanceType) && c.free(p) <= 0 {
			return false
		}
	}
	return true
}

// free returns how many more machines fit into a limited place.
func (c *Cloud) free(p Place) int {
	free := c.room[p]
	for _, v := range c.vms {
		if v.gone.IsZero() && (p.Subnet == "" || p.Subnet == v.SubnetID) && (p.Type == "" || p.Type == v.Type) {
			free--
		}
	}
	return max(free, 0)
}
