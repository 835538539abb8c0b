package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// cluster lists what the cluster has.
func (d *Driver) cluster(ctx context.Context) (cluster, error) {
	list, err := d.api.resources(ctx)
	return clusterOf(list), err
}

// find returns the machines that ref means, wherever they are now: none, or one, or
// more than one after something went wrong that must not. The first is that with
// the number of ref, if it has one.
func (d *Driver) find(ctx context.Context, ref driver.Ref) (c cluster, found []sighting, err error) {
	if c, err = d.cluster(ctx); err != nil {
		return c, nil, err
	}
	for _, s := range c.machines {
		if ref.InstanceID == "" {
			if strconv.Itoa(s.vmid) == ref.ProviderID && !s.template {
				found = append(found, s)
			}
			continue
		}
		ours, err := d.recognise(ctx, c, &s)
		if err != nil {
			return c, nil, err
		}
		if ours && s.id() == ref.InstanceID {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b sighting) int {
		return btoi(b.providerID() == ref.ProviderID) - btoi(a.providerID() == ref.ProviderID)
	})
	return c, found, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// recognise reports whether a machine was made by this program, for whatever owner.
// Where the list leaves that open its configuration says it, and s is completed by
// it. A machine without tags is one whose maker died before it could set them, or
// somebody else's.
func (d *Driver) recognise(ctx context.Context, c cluster, s *sighting) (bool, error) {
	tagged := slices.Contains(s.tags, tagOwned)
	switch {
	case s.template, s.lock == lockDestroyed:
		return false, nil
	case tagged && (s.name != "" || d.reg.made(s.id(), s.at)), !c.online[s.node]:
		return tagged, nil
	case s.name != "" && s.id() == "", s.lock == lockClone:
		return false, nil
	}
	config, err := d.api.config(ctx, s.at)
	switch {
	case kindOf(err) == driver.NotFound, unreachable(err):
		return tagged, nil
	case err != nil:
		return false, err
	}
	s.name = config.Name
	if n, noted := parseNotes(config.Description); noted && !tagged {
		s.tags = tagsOf(n.Owner, s.id(), groupTag(n.Tenant, n.Group), s.tags)
		return s.id() != "", nil
	}
	return tagged, nil
}

// look asks a machine's node how it is. On a node that is away nobody can say.
func (d *Driver) look(ctx context.Context, c cluster, s sighting) (driver.Machine, error) {
	m := driver.Machine{
		InstanceID: s.id(), RawID: s.name, ProviderID: s.providerID(),
		Hostname: s.name, Status: driver.Unknown,
	}
	if m.RawID == "" {
		m.RawID = string(m.InstanceID)
	}
	if !c.online[s.node] {
		return m, nil
	}
	vm, err := d.api.current(ctx, s.at)
	switch {
	case unreachable(err):
		return m, nil
	case err != nil:
		return m, err
	case s.name != "" && vm.VirtualMachineConfig.Name != s.name, vm.Lock == lockDestroyed:
		return m, be(driver.NotFound, "%w", errMissing)
	}
	status := vm.Status
	if status == "running" && vm.QMPStatus != "" {
		status = vm.QMPStatus
	}
	m.Status = d.shown(m.InstanceID, statusOf(status, vm.Lock))
	m.Reason = d.reason(ctx, s.at, m.Status, status)
	m.Hostname = vm.VirtualMachineConfig.Name
	m.SubnetID = rules.ParseNIC(vm.VirtualMachineConfig.Nets[rules.FirstNIC]).Bridge().ID()
	n, _ := parseNotes(vm.VirtualMachineConfig.Description)
	m.Tenant, m.Group, m.Template, m.Kind, m.Type, m.CreatedAt = n.Tenant, n.Group, n.Template, n.Kind, n.Type, n.Created
	return m, nil
}

// shown is a machine's status in the light of what this driver is doing with it.
func (d *Driver) shown(id identity.ID, status driver.Status) driver.Status {
	switch {
	case id == "":
		return status
	case d.reg.marked(id):
		return driver.Deleting
	case status != driver.Running && d.reg.making(id):
		return driver.Pending
	}
	return status
}

// beingMade is a machine whose clone was asked for and does not show.
func (d *Driver) beingMade(id identity.ID) (driver.Machine, bool) {
	j := d.reg.job(id)
	if j == nil || d.reg.marked(id) || !d.reg.making(id) {
		return driver.Machine{}, false
	}
	return driver.Machine{InstanceID: id, RawID: string(id), ProviderID: d.reg.progress(j).at.providerID(), Status: driver.Pending, Hostname: string(id)}, true
}

// looks is how many nodes are asked at once.
const looks = 8

// List returns the machines of an owner. What the list of the cluster says of one that
// runs is some seconds old; one that does not is asked for at its node, because it may
// have been started since. Only what that costs a call for has the display fields.
func (d *Driver) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	const op = "list"
	if err := ctx.Err(); err != nil {
		return nil, failAs(driver.Transient, op, err)
	}
	underway := d.reg.underway(owner) // first: one that is done meanwhile is in the list
	c, err := d.cluster(ctx)
	if err != nil {
		return nil, fail(op, err)
	}
	ours, err := d.owned(ctx, c, owner)
	if err != nil {
		return nil, fail(op, err)
	}
	list, err := d.statuses(ctx, c, ours)
	if err != nil {
		return nil, fail(op, err)
	}
	for _, id := range sortedKeys(underway) {
		listed := slices.ContainsFunc(ours, func(s sighting) bool { return s.id() == id })
		if m, making := d.beingMade(id); making && !listed {
			list = append(list, m)
		}
	}
	return list, nil
}

func (d *Driver) owned(ctx context.Context, c cluster, owner driver.Owner) ([]sighting, error) {
	var ours []sighting
	for _, s := range c.machines {
		made, err := d.recognise(ctx, c, &s)
		if err != nil {
			return nil, err
		}
		if made && ownedBy(s.tags, owner) {
			ours = append(ours, s)
		}
	}
	return ours, nil
}

// statuses are the machines with their state; one that has gone meanwhile is left out.
func (d *Driver) statuses(ctx context.Context, c cluster, ours []sighting) ([]driver.Machine, error) {
	machines, gone := make([]driver.Machine, len(ours)), make([]bool, len(ours))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looks)
	for i, s := range ours {
		if status := statusOf(s.status, s.lock); status == driver.Running || status == driver.Suspended {
			machines[i] = driver.Machine{
				InstanceID: s.id(), RawID: s.name, ProviderID: s.providerID(),
				Hostname: s.name, Status: d.shown(s.id(), status),
			}
			continue
		}
		g.Go(func() (err error) {
			machines[i], err = d.look(ctx, c, s)
			if gone[i] = kindOf(err) == driver.NotFound; gone[i] {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	list := make([]driver.Machine, 0, len(ours))
	for i, m := range machines {
		if !gone[i] {
			list = append(list, m)
		}
	}
	return list, nil
}

// owner returns whose machine an instance id names already; false if there is none.
func (d *Driver) existing(ctx context.Context, id identity.ID) (driver.Machine, []string, bool, error) {
	c, found, err := d.find(ctx, driver.Ref{InstanceID: id})
	if err != nil || len(found) == 0 {
		return driver.Machine{}, nil, false, err
	}
	m, err := d.look(ctx, c, found[0])
	if kindOf(err) == driver.NotFound {
		return driver.Machine{}, nil, false, nil
	}
	if err != nil {
		return driver.Machine{}, nil, false, fmt.Errorf("%w: %w", errOpen, err)
	}
	return m, found[0].tags, true, nil
}

// errOpen says that something may be there.
var errOpen = errors.New("there may be a machine")
