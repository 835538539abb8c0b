// Package leader moves the leader's network interface to the instance that this process runs on.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

const (
	moveTime  = time.Minute      // one attempt to move the interface, its waits included
	plainTime = 15 * time.Second // until an interface has left an instance that lives
	forceTime = 30 * time.Second // and one that it was taken from by force
	lookAgain = time.Second      // between two looks at an interface that is on its way

	mostIndexes = 4 // device indexes that one attempt tries
)

// Options are the settings of a [Network]. Without an interface there is none. The rest is
// required then.
type Options struct {
	IP        string // of the interface
	Interface string // its id, such as eni-0123456789abcdef0

	Log       *slog.Logger               // hears of force, and of a host that is not configured
	Addresses func() ([]net.Addr, error) // those of this box
}

// Network is the leader's network interface, and the instance that this process runs on. Make it
// with [New]. Methods are safe for concurrent use.
type Network struct {
	api    *api.Client
	opts   Options
	self   self
	warned atomic.Bool // the host lacked the leader's address when it was looked at last
}

// New returns the leader's network. It asks nothing.
func New(client *api.Client, opts Options) *Network { return &Network{api: client, opts: opts} }

var errNoLeaderNetwork = errors.New("no leader_network is configured")

// AssignLeaderNetwork attaches the leader's interface to this instance, and detaches it
// from another one before: a server that has lost its lease may not be there to let
// go. It returns once the interface is attached.
func (n *Network) AssignLeaderNetwork(ctx context.Context, _ driver.Addresses) error {
	const op = "assign-leader-network"
	if err := n.movable(ctx, op); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	self, err := n.SelfID(ctx)
	if err != nil {
		return err
	}
	eni, err := n.leaderInterface(ctx, op)
	if err != nil {
		return err
	}
	if !hasAddress(eni, n.opts.IP) {
		return driver.Fail(driver.Invalid, op, fmt.Errorf("%s has the addresses %v, and server.leader_network.ip is %s",
			n.opts.Interface, addressesOf(eni), n.opts.IP))
	}
	if !attachedTo(eni, self) {
		if holder(eni) != self || leaving(eni) { // a server that led on this very instance may just have detached it
			if err := n.move(ctx, op, eni, self); err != nil {
				return err
			}
		}
		if err := n.awaitInterface(ctx, op, moveTime, func(n types.NetworkInterface) bool { return attachedTo(n, self) }); err != nil {
			return err
		}
	}
	n.checkHost(ctx)
	return nil
}

// ReleaseLeaderNetwork detaches the interface, if this instance has it, and does
// not wait for that. It never uses force: the next leader does, if it has to.
func (n *Network) ReleaseLeaderNetwork(ctx context.Context) error {
	const op = "release-leader-network"
	if err := n.movable(ctx, op); err != nil {
		return err
	}
	self, err := n.SelfID(ctx)
	if err != nil {
		return err
	}
	eni, err := n.leaderInterface(ctx, op)
	if err != nil || holder(eni) != self || leaving(eni) {
		return err
	}
	return n.detach(ctx, op, eni, false)
}

func (n *Network) movable(ctx context.Context, op string) error {
	if err := api.Begin(ctx, op); err != nil {
		return err
	}
	if n.opts.Interface == "" {
		return driver.Fail(driver.Unsupported, op, errNoLeaderNetwork)
	}
	return nil
}

// move takes the interface from wherever it is and attaches it to self.
func (n *Network) move(ctx context.Context, op string, eni types.NetworkInterface, self string) error {
	if holder(eni) != "" {
		if err := n.detachElsewhere(ctx, op, eni); err != nil {
			return err
		}
	}
	return n.attach(ctx, op, self)
}

// detachElsewhere takes the interface from the instance that has it: plainly, and by force from
// one that has not detached it in time. Force may leave the index of the device blocked and
// the metadata of that instance wrong until it is stopped and started, so EC2 names it
// the last resort.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DetachNetworkInterface.html
func (n *Network) detachElsewhere(ctx context.Context, op string, eni types.NetworkInterface) error {
	if !leaving(eni) {
		if err := n.detach(ctx, op, eni, false); err != nil {
			return err
		}
	}
	err := n.awaitInterface(ctx, op, plainTime, available)
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil { // it has left, or nobody knows whether it does
		return err
	}
	now, err := n.leaderInterface(ctx, op)
	if err != nil {
		return err
	}
	if now.Attachment != nil {
		n.opts.Log.WarnContext(ctx, "detaching the leader's interface by force", "interface", n.opts.Interface,
			"instance", holder(now), "reason", fmt.Sprintf("not detached within %v", plainTime))
		if err := n.detach(ctx, op, now, true); err != nil {
			return err
		}
	}
	return n.awaitInterface(ctx, op, forceTime, available)
}

// attach puts the interface at the lowest device index of self that is free. One that
// force has blocked looks free in what EC2 describes; then it is the next.
func (n *Network) attach(ctx context.Context, op, self string) error {
	used, err := n.usedDevices(ctx, op, self)
	if err != nil {
		return err
	}
	for range mostIndexes {
		index := lowestFree(used)
		_, err = n.api.EC2.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
			NetworkInterfaceId: sdk.String(n.opts.Interface), InstanceId: sdk.String(self), DeviceIndex: sdk.Int32(index),
		})
		if !api.HasCode(err, "InvalidParameterValue") {
			break
		}
		used = append(used, index)
	}
	if err != nil {
		return api.Fail(op, api.Changes, err)
	}
	return nil
}

func (n *Network) detach(ctx context.Context, op string, eni types.NetworkInterface, force bool) error {
	_, err := n.api.EC2.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{
		AttachmentId: eni.Attachment.AttachmentId, Force: sdk.Bool(force),
	})
	if err != nil && !api.HasCode(err, "InvalidAttachmentID.NotFound") { // somebody was faster
		return api.Fail(op, api.Changes, err)
	}
	return nil
}

func (n *Network) leaderInterface(ctx context.Context, op string) (types.NetworkInterface, error) {
	out, err := n.api.EC2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{n.opts.Interface}})
	if err != nil {
		return types.NetworkInterface{}, api.Fail(op, api.Reads, err)
	}
	if len(out.NetworkInterfaces) != 1 {
		return types.NetworkInterface{}, driver.Fail(driver.MissingRef, op, fmt.Errorf("no network interface %s", n.opts.Interface))
	}
	return out.NetworkInterfaces[0], nil
}

// awaitInterface looks at the interface until it is as wanted.
func (n *Network) awaitInterface(ctx context.Context, op string, patience time.Duration, wanted func(types.NetworkInterface) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		eni, err := n.leaderInterface(ctx, op)
		if err != nil {
			return err
		}
		if wanted(eni) {
			return nil
		}
		select {
		case <-ctx.Done():
			return driver.Fail(driver.Transient, op, fmt.Errorf("%s is still %s: %w", n.opts.Interface, eni.Status, ctx.Err()))
		case <-time.After(lookAgain):
		}
	}
}

// usedDevices are the indexes at which self has an interface; 0 is its own.
func (n *Network) usedDevices(ctx context.Context, op, self string) ([]int32, error) {
	instances, err := n.api.Describe(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{self}})
	if err != nil {
		return nil, api.Fail(op, api.Reads, err)
	}
	var used []int32
	for _, i := range instances {
		for _, n := range i.NetworkInterfaces {
			if n.Attachment != nil {
				used = append(used, sdk.ToInt32(n.Attachment.DeviceIndex))
			}
		}
	}
	return used, nil
}

// lowestFree is the lowest index that is not used, above 0.
func lowestFree(used []int32) int32 {
	index := int32(1)
	for slices.Contains(used, index) {
		index++
	}
	return index
}

// checkHost warns where the box does not answer at the address, once until it does:
// EC2 attaches an interface, and the operating system has to configure it.
func (n *Network) checkHost(ctx context.Context) {
	addrs, err := n.opts.Addresses()
	configured := err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool { return isAddress(a, n.opts.IP) })
	if warned := n.warned.Swap(!configured); configured || warned {
		return
	}
	n.opts.Log.WarnContext(ctx, "leader's interface is attached, and no interface of this host has its address yet; "+
		"the operating system must configure it", "address", n.opts.IP, "interface", n.opts.Interface)
}

func isAddress(a net.Addr, ip string) bool {
	prefix, err := netip.ParsePrefix(a.String())
	want, wrong := netip.ParseAddr(ip)
	return err == nil && wrong == nil && prefix.Addr() == want
}

// holder is the instance that has the interface, or is about to get or lose it;
// empty: none.
func holder(n types.NetworkInterface) string {
	if n.Attachment == nil {
		return ""
	}
	return sdk.ToString(n.Attachment.InstanceId)
}

// leaving reports whether the interface is on its way off the instance that has it.
func leaving(n types.NetworkInterface) bool {
	return n.Attachment != nil && n.Attachment.Status == types.AttachmentStatusDetaching
}

func attachedTo(n types.NetworkInterface, instance string) bool {
	return holder(n) == instance && n.Attachment.Status == types.AttachmentStatusAttached
}

func available(n types.NetworkInterface) bool {
	return n.Status == types.NetworkInterfaceStatusAvailable
}

func hasAddress(n types.NetworkInterface, ip string) bool {
	want, err := netip.ParseAddr(ip)
	return err == nil && slices.Contains(addressesOf(n), want)
}

func addressesOf(n types.NetworkInterface) []netip.Addr {
	var all []netip.Addr
	for _, a := range n.PrivateIpAddresses {
		all = append(all, api.Address(a.PrivateIpAddress))
	}
	for _, a := range n.Ipv6Addresses {
		all = append(all, api.Address(a.Ipv6Address))
	}
	return all
}
