package drivertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// VM is the truth about one machine.
type VM struct {
	driver.Machine
	Owner   driver.Owner
	Request driver.CreateRequest // zero for a planted one
	Since   time.Time            // of the status
}

type vm struct {
	VM
	n       int       // in order of creation
	born    time.Time // by the cloud's clock, not the request's
	gone    time.Time // zero while it exists
	booted  bool
	console string // what it has written
}

// Create makes a machine, or returns the one of an earlier create.
func (c *Cloud) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	if err := checkRequest(req); err != nil {
		return driver.Machine{}, driver.Fail(driver.Invalid, string(OpCreate), err)
	}
	req.UserData = bytes.Clone(req.UserData)
	var m driver.Machine
	call := Call{Op: OpCreate, ID: req.InstanceID, Owner: req.Owner, Request: &req}
	err := c.call(ctx, call, func(f Fault) error {
		v, err := c.create(req, f)
		if err == nil {
			m = v.Machine
		}
		return err
	})
	if err != nil {
		return driver.Machine{}, err
	}
	return m, nil
}

func checkRequest(req driver.CreateRequest) error {
	if _, err := identity.ParseID(string(req.InstanceID)); err != nil {
		return err
	}
	if req.Owner.Cluster == "" || req.Owner.Shard == "" {
		return fmt.Errorf("%s: the owner has no cluster or no shard", req.InstanceID)
	}
	return Capacity.Check(req)
}

// Capacity are the capacity rules of the fake cloud: it serves everything.
var Capacity = &driver.CapacityRules{Types: []driver.CapacityType{driver.OnDemand, driver.Spot, driver.Reserved, driver.BareMetal}}

func (c *Cloud) create(req driver.CreateRequest, f Fault) (*vm, error) {
	refuse := func(kind driver.ErrorClass, format string, args ...any) (*vm, error) {
		return nil, driver.Fail(kind, string(OpCreate), fmt.Errorf(format, args...))
	}
	if pid, used := c.byID[req.InstanceID]; used {
		v := c.vms[pid]
		switch {
		case v == nil || !v.gone.IsZero() || v.Status == driver.Deleting:
			return refuse(driver.Invalid, "%s was deleted", req.InstanceID)
		case !equal(v.Request, req):
			return refuse(driver.Invalid, "%s was created with another request", req.InstanceID)
		}
		return v, nil
	}
	if !c.hasRoom(req.SubnetID, req.InstanceType) {
		return refuse(driver.Capacity, "no room for type %q in subnet %q", req.InstanceType, req.SubnetID)
	}
	v := c.add(req.Owner, string(req.InstanceID), driver.Pending)
	v.InstanceID, v.Request = req.InstanceID, req
	v.Tenant, v.Group, v.Template, v.Kind = req.Tenant, req.Group, req.Template, req.Kind
	v.SubnetID, v.Type = req.SubnetID, req.InstanceType
	c.byID[req.InstanceID] = v.ProviderID
	boot := c.conditions.BootTime
	switch {
	case f.Dies && f.DieAfter <= 0:
		c.set(v, driver.Failed)
		return v, nil
	case boot > 0:
		c.after(boot, v, driver.Running)
	default:
		c.set(v, driver.Running)
	}
	if f.Dies {
		c.after(f.DieAfter, v, driver.Failed)
	}
	return v, nil
}

// equal compares requests as a cloud does that keeps a hash of them.
func equal(a, b driver.CreateRequest) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) {
		return false
	}
	a.CreatedAt = b.CreatedAt
	return reflect.DeepEqual(a, b)
}

// add puts a machine into the world.
func (c *Cloud) add(owner driver.Owner, rawID string, status driver.Status) *vm {
	c.made++
	now := time.Now()
	v := &vm{n: c.made, born: now}
	v.Owner, v.Since = owner, now
	v.RawID, v.Status, v.CreatedAt = rawID, status, now
	v.ProviderID = fmt.Sprintf("vm-%06d", c.made)
	c.vms[v.ProviderID] = v
	c.notify()
	return v
}

// Get returns one machine as the cloud shows it after its lag.
func (c *Cloud) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	var m driver.Machine
	err := c.call(ctx, Call{Op: OpGet, ID: ref.InstanceID, Ref: ref}, func(Fault) error {
		v := c.find(ref)
		if v == nil || !v.shows(c.conditions.GetLag) && !v.remembered() {
			return driver.Fail(driver.NotFound, string(OpGet), fmt.Errorf("%s%s does not exist", ref.InstanceID, ref.ProviderID))
		}
		m = v.Machine
		return nil
	})
	if err != nil {
		return driver.Machine{}, err
	}
	return m, nil
}

// find returns the machine that ref names, gone ones included, or nil.
func (c *Cloud) find(ref driver.Ref) *vm {
	if ref.InstanceID != "" {
		return c.vms[c.byID[ref.InstanceID]]
	}
	return c.vms[ref.ProviderID]
}

// List returns the owner's machines as the cloud shows them after its lag, in
// order of creation.
func (c *Cloud) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	var list []driver.Machine
	err := c.call(ctx, Call{Op: OpList, Owner: owner}, func(f Fault) error {
		if f.Empty {
			return nil
		}
		found := c.listed(owner)
		pages := (len(found) + c.opts.PageSize - 1) / c.opts.PageSize
		if f.FailPage > 0 && f.FailPage <= max(pages, 1) {
			return driver.Fail(driver.Transient, string(OpList), fmt.Errorf("page %d of %d: internal error", f.FailPage, pages))
		}
		list = found
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (c *Cloud) listed(owner driver.Owner) []driver.Machine {
	var vms []*vm
	for pid, v := range c.vms {
		if v.Owner == owner && v.shows(c.conditions.ListLag) {
			vms = append(vms, v)
		}
		if !v.gone.IsZero() && time.Since(v.gone) > max(c.conditions.ListLag, c.conditions.GetLag) && !v.remembered() {
			delete(c.vms, pid) // its id stays used
		}
	}
	slices.SortFunc(vms, byAge)
	list := make([]driver.Machine, len(vms))
	for i, v := range vms {
		list[i] = v.Machine
	}
	return list
}

func byAge(a, b *vm) int { return cmp.Compare(a.n, b.n) }

// shows reports whether someone who learns everything lag later sees v now.
func (v *vm) shows(lag time.Duration) bool {
	return time.Since(v.born) >= lag && (v.gone.IsZero() || time.Since(v.gone) < lag)
}

// remembered reports whether v was ended by the cloud, which tells why for an hour.
func (v *vm) remembered() bool {
	return !v.gone.IsZero() && v.Reason != "" && time.Since(v.gone) < time.Hour
}

// Delete begins the end of a machine. The id of one that never was is used up.
func (c *Cloud) Delete(ctx context.Context, ref driver.Ref) error {
	if ref == (driver.Ref{}) {
		return driver.Fail(driver.Invalid, string(OpDelete), errors.New("neither an instance id nor a provider id is given"))
	}
	return c.call(ctx, Call{Op: OpDelete, ID: ref.InstanceID, Ref: ref}, func(Fault) error {
		v := c.find(ref)
		if v == nil {
			if _, used := c.byID[ref.InstanceID]; !used && ref.InstanceID != "" {
				c.byID[ref.InstanceID] = ""
			}
			return nil
		}
		if !v.gone.IsZero() || v.Status == driver.Deleting {
			return nil
		}
		c.set(v, driver.Deleting)
		if wait := c.conditions.DeleteTime; wait > 0 {
			c.after(wait, v, driver.Deleted)
			return nil
		}
		c.end(v)
		return nil
	})
}

// end takes a machine that no longer runs out of the world.
func (c *Cloud) end(v *vm) {
	v.gone = time.Now()
	c.set(v, driver.Deleted)
}

// after changes the status of v later, unless its deletion began or it failed
// in the meantime.
func (c *Cloud) after(d time.Duration, v *vm, to driver.Status) {
	change := func() error {
		switch {
		case !v.gone.IsZero():
		case to == driver.Deleted:
			c.end(v)
		case v.Status == driver.Pending, v.Status == driver.Running:
			c.set(v, to)
		}
		return nil
	}
	time.AfterFunc(d, func() { _ = c.apply(change) })
}

// set changes the status of v and notes what the hooks are to be told.
func (c *Cloud) set(v *vm, to driver.Status) {
	v.Status, v.Since = to, time.Now()
	switch runs := to == driver.Running; {
	case runs && !v.booted && v.Request.InstanceID != "":
		v.booted = true
		if c.opts.OnCreate != nil {
			c.untold = append(c.untold, func() { c.opts.OnCreate(v.Request) })
		}
	case !runs && v.booted:
		v.booted = false
		if c.opts.OnDown != nil {
			c.untold = append(c.untold, func() { c.opts.OnDown(v.InstanceID) })
		}
	}
	c.notify()
}
