package drivertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Subnets adds [driver.SubnetChecker] to a cloud: what [Cloud.SetRoom] left free
// for all types, or unlimited. Every subnet exists.
type Subnets struct{ Of *Cloud }

// CheckSubnet returns how many machines still fit; negative: unlimited.
func (s Subnets) CheckSubnet(ctx context.Context, subnetID string) (free int, err error) {
	err = s.Of.call(ctx, Call{Op: OpSubnet, Subject: subnetID}, func(Fault) error {
		p := Place{Subnet: subnetID}
		if _, limited := s.Of.room[p]; !limited {
			free = -1
			return nil
		}
		free = s.Of.free(p)
		return nil
	})
	return free, err
}

// Balancers adds [driver.Balancer] to a cloud: load balancers that
// [Cloud.AddBalancer] made.
type Balancers struct{ Of *Cloud }

// LBRegister puts a machine behind a load balancer.
func (b Balancers) LBRegister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	return b.change(ctx, OpRegister, lb, ref, func(members []string) ([]string, error) {
		v := b.Of.find(ref)
		if v == nil || !v.gone.IsZero() {
			return nil, driver.Fail(driver.NotFound, string(OpRegister), fmt.Errorf("%s%s does not exist", ref.InstanceID, ref.ProviderID))
		}
		if slices.Contains(members, v.ProviderID) {
			return members, nil
		}
		return append(members, v.ProviderID), nil
	})
}

// LBDeregister takes a machine from behind a load balancer.
func (b Balancers) LBDeregister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	return b.change(ctx, OpDeregister, lb, ref, func(members []string) ([]string, error) {
		pid := ref.ProviderID
		if v := b.Of.find(ref); v != nil {
			pid = v.ProviderID
		}
		return slices.DeleteFunc(members, func(m string) bool { return m == pid }), nil
	})
}

func (b Balancers) change(ctx context.Context, op Op, lb driver.LoadBalancer, ref driver.Ref, edit func([]string) ([]string, error)) error {
	return b.Of.call(ctx, Call{Op: op, ID: ref.InstanceID, Ref: ref, Subject: lb.Key}, func(Fault) error {
		members, ok := b.Of.balancers[lb.Key]
		if !ok {
			return driver.Fail(driver.MissingRef, string(op), fmt.Errorf("load balancer %q does not exist", lb.Key))
		}
		members, err := edit(slices.Clone(members))
		if err == nil {
			b.Of.balancers[lb.Key] = members
		}
		return err
	})
}

// LBList returns the members by their provider ids.
func (b Balancers) LBList(ctx context.Context, lb driver.LoadBalancer) (members []driver.Ref, err error) {
	err = b.Of.call(ctx, Call{Op: OpMembers, Subject: lb.Key}, func(Fault) error {
		pids, ok := b.Of.balancers[lb.Key]
		if !ok {
			return driver.Fail(driver.MissingRef, string(OpMembers), fmt.Errorf("load balancer %q does not exist", lb.Key))
		}
		for _, pid := range pids {
			members = append(members, driver.Ref{ProviderID: pid})
		}
		return nil
	})
	return members, err
}

// AddBalancer makes a load balancer, with members that nobody registered.
func (c *Cloud) AddBalancer(key string, members ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.balancers[key] = members
}

// Behind returns the provider ids of a load balancer's members, sorted.
func (c *Cloud) Behind(key string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.balancers[key]))
}

// Image is a machine image of a cloud. Their order in [Cloud.SetImages] is that
// of their creation.
type Image struct{ ID, Name, Owner string }

// Images adds [driver.ImageResolver] to a cloud: over what [Cloud.SetImages] put
// there. The one filter that it knows is "name", with * in the values.
type Images struct{ Of *Cloud }

// ResolveImage returns the first of the images that match.
func (i Images) ResolveImage(ctx context.Context, query driver.ImageQuery) (id string, err error) {
	name := func(f driver.ImageFilter) string { return f.Name + "=" + strings.Join(f.Values, ",") }
	var subject []string
	for _, f := range query.Filters {
		subject = append(subject, name(f))
	}
	err = i.Of.call(ctx, Call{Op: OpImage, Subject: strings.Join(subject, ";")}, func(Fault) error {
		found := slices.DeleteFunc(slices.Clone(i.Of.images), func(im Image) bool { return !im.matches(query) })
		if query.ByName {
			slices.SortStableFunc(found, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
		}
		if query.Descending {
			slices.Reverse(found)
		}
		if len(found) == 0 {
			return driver.Fail(driver.MissingRef, string(OpImage), fmt.Errorf("no image matches %s", strings.Join(subject, "; ")))
		}
		id = found[0].ID
		return nil
	})
	return id, err
}

func (im Image) matches(query driver.ImageQuery) bool {
	for _, f := range query.Filters {
		fits := func(pattern string) bool { ok, _ := path.Match(pattern, im.Name); return ok }
		if f.Name != "name" || !slices.ContainsFunc(f.Values, fits) {
			return false
		}
	}
	return len(query.Owners) == 0 || slices.Contains(query.Owners, im.Owner)
}

// SetImages replaces the images, the oldest first.
func (c *Cloud) SetImages(images ...Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images = images
}

// Self adds [driver.SelfIdentifier] to a cloud: the machine that it names.
type Self string

// SelfID returns the name.
func (s Self) SelfID(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", driver.Fail(driver.Transient, "self-id", err)
	}
	return string(s), nil
}

// Network adds [driver.LeaderNetwork] to a cloud.
type Network struct{ Of *Cloud }

// AssignLeaderNetwork remembers the addresses for [Network.Leader].
func (n Network) AssignLeaderNetwork(ctx context.Context, addrs driver.Addresses) error {
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, "assign-leader-network", err)
	}
	n.Of.mu.Lock()
	defer n.Of.mu.Unlock()
	n.Of.network, n.Of.holds = addrs, true
	return nil
}

// ReleaseLeaderNetwork forgets the addresses.
func (n Network) ReleaseLeaderNetwork(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, "release-leader-network", err)
	}
	n.Of.mu.Lock()
	defer n.Of.mu.Unlock()
	n.Of.network, n.Of.holds = driver.Addresses{}, false
	return nil
}

// Leader returns the addresses that were assigned last, and whether they still
// are.
func (n Network) Leader() (driver.Addresses, bool) {
	n.Of.mu.Lock()
	defer n.Of.mu.Unlock()
	return n.Of.network, n.Of.holds
}

// Types adds [driver.TypeValidator] and [driver.TypeCatalog] to a cloud: the known
// types and the architecture of each.
type Types map[string]string

// ValidateInstanceType compares with the known types.
func (t Types) ValidateInstanceType(ctx context.Context, instanceType, arch string) (driver.TypeVerdict, error) {
	if err := ctx.Err(); err != nil {
		return driver.TypeUnknown, driver.Fail(driver.Transient, "validate-instance-type", err)
	}
	switch has, known := t[instanceType]; {
	case !known:
		return driver.TypeUnknown, nil
	case has != arch:
		return driver.TypeMismatch, nil
	}
	return driver.TypeOK, nil
}

// InstanceTypes lists the known types, all of one size.
func (t Types) InstanceTypes(ctx context.Context) ([]driver.InstanceType, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.Fail(driver.Transient, "instance-types", err)
	}
	var list []driver.InstanceType
	for _, name := range slices.Sorted(maps.Keys(t)) {
		list = append(list, driver.InstanceType{Name: name, Arch: t[name], VCPU: 2, MemoryMiB: 4096, HourlyUSD: 0.04})
	}
	return list, nil
}

// Switches adds [driver.Resumer] and [driver.Powerer] to a cloud.
type Switches struct{ Of *Cloud }

// Resume starts the owner's stopped machines.
func (s Switches) Resume(ctx context.Context, owner driver.Owner) (int, error) {
	return s.move(ctx, "resume", owner, driver.Stopped, driver.Running)
}

// Halt stops the owner's running machines.
func (s Switches) Halt(ctx context.Context, owner driver.Owner) error {
	_, err := s.move(ctx, "halt", owner, driver.Running, driver.Stopped)
	return err
}

func (s Switches) move(ctx context.Context, op string, owner driver.Owner, from, to driver.Status) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, driver.Fail(driver.Transient, op, err)
	}
	moved := 0
	for _, v := range s.Of.Machines() {
		if v.Owner == owner && v.Status == from && s.Of.SetStatus(v.InstanceID, to) {
			moved++
		}
	}
	return moved, nil
}

// Power switches a machine at once.
func (s Switches) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	if err := action.Validate(); err != nil {
		return driver.Fail(driver.Invalid, string(OpPower), err)
	}
	return s.Of.call(ctx, Call{Op: OpPower, ID: ref.InstanceID, Ref: ref, Subject: string(action)}, func(Fault) error {
		v := s.Of.find(ref)
		if v == nil || !v.gone.IsZero() {
			return driver.Fail(driver.NotFound, string(OpPower), fmt.Errorf("%s%s does not exist", ref.InstanceID, ref.ProviderID))
		}
		return s.Of.power(v, action)
	})
}

// PowerActions are all that there are.
func (s Switches) PowerActions(ctx context.Context, ref driver.Ref) (offers []driver.PowerAction, err error) {
	err = s.Of.call(ctx, Call{Op: OpPowerActions, ID: ref.InstanceID, Ref: ref}, func(Fault) error {
		v := s.Of.find(ref)
		switch {
		case v == nil || !v.gone.IsZero():
			return driver.Fail(driver.NotFound, string(OpPowerActions), fmt.Errorf("%s%s does not exist", ref.InstanceID, ref.ProviderID))
		case v.Status != driver.Deleting:
			offers = driver.PowerActions()
		}
		return nil
	})
	return offers, err
}

func (c *Cloud) power(v *vm, action driver.PowerAction) error {
	stopped := v.Status == driver.Stopped
	switch {
	case v.Status == driver.Deleting, stopped && action == driver.PowerReboot:
		return driver.Fail(driver.Invalid, string(OpPower), fmt.Errorf("%s: %s is %s", action, v.ProviderID, v.Status))
	case (action == driver.PowerOff || action == driver.PowerOffHard) && stopped, action == driver.PowerOn && v.Status == driver.Running:
		return nil
	}
	if !stopped {
		c.set(v, driver.Stopped)
	}
	if action != driver.PowerOff && action != driver.PowerOffHard {
		c.set(v, driver.Running)
	}
	return nil
}

// Outputs adds [driver.Outputter] to a cloud: the console alone.
type Outputs struct{ Of *Cloud }

// OutputSources are the console.
func (Outputs) OutputSources() []driver.OutputSource { return []driver.OutputSource{driver.Console} }

// Output returns the end of what [Cloud.Write] wrote.
func (o Outputs) Output(ctx context.Context, ref driver.Ref, source driver.OutputSource) (out driver.Output, err error) {
	if source != driver.Console {
		return out, driver.Fail(driver.Unsupported, string(OpOutput), fmt.Errorf("no source %q", source))
	}
	err = o.Of.call(ctx, Call{Op: OpOutput, ID: ref.InstanceID, Ref: ref}, func(Fault) error {
		v := o.Of.find(ref)
		if v == nil || !v.gone.IsZero() {
			return driver.Fail(driver.NotFound, string(OpOutput), fmt.Errorf("%s%s does not exist", ref.InstanceID, ref.ProviderID))
		}
		extra := max(0, len(v.console)-driver.MaxOutput)
		out = driver.Output{Data: []byte(v.console[extra:]), Cut: extra > 0}
		return nil
	})
	return out, err
}

// Write has a machine write to its console. It reports whether there is one.
func (c *Cloud) Write(id identity.ID, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.find(driver.Ref{InstanceID: id})
	if v == nil {
		return false
	}
	v.console += text
	return true
}

// URIs adds [driver.URIer] to a cloud.
type URIs struct{}

// ProviderURI returns fake://{provider id}/{instance id}.
func (URIs) ProviderURI(ref driver.Ref) string {
	return fmt.Sprintf("fake://%s/%s", ref.ProviderID, ref.InstanceID)
}
