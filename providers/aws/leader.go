package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

const (
	moveTime  = time.Minute      // one attempt to move the interface, its waits included
	plainTime = 15 * time.Second // until an interface has left an instance that lives
	forceTime = 30 * time.Second // and one that it was taken from by force
	lookAgain = time.Second      // between two looks at an interface that is on its way

	mostIndexes = 4 // device indexes that one attempt tries
)

var errNoLeaderNetwork = errors.New("no leader_network is configured")

// AssignLeaderNetwork attaches the leader's interface to this instance, and detaches it
// from another one before: a server that has lost its lease may not be there to let
// go. It returns once the interface is attached.
func (d *Driver) AssignLeaderNetwork(ctx context.Context, _ driver.Addresses) error {
	const op = "assign-leader-network"
	if err := d.movable(ctx, op); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	self, err := d.SelfID(ctx)
	if err != nil {
		return err
	}
	eni, err := d.leaderInterface(ctx, op)
	if err != nil {
		return err
	}
	if !carries(eni, d.opts.LeaderIP) {
		return driver.Fail(driver.Invalid, op, fmt.Errorf("%s has the addresses %v, and server.leader_network.ip is %s",
			d.opts.LeaderInterface, addressesOf(eni), d.opts.LeaderIP))
	}
	if !attachedTo(eni, self) {
		if holder(eni) != self || leaving(eni) { // a server that led on this very instance may just have let go
			if err := d.bring(ctx, op, eni, self); err != nil {
				return err
			}
		}
		if err := d.awaitInterface(ctx, op, moveTime, func(n types.NetworkInterface) bool { return attachedTo(n, self) }); err != nil {
			return err
		}
	}
	d.checkHost(ctx)
	return nil
}

// ReleaseLeaderNetwork detaches the interface, if this instance has it, and does
// not wait for that. It never uses force: the next leader does, if it has to.
func (d *Driver) ReleaseLeaderNetwork(ctx context.Context) error {
	const op = "release-leader-network"
	if err := d.movable(ctx, op); err != nil {
		return err
	}
	self, err := d.SelfID(ctx)
	if err != nil {
		return err
	}
	eni, err := d.leaderInterface(ctx, op)
	if err != nil || holder(eni) != self || leaving(eni) {
		return err
	}
	return d.detach(ctx, op, eni, false)
}

func (d *Driver) movable(ctx context.Context, op string) error {
	if err := begin(ctx, op); err != nil {
		return err
	}
	if d.opts.LeaderInterface == "" {
		return driver.Fail(driver.Unsupport, op, errNoLeaderNetwork)
	}
	return nil
}

// bring takes the interface from wherever it is and attaches it to self.
func (d *Driver) bring(ctx context.Context, op string, eni types.NetworkInterface, self string) error {
	if holder(eni) != "" {
		if err := d.vacate(ctx, op, eni); err != nil {
			return err
		}
	}
	return d.attach(ctx, op, self)
}

// vacate takes the interface from the instance that has it: plainly, and by force from
// one that has not let go in time. Force may leave the index of the device blocked and
// the metadata of that instance wrong until it is stopped and started, so EC2 names it
// the last resort.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DetachNetworkInterface.html
func (d *Driver) vacate(ctx context.Context, op string, eni types.NetworkInterface) error {
	if !leaving(eni) {
		if err := d.detach(ctx, op, eni, false); err != nil {
			return err
		}
	}
	err := d.awaitInterface(ctx, op, plainTime, available)
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil { // it has left, or nobody knows whether it does
		return err
	}
	now, err := d.leaderInterface(ctx, op)
	if err != nil {
		return err
	}
	if now.Attachment != nil {
		d.opts.Log.WarnContext(ctx, "detaching the leader's interface by force", "interface", d.opts.LeaderInterface,
			"instance", holder(now), "reason", fmt.Sprintf("not detached within %v", plainTime))
		if err := d.detach(ctx, op, now, true); err != nil {
			return err
		}
	}
	return d.awaitInterface(ctx, op, forceTime, available)
}

// attach puts the interface at the lowest device index of self that is free. One that
// force has blocked looks free in what EC2 describes; then it is the next.
func (d *Driver) attach(ctx context.Context, op, self string) error {
	used, err := d.usedDevices(ctx, op, self)
	if err != nil {
		return err
	}
	for range mostIndexes {
		index := lowestFree(used)
		_, err = d.ec2.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
			NetworkInterfaceId: sdk.String(d.opts.LeaderInterface), InstanceId: sdk.String(self), DeviceIndex: sdk.Int32(index),
		})
		if !codeIs(err, "InvalidParameterValue") {
			break
		}
		used = append(used, index)
	}
	if err != nil {
		return fail(op, changes, err)
	}
	return nil
}

func (d *Driver) detach(ctx context.Context, op string, eni types.NetworkInterface, force bool) error {
	_, err := d.ec2.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{
		AttachmentId: eni.Attachment.AttachmentId, Force: sdk.Bool(force),
	})
	if err != nil && !codeIs(err, "InvalidAttachmentID.NotFound") { // somebody was faster
		return fail(op, changes, err)
	}
	return nil
}

func (d *Driver) leaderInterface(ctx context.Context, op string) (types.NetworkInterface, error) {
	out, err := d.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{d.opts.LeaderInterface}})
	if err != nil {
		return types.NetworkInterface{}, fail(op, reads, err)
	}
	if len(out.NetworkInterfaces) != 1 {
		return types.NetworkInterface{}, driver.Fail(driver.MissingRef, op, fmt.Errorf("no network interface %s", d.opts.LeaderInterface))
	}
	return out.NetworkInterfaces[0], nil
}

// awaitInterface looks at the interface until it is as wanted.
func (d *Driver) awaitInterface(ctx context.Context, op string, patience time.Duration, wanted func(types.NetworkInterface) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		eni, err := d.leaderInterface(ctx, op)
		if err != nil {
			return err
		}
		if wanted(eni) {
			return nil
		}
		select {
		case <-ctx.Done():
			return driver.Fail(driver.Transient, op, fmt.Errorf("%s is still %s: %w", d.opts.LeaderInterface, eni.Status, ctx.Err()))
		case <-time.After(lookAgain):
		}
	}
}

// usedDevices are the indexes at which self has an interface; 0 is its own.
func (d *Driver) usedDevices(ctx context.Context, op, self string) ([]int32, error) {
	instances, err := d.describe(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{self}})
	if err != nil {
		return nil, fail(op, reads, err)
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
func (d *Driver) checkHost(ctx context.Context) {
	addrs, err := d.opts.Addresses()
	configured := err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool { return isAddress(a, d.opts.LeaderIP) })
	if warned := d.deaf.Swap(!configured); configured || warned {
		return
	}
	d.opts.Log.WarnContext(ctx, "leader's interface is attached, and no interface of this host has its address yet; "+
		"the operating system must configure it", "address", d.opts.LeaderIP, "interface", d.opts.LeaderInterface)
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

func carries(n types.NetworkInterface, ip string) bool {
	want, err := netip.ParseAddr(ip)
	return err == nil && slices.Contains(addressesOf(n), want)
}

func addressesOf(n types.NetworkInterface) []netip.Addr {
	var all []netip.Addr
	for _, a := range n.PrivateIpAddresses {
		all = append(all, address(a.PrivateIpAddress))
	}
	for _, a := range n.Ipv6Addresses {
		all = append(all, address(a.Ipv6Address))
	}
	return all
}
