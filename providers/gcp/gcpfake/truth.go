package gcpfake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// Machine is the truth about one machine, whether it shows already or not.
type Machine struct {
	Name     string
	ID       uint64
	Zone     string
	Type     string // e2-medium
	Subnet   string // its name
	Status   string // RUNNING; https://docs.cloud.google.com/compute/docs/instances/instance-lifecycle
	Deleting bool   // its deletion goes on
	Spot     bool
	IP       netip.Addr
	Aliases  []string // alias ranges
	Labels   map[string]string
	Metadata map[string]string // startup-script and others
	Created  time.Time
}

// machine says what is true of an instance. The caller holds the lock.
func (c *Cloud) machine(i *instance) Machine {
	nic := i.pb.GetNetworkInterfaces()[0]
	m := Machine{
		Name: i.pb.GetName(), ID: i.pb.GetId(), Zone: i.zone, Type: i.kind.Name, Subnet: i.subnet.Name,
		Status: i.pb.GetStatus(), Deleting: i.leaving(), Spot: i.pb.GetScheduling().GetPreemptible(),
		Labels: maps.Clone(i.pb.GetLabels()), Metadata: map[string]string{},
	}
	m.IP, _ = netip.ParseAddr(nic.GetNetworkIP())
	m.Created, _ = time.Parse(time.RFC3339, i.pb.GetCreationTimestamp())
	for _, a := range nic.GetAliasIpRanges() {
		m.Aliases = append(m.Aliases, a.GetIpCidrRange())
	}
	for _, item := range i.pb.GetMetadata().GetItems() {
		m.Metadata[item.GetKey()] = item.GetValue()
	}
	return m
}

func (c *Cloud) machines() []Machine {
	var all []Machine
	for _, i := range c.instances {
		all = append(all, c.machine(i))
	}
	slices.SortFunc(all, func(a, b Machine) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Machines returns every machine that exists, those that are being deleted and those
// that do not show yet included, in order of creation.
func (c *Cloud) Machines() []Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	return c.machines()
}

// Machine returns the machine of a name, in whatever zone, and whether it exists.
func (c *Cloud) Machine(name string) (Machine, bool) {
	for _, m := range c.Machines() {
		if m.Name == name {
			return m, true
		}
	}
	return Machine{}, false
}

// WaitFor blocks until holds is true of the machines, or ctx ends, and then returns
// its error. It looks at every change; holds must not touch the cloud.
func (c *Cloud) WaitFor(ctx context.Context, holds func([]Machine) bool) error {
	for {
		c.mu.Lock()
		c.settle()
		now, changed := c.machines(), c.changed
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

// Kill makes a running machine crash: it is TERMINATED and stays. It reports whether
// there was one.
func (c *Cloud) Kill(name string) bool {
	return c.meddle(name, func(i *instance) bool {
		if !i.is(running) {
			return false
		}
		c.turn(i, nil)
		c.halt(i)
		i.pb.StatusMessage = new("Instance terminated by guest OS shutdown.")
		c.rest(i, terminated)
		return true
	})
}

// Remove makes a machine vanish, as somebody else's delete does, and at once. It
// reports whether there was one.
func (c *Cloud) Remove(name string) bool {
	return c.meddle(name, func(i *instance) bool {
		if !i.is(terminated, suspended) {
			c.take(i, -1)
		}
		c.turn(i, nil)
		c.halt(i)
		c.vanish(i)
		return true
	})
}

// Interrupt takes a running spot machine away: its metadata server says so at once,
// and it is stopped after [Options.Notice], or deleted where it was made so. It
// reports whether there was one.
// https://docs.cloud.google.com/compute/docs/instances/spot#preemption-process
func (c *Cloud) Interrupt(name string) bool {
	return c.meddle(name, func(i *instance) bool {
		if !i.is(running) || !i.pb.GetScheduling().GetPreemptible() {
			return false
		}
		c.preempt(i)
		return true
	})
}

// preempt announces a machine's end, and brings it after the notice.
func (c *Cloud) preempt(i *instance) {
	i.preempted = true
	i.pb.StatusMessage = new("Instance was preempted.")
	c.notify()
	c.then(i, c.opts.Notice, func() {
		op := c.begin("zones/"+i.zone, "compute.instances.preempted", i.below(), i.pb.GetId())
		if i.pb.GetScheduling().GetInstanceTerminationAction() == "DELETE" {
			c.remove(i, op)
		} else {
			c.shutdown(i, op, stopping, terminated)
		}
	})
}

// meddle does something to a machine that nobody asked for through the API.
func (c *Cloud) meddle(name string, do func(*instance) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	for _, i := range c.instances {
		if i.pb.GetName() == name {
			return do(i)
		}
	}
	return false
}

// Plant makes a running machine that nobody asked for, with these labels. Everything
// else about it is the first that the project has.
func (c *Cloud) Plant(zone, name string, labels map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	kind, image := c.opts.Types[0], Image{}
	for _, im := range slices.Backward(c.opts.Images) {
		if im.Arch == kind.Arch {
			image = im
		}
	}
	i, err := c.checked(zone, &computepb.Instance{
		Name: &name, Labels: labels,
		MachineType: new(path.Join("zones", zone, "machineTypes", kind.Name)),
		Disks: []*computepb.AttachedDisk{{Boot: proto.Bool(true), InitializeParams: &computepb.AttachedDiskInitializeParams{
			SourceImage: new(path.Join("projects", image.Project, "global/images", image.Name))}}},
		NetworkInterfaces: []*computepb.NetworkInterface{{Subnetwork: new(c.subnets[c.opts.Subnets[0].Name].path(c))}},
	})
	if err != nil {
		return err
	}
	if c.instances[i.place()] != nil {
		return alreadyExists(c.path(i.below()))
	}
	if failed := c.place(i, false); failed != nil {
		return fmt.Errorf("plant %s: %w", name, failed)
	}
	c.instances[i.place()] = i
	c.take(i, 1)
	c.set(i, running)
	return nil
}

// Forbid has a constraint of the organization forbid new machines; "" takes it away.
func (c *Cloud) Forbid(constraint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.constraint = constraint
}

// Fail has the operation of the next create end with this code; "" takes that back.
func (c *Cloud) Fail(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = code
}

// Hide has listings show no machine, without an error, or ends that. Who names a machine
// still gets it.
func (c *Cloud) Hide(hidden bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = hidden
}

// SetRoom says how many more machines of a type a zone has; a negative number: as
// many as are asked for.
func (c *Cloud) SetRoom(zone, machineType string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < 0 {
		delete(c.room, place{zone, machineType})
		return
	}
	c.room[place{zone, machineType}] = n
}
