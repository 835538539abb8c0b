// Package leader moves the leader's address to the machine that this server runs on, as an
// alias address of its first interface.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/compute/metadata"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

const (
	opAssign  = "assign-leader-network"
	opRelease = "release-leader-network"
)

// Moving the address takes an operation or two. A change that meets another
// one's is made again from what is there then.
const (
	moveTimeout   = time.Minute
	conflictTries = 5
)

// Network is the leader's address, and the machine that this server runs on. Make it with
// [New]. Methods are safe for concurrent use.
type Network struct {
	api      *api.Client
	metadata *metadata.Client
	ip       netip.Addr
	log      *slog.Logger
}

// New returns the leader's network. It asks nothing. server sends the questions to the
// metadata server; nil: as the SDK does. The zero value of ip is no address.
func New(client *api.Client, server *http.Client, ip netip.Addr, log *slog.Logger) *Network {
	return &Network{api: client, metadata: metadataServer(server), ip: ip, log: log}
}

// AssignLeaderNetwork makes the leader's address an alias address of this
// machine's first interface, and takes it from the machine of the zone that has
// it. The error is of class Unsupported if no address is configured.
func (n *Network) AssignLeaderNetwork(ctx context.Context, _ driver.Addresses) error {
	me, ctx, cancel, err := n.beginMove(ctx, opAssign)
	if err != nil {
		return err
	}
	defer cancel()
	if kept, err := n.keeps(ctx, me); err != nil || kept {
		return err
	}
	if err := n.takeAway(ctx, me); err != nil {
		return err
	}
	return n.change(ctx, opAssign, me, n.add)
}

// ReleaseLeaderNetwork takes the leader's address from this machine. It does not
// wait until that is done: a server that stops has little time, and the next leader
// takes the address in any case.
func (n *Network) ReleaseLeaderNetwork(ctx context.Context) error {
	me, ctx, cancel, err := n.beginMove(ctx, opRelease)
	if err != nil {
		return err
	}
	defer cancel()
	return n.change(ctx, opRelease, me, n.remove)
}

func (n *Network) beginMove(ctx context.Context, op string) (self, context.Context, context.CancelFunc, error) {
	if !n.ip.IsValid() {
		return self{}, nil, nil, driver.Fail(driver.Unsupported, op, errors.New("server.leader_network is not configured"))
	}
	if err := api.Begin(ctx, op); err != nil {
		return self{}, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	me, err := n.self(ctx, op)
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
func (n *Network) keeps(ctx context.Context, me self) (bool, error) {
	inst, err := n.host(ctx, opAssign, me)
	if err != nil || !hasAlias(inst.GetNetworkInterfaces()[0], n.ip) {
		return false, err
	}
	changes, err := n.api.OperationsOn(ctx, me.zone, updateInterface, inst.GetId())
	if err != nil {
		return false, api.Fail(opAssign, api.Reads, err)
	}
	changes = slices.DeleteFunc(changes, func(op *computepb.Operation) bool { return !api.InProgress(op) })
	for _, running := range changes {
		if err := n.api.Finish(ctx, opAssign, running); err != nil && !explained(err) {
			return false, err
		}
	}
	if len(changes) == 0 {
		return true, nil
	}
	nic, err := n.nic(ctx, opAssign, me)
	return err == nil && hasAlias(nic, n.ip), err
}

// updateInterface is the type of the operations that change an interface.
const updateInterface = "updateNetworkInterface"

// explained reports whether err is what an operation came to that is done.
func explained(err error) bool {
	_, ok := errors.AsType[*api.OperationError](err)
	return ok
}

// takeAway removes the address from every other machine of this one's zone.
func (n *Network) takeAway(ctx context.Context, me self) error {
	var holders []self
	err := n.api.Each(ctx, opAssign, me.zone, "", func(inst *computepb.Instance) {
		nics := inst.GetNetworkInterfaces()
		if inst.GetName() != me.name && len(nics) > 0 && hasAlias(nics[0], n.ip) {
			holders = append(holders, self{zone: me.zone, name: inst.GetName()})
		}
	})
	if err != nil {
		return err
	}
	for _, h := range holders {
		if err := n.change(ctx, opAssign, h, n.remove); err != nil && !driver.IsNotFound(err) {
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
func (n *Network) change(ctx context.Context, op string, m self, edit edit) error {
	for try := 1; ; try++ {
		nic, err := n.nic(ctx, op, m)
		if err != nil {
			return err
		}
		ranges, change, err := edit(ctx, nic)
		if err != nil || !change {
			return err
		}
		running, err := n.write(ctx, op, m, nic, ranges)
		if err == nil && op != opRelease {
			err = n.api.Finish(ctx, op, running)
		}
		if err == nil || !conflict(err) || try == conflictTries {
			return err
		}
		n.log.DebugContext(ctx, "leader interface changed concurrently; retrying", "machine", m.name, "try", try)
	}
}

// conflict reports whether a change came too late for its fingerprint.
func conflict(err error) bool {
	failure, ok := errors.AsType[*api.OperationError](err)
	return api.ReasonOf(err) == api.ReasonFingerprint || ok && failure.Code == api.CodeConditionNotMet
}

// nic is the first interface of a machine.
func (n *Network) nic(ctx context.Context, op string, m self) (*computepb.NetworkInterface, error) {
	inst, err := n.host(ctx, op, m)
	if err != nil {
		return nil, err
	}
	return inst.GetNetworkInterfaces()[0], nil
}

// host is a machine that has an interface, in whatever zone.
func (n *Network) host(ctx context.Context, op string, m self) (*computepb.Instance, error) {
	inst, err := n.api.Instances.Get(ctx, &computepb.GetInstanceRequest{Project: n.api.Project, Zone: m.zone, Instance: m.name})
	if err != nil {
		if err = api.Fail(op, api.Reads, err); driver.ClassOf(err) == driver.MissingRef {
			return nil, driver.Fail(driver.NotFound, op, err)
		}
		return nil, err
	}
	if len(inst.GetNetworkInterfaces()) == 0 {
		return nil, driver.Fail(driver.Invalid, op, fmt.Errorf("machine %s has no network interface", m.name))
	}
	return inst, nil
}

func (n *Network) remove(_ context.Context, nic *computepb.NetworkInterface) ([]*computepb.AliasIpRange, bool, error) {
	rest := slices.DeleteFunc(slices.Clone(nic.GetAliasIpRanges()), func(r *computepb.AliasIpRange) bool { return isAlias(r, n.ip) })
	return rest, len(rest) < len(nic.GetAliasIpRanges()), nil
}

func (n *Network) add(ctx context.Context, nic *computepb.NetworkInterface) ([]*computepb.AliasIpRange, bool, error) {
	if hasAlias(nic, n.ip) {
		return nil, false, nil
	}
	name, err := n.rangeName(ctx, nic)
	if err != nil {
		return nil, false, err
	}
	alias := &computepb.AliasIpRange{IpCidrRange: new(cidr(n.ip))}
	if name != "" {
		alias.SubnetworkRangeName = &name
	}
	return append(slices.Clone(nic.GetAliasIpRanges()), alias), true, nil
}

// rangeName is the name of the range of the interface's subnet that has the
// address; "" is the primary one, and what is taken where the permission
// compute.subnetworks.get is missing.
func (n *Network) rangeName(ctx context.Context, nic *computepb.NetworkInterface) (string, error) {
	s, err := n.api.Subnet(nic.GetSubnetwork())
	if err != nil {
		return "", driver.Fail(driver.Invalid, opAssign, err)
	}
	got, err := n.api.Subnets.Get(ctx, &computepb.GetSubnetworkRequest{Project: s.Project, Region: s.Region, Subnetwork: s.Name})
	if err != nil {
		if err = api.Fail(opAssign, api.Reads, err); driver.ClassOf(err) == driver.Auth {
			return "", nil
		}
		return "", err
	}
	name, ok := rangeOf(got, n.ip)
	if !ok {
		return "", driver.Fail(driver.Invalid, opAssign, fmt.Errorf("server.leader_network.ip: %s is in no range of subnet %s; choose an address of its primary or a secondary range", n.ip, s.Path()))
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
