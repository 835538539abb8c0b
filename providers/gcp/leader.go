package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/server/driver"
)

const (
	opAssign  = "assign-leader-network"
	opRelease = "release-leader-network"
)

// Moving the address takes an operation or two. A change that meets another
// one's is made anew from what is there then.
const (
	moveTimeout   = time.Minute
	conflictTries = 5
)

// AssignLeaderNetwork makes the leader's address an alias address of this
// machine's first interface, and takes it from the machine of the zone that has
// it. The kind is Unsupport if no address is configured.
func (d *Driver) AssignLeaderNetwork(ctx context.Context, _ driver.Addresses) error {
	me, ctx, cancel, err := d.beginMove(ctx, opAssign)
	if err != nil {
		return err
	}
	defer cancel()
	if kept, err := d.keeps(ctx, me); err != nil || kept {
		return err
	}
	if err := d.takeAway(ctx, me); err != nil {
		return err
	}
	return d.change(ctx, opAssign, me, d.add)
}

// ReleaseLeaderNetwork takes the leader's address from this machine. It does not
// wait until that is done: a server that stops has little time, and the next leader
// takes the address in any case.
func (d *Driver) ReleaseLeaderNetwork(ctx context.Context) error {
	me, ctx, cancel, err := d.beginMove(ctx, opRelease)
	if err != nil {
		return err
	}
	defer cancel()
	return d.change(ctx, opRelease, me, d.remove)
}

func (d *Driver) beginMove(ctx context.Context, op string) (self, context.Context, context.CancelFunc, error) {
	if !d.opts.LeaderIP.IsValid() {
		return self{}, nil, nil, driver.Fail(driver.Unsupport, op, errors.New("server.leader_network is not configured"))
	}
	if err := begin(ctx, op); err != nil {
		return self{}, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	me, err := d.self(ctx, op)
	if err != nil {
		cancel()
		return self{}, nil, nil, err
	}
	return me, ctx, cancel, nil
}

// keeps reports whether this machine has the address and goes on having it. An
// interface shows its addresses until a change of it is done, so the changes that go
// on are waited for: a server that led on this machine before may just have given the
// address up.
func (d *Driver) keeps(ctx context.Context, me self) (bool, error) {
	inst, err := d.host(ctx, opAssign, me)
	if err != nil || !hasAlias(inst.GetNetworkInterfaces()[0], d.opts.LeaderIP) {
		return false, err
	}
	changes, err := d.operationsOn(ctx, me.zone, updateInterface, inst.GetId())
	if err != nil {
		return false, fail(opAssign, reads, err)
	}
	changes = slices.DeleteFunc(changes, func(op *computepb.Operation) bool { return !goesOn(op) })
	for _, running := range changes {
		if err := d.finish(ctx, opAssign, running); err != nil && !explained(err) {
			return false, err
		}
	}
	if len(changes) == 0 {
		return true, nil
	}
	nic, err := d.nic(ctx, opAssign, me)
	return err == nil && hasAlias(nic, d.opts.LeaderIP), err
}

// updateInterface is the type of the operations that change an interface.
const updateInterface = "updateNetworkInterface"

// explained reports whether err is what an operation came to that is done.
func explained(err error) bool {
	_, ok := errors.AsType[*operationError](err)
	return ok
}

// takeAway removes the address from every other machine of this one's zone.
func (d *Driver) takeAway(ctx context.Context, me self) error {
	var holders []self
	err := d.each(ctx, opAssign, me.zone, "", func(inst *computepb.Instance) {
		nics := inst.GetNetworkInterfaces()
		if inst.GetName() != me.name && len(nics) > 0 && hasAlias(nics[0], d.opts.LeaderIP) {
			holders = append(holders, self{zone: me.zone, name: inst.GetName()})
		}
	})
	if err != nil {
		return err
	}
	for _, h := range holders {
		if err := d.change(ctx, opAssign, h, d.remove); err != nil && !driver.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// An edit says what becomes of the alias ranges of an interface; nil, false is
// nothing.
type edit func(context.Context, *computepb.NetworkInterface) (ranges []*computepb.AliasIpRange, change bool, err error)

// change reads a machine's first interface, edits it, and writes it back under
// its fingerprint: if somebody else was faster it begins again.
func (d *Driver) change(ctx context.Context, op string, m self, edit edit) error {
	for try := 1; ; try++ {
		nic, err := d.nic(ctx, op, m)
		if err != nil {
			return err
		}
		ranges, change, err := edit(ctx, nic)
		if err != nil || !change {
			return err
		}
		running, err := d.write(ctx, op, m, nic, ranges)
		if err == nil && op != opRelease {
			err = d.finish(ctx, op, running)
		}
		if err == nil || !conflict(err) || try == conflictTries {
			return err
		}
		d.opts.Log.DebugContext(ctx, "interface changed meanwhile", "machine", m.name, "try", try)
	}
}

// conflict reports whether a change came too late for its fingerprint.
func conflict(err error) bool {
	failure, ok := errors.AsType[*operationError](err)
	return reasonOf(err) == reasonFingerprint || ok && failure.code == codeConditionNotMet
}

// nic is the first interface of a machine.
func (d *Driver) nic(ctx context.Context, op string, m self) (*computepb.NetworkInterface, error) {
	inst, err := d.host(ctx, op, m)
	if err != nil {
		return nil, err
	}
	return inst.GetNetworkInterfaces()[0], nil
}

// host is a machine that has an interface, in whatever zone.
func (d *Driver) host(ctx context.Context, op string, m self) (*computepb.Instance, error) {
	inst, err := d.api.instances.Get(ctx, &computepb.GetInstanceRequest{Project: d.project, Zone: m.zone, Instance: m.name})
	if err != nil {
		if err = fail(op, reads, err); driver.KindOf(err) == driver.MissingRef {
			return nil, driver.Fail(driver.NotFound, op, err)
		}
		return nil, err
	}
	if len(inst.GetNetworkInterfaces()) == 0 {
		return nil, driver.Fail(driver.Invalid, op, fmt.Errorf("machine %s has no network interface", m.name))
	}
	return inst, nil
}

func (d *Driver) remove(_ context.Context, nic *computepb.NetworkInterface) ([]*computepb.AliasIpRange, bool, error) {
	rest := slices.DeleteFunc(slices.Clone(nic.GetAliasIpRanges()), func(r *computepb.AliasIpRange) bool { return isAlias(r, d.opts.LeaderIP) })
	return rest, len(rest) < len(nic.GetAliasIpRanges()), nil
}

func (d *Driver) add(ctx context.Context, nic *computepb.NetworkInterface) ([]*computepb.AliasIpRange, bool, error) {
	if hasAlias(nic, d.opts.LeaderIP) {
		return nil, false, nil
	}
	name, err := d.rangeName(ctx, nic)
	if err != nil {
		return nil, false, err
	}
	alias := &computepb.AliasIpRange{IpCidrRange: new(cidr(d.opts.LeaderIP))}
	if name != "" {
		alias.SubnetworkRangeName = &name
	}
	return append(slices.Clone(nic.GetAliasIpRanges()), alias), true, nil
}

// rangeName is the name of the range of the interface's subnet that has the
// address; "" is the primary one, and what is taken where the permission
// compute.subnetworks.get is missing.
func (d *Driver) rangeName(ctx context.Context, nic *computepb.NetworkInterface) (string, error) {
	s, err := d.subnet(nic.GetSubnetwork())
	if err != nil {
		return "", driver.Fail(driver.Invalid, opAssign, err)
	}
	got, err := d.api.subnets.Get(ctx, &computepb.GetSubnetworkRequest{Project: s.project, Region: s.region, Subnetwork: s.name})
	if err != nil {
		if err = fail(opAssign, reads, err); driver.KindOf(err) == driver.Auth {
			return "", nil
		}
		return "", err
	}
	name, ok := rangeOf(got, d.opts.LeaderIP)
	if !ok {
		return "", driver.Fail(driver.Invalid, opAssign, fmt.Errorf("server.leader_network.ip: %s is in no range of subnet %s; choose an address of its primary or a secondary range", d.opts.LeaderIP, s.path()))
	}
	return name, nil
}

// rangeOf is the name of the range of a subnet that has an address, and whether
// there is one. The primary range has no name.
func rangeOf(s *computepb.Subnetwork, ip netip.Addr) (name string, ok bool) {
	if within(s.GetIpCidrRange(), ip) {
		return "", true
	}
	for _, r := range s.GetSecondaryIpRanges() {
		if within(r.GetIpCidrRange(), ip) {
			return r.GetRangeName(), true
		}
	}
	return "", false
}

func within(text string, ip netip.Addr) bool {
	p, err := netip.ParsePrefix(text)
	return err == nil && p.Contains(ip)
}

func cidr(ip netip.Addr) string { return netip.PrefixFrom(ip, ip.BitLen()).String() }

func hasAlias(nic *computepb.NetworkInterface, ip netip.Addr) bool {
	return slices.ContainsFunc(nic.GetAliasIpRanges(), func(r *computepb.AliasIpRange) bool { return isAlias(r, ip) })
}

// isAlias reports whether a range is the address alone, in either form in which
// the cloud gives it back.
func isAlias(r *computepb.AliasIpRange, ip netip.Addr) bool {
	return r.GetIpCidrRange() == cidr(ip) || r.GetIpCidrRange() == ip.String()
}
