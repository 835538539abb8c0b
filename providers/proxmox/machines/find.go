package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/cluster"
	"nstance.dev/providers/proxmox/metadata"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// Cluster lists what the cluster has.
func (all *Machines) Cluster(ctx context.Context) (cluster.State, error) {
	list, err := all.api.Resources(ctx)
	return cluster.Of(list), err
}

// find returns the machines that ref means, wherever they are now: none, or one, or
// more than one after something went wrong that must not. The first is that with
// the number of ref, if it has one.
func (all *Machines) find(ctx context.Context, ref driver.Ref) (c cluster.State, found []cluster.Machine, err error) {
	if c, err = all.Cluster(ctx); err != nil {
		return c, nil, err
	}
	for _, s := range c.Machines {
		if ref.InstanceID == "" {
			if strconv.Itoa(s.Number) == ref.ProviderID && !s.Template {
				found = append(found, s)
			}
			continue
		}
		ours, err := all.recognise(ctx, c, &s)
		if err != nil {
			return c, nil, err
		}
		if ours && s.ID() == ref.InstanceID {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b cluster.Machine) int {
		return btoi(b.ProviderID() == ref.ProviderID) - btoi(a.ProviderID() == ref.ProviderID)
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
func (all *Machines) recognise(ctx context.Context, c cluster.State, s *cluster.Machine) (bool, error) {
	tagged := slices.Contains(s.Tags, metadata.TagOwned)
	switch {
	case s.Template, s.Lock == cluster.LockDestroyed:
		return false, nil
	case tagged && (s.Name != "" || all.creates.Made(s.ID(), s.VM)), !c.Online[s.Node]:
		return tagged, nil
	case s.Name != "" && s.ID() == "", s.Lock == cluster.LockClone:
		return false, nil
	}
	config, err := all.api.Config(ctx, s.VM)
	switch {
	case api.KindOf(err) == driver.NotFound, api.Unreachable(err):
		return tagged, nil
	case err != nil:
		return false, err
	}
	s.Name = config.Name
	if n, noted := metadata.ParseNotes(config.Description); noted && !tagged {
		s.Tags = metadata.Tags(n.Owner, s.ID(), metadata.GroupTag(n.Tenant, n.Group), s.Tags)
		return s.ID() != "", nil
	}
	return tagged, nil
}

// look asks a machine's node how it is. On a node that is away nobody can say.
func (all *Machines) look(ctx context.Context, c cluster.State, s cluster.Machine) (driver.Machine, error) {
	m := driver.Machine{
		InstanceID: s.ID(), RawID: s.Name, ProviderID: s.ProviderID(),
		Hostname: s.Name, Status: driver.Unknown,
	}
	if m.RawID == "" {
		m.RawID = string(m.InstanceID)
	}
	if !c.Online[s.Node] {
		return m, nil
	}
	vm, err := all.api.Current(ctx, s.VM)
	switch {
	case api.Unreachable(err):
		return m, nil
	case err != nil:
		return m, err
	case s.Name != "" && vm.VirtualMachineConfig.Name != s.Name, vm.Lock == cluster.LockDestroyed:
		return m, api.Errorf(driver.NotFound, "%w", ErrMissing)
	}
	status := vm.Status
	if status == "running" && vm.QMPStatus != "" {
		status = vm.QMPStatus
	}
	m.Status = all.shown(m.InstanceID, cluster.StatusOf(status, vm.Lock))
	m.Reason = all.reason(ctx, s.VM, m.Status, status)
	m.Hostname = vm.VirtualMachineConfig.Name
	m.SubnetID = rules.ParseNIC(vm.VirtualMachineConfig.Nets[rules.FirstNIC]).Bridge().ID()
	n, _ := metadata.ParseNotes(vm.VirtualMachineConfig.Description)
	m.Tenant, m.Group, m.Template, m.Kind, m.Type, m.CreatedAt = n.Tenant, n.Group, n.Template, n.Kind, n.Type, n.Created
	return m, nil
}

// shown is a machine's status in the light of what this driver is doing with it.
func (all *Machines) shown(id identity.ID, status driver.Status) driver.Status {
	switch {
	case id == "":
		return status
	case all.creates.Deleted(id):
		return driver.Deleting
	case status != driver.Running && all.creates.Making(id):
		return driver.Pending
	}
	return status
}

// Existing returns the machine that has an instance id already, and its tags; false if there
// is none.
func (all *Machines) Existing(ctx context.Context, id identity.ID) (driver.Machine, []string, bool, error) {
	c, found, err := all.find(ctx, driver.Ref{InstanceID: id})
	if err != nil || len(found) == 0 {
		return driver.Machine{}, nil, false, err
	}
	m, err := all.look(ctx, c, found[0])
	if api.KindOf(err) == driver.NotFound {
		return driver.Machine{}, nil, false, nil
	}
	if err != nil {
		return driver.Machine{}, nil, false, fmt.Errorf("%w: %w", ErrMayExist, err)
	}
	return m, found[0].Tags, true, nil
}

// ErrMayExist says that something may be there.
var ErrMayExist = errors.New("a machine may exist")

// ErrMissing says that a machine does not exist.
var ErrMissing = errors.New("it does not exist")
