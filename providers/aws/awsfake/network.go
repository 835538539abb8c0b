package awsfake

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// netInterface is a network interface, and where it is attached.
type netInterface struct {
	Interface
	machine    string // "": nowhere
	attachment string
	index      int       // of the device
	since      time.Time // of the attachment
	detaching  bool      // its detachment was asked for
	leaves     time.Time // when it will have been detached; the zero value: it stays
}

// mac is the hardware address of an interface. It is the interface's for ever.
func (i *netInterface) mac() string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(i.ID)) // never fails
	h := sum.Sum32()
	return fmt.Sprintf("0a:fa:%02x:%02x:%02x:%02x", byte(h>>24), byte(h>>16), byte(h>>8), byte(h))
}

// free takes an interface away from wherever it is.
func (i *netInterface) free() { *i = netInterface{Interface: i.Interface} }

// attached returns the interfaces that were attached to a machine, by their index.
func (c *Cloud) attached(machine string) []*netInterface {
	var found []*netInterface
	for _, i := range c.interfaces {
		if i.machine == machine {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b *netInterface) int { return cmp.Compare(a.index, b.index) })
	return found
}

// letGo takes away the interfaces that have left by now, and those of machines that
// have ended.
func (c *Cloud) letGo(now time.Time) {
	for _, i := range c.interfaces {
		if i.machine == "" {
			continue
		}
		m := c.find(i.machine)
		if m == nil || m.is(now, terminated) || !i.leaves.IsZero() && !now.Before(i.leaves) {
			i.free()
		}
	}
}

type interfacesReply struct {
	reply
	Interfaces set[interfaceItem] `xml:"networkInterfaceSet"`
	NextToken  string             `xml:"nextToken,omitempty"`
}

// interfaceItem is the type NetworkInterface of the API reference.
type interfaceItem struct {
	ID         string                       `xml:"networkInterfaceId"`
	SubnetID   string                       `xml:"subnetId"`
	VpcID      string                       `xml:"vpcId"`
	Zone       string                       `xml:"availabilityZone"`
	OwnerID    string                       `xml:"ownerId"`
	Status     types.NetworkInterfaceStatus `xml:"status"`
	PrivateIP  string                       `xml:"privateIpAddress"`
	Addresses  set[addressItem]             `xml:"privateIpAddressesSet"`
	Groups     set[groupItem]               `xml:"groupSet"`
	Attachment *attachmentItem              `xml:"attachment"`
}

type addressItem struct {
	PrivateIP string `xml:"privateIpAddress"`
	Primary   bool   `xml:"primary"`
}

type attachmentItem struct {
	ID                  string                 `xml:"attachmentId"`
	InstanceID          string                 `xml:"instanceId"`
	DeviceIndex         int                    `xml:"deviceIndex"`
	Status              types.AttachmentStatus `xml:"status"`
	AttachTime          string                 `xml:"attachTime"`
	DeleteOnTermination bool                   `xml:"deleteOnTermination"`
}

func (c *Cloud) describeNetworkInterfaces(in *ec2.DescribeNetworkInterfacesInput) (any, error) {
	for _, id := range in.NetworkInterfaceIds {
		if c.interfaces[id] == nil {
			return nil, refuse("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
		}
	}
	keep, err := filtered(in.Filters, filters[*netInterface]{
		"network-interface-id":         func(i *netInterface) []string { return one(i.ID) },
		"subnet-id":                    func(i *netInterface) []string { return one(i.Subnet) },
		"private-ip-address":           func(i *netInterface) []string { return one(i.IPv4.String()) },
		"addresses.private-ip-address": func(i *netInterface) []string { return one(i.IPv4.String()) },
		"attachment.instance-id":       func(i *netInterface) []string { return one(i.machine) },
	})
	if err != nil {
		return nil, err
	}
	var found []*netInterface
	for _, id := range slices.Sorted(maps.Keys(c.interfaces)) {
		i := c.interfaces[id]
		if keep(i) && (len(in.NetworkInterfaceIds) == 0 || slices.Contains(in.NetworkInterfaceIds, id)) {
			found = append(found, i)
		}
	}
	shown, next, err := page(c, found, in.MaxResults, in.NextToken, func(i *netInterface) int { return slices.Index(found, i) })
	if err != nil {
		return nil, err
	}
	r := &interfacesReply{NextToken: next}
	for _, i := range shown {
		r.Interfaces.Items = append(r.Interfaces.Items, c.interfaceItem(i))
	}
	return r, nil
}

func (c *Cloud) interfaceItem(i *netInterface) interfaceItem {
	item := interfaceItem{
		ID: i.ID, SubnetID: i.Subnet, VpcID: c.account.VPC, Zone: c.zone(i.Subnet), OwnerID: c.account.ID,
		Status: types.NetworkInterfaceStatusAvailable, PrivateIP: i.IPv4.String(),
		Addresses: set[addressItem]{[]addressItem{{i.IPv4.String(), true}}},
		Groups:    groupItems(c.account.SecurityGroups[:1]),
	}
	if i.machine == "" {
		return item
	}
	item.Status = types.NetworkInterfaceStatusInUse
	item.Attachment = &attachmentItem{
		ID: i.attachment, InstanceID: i.machine, DeviceIndex: i.index,
		Status: types.AttachmentStatusAttached, AttachTime: timestamp(i.since),
	}
	if i.detaching {
		item.Status, item.Attachment.Status = types.NetworkInterfaceStatusDetaching, types.AttachmentStatusDetaching
	}
	return item
}

// zone is where a subnet is.
func (c *Cloud) zone(subnet string) string {
	for _, s := range c.account.Subnets {
		if s.ID == subnet {
			return s.Zone
		}
	}
	return ""
}

// stick leaves behind, on the machine, what a detachment by force does.
func (m *machine) stick(i *netInterface) {
	if m.stuck == nil {
		m.stuck = map[int]*netInterface{}
	}
	left := *i
	m.stuck[i.index] = &left
}

type attachReply struct {
	reply
	ID string `xml:"attachmentId"`
}

// mostInterfaces is what the smallest types can carry.
const mostInterfaces = 2

func (c *Cloud) attachNetworkInterface(in *ec2.AttachNetworkInterfaceInput) (any, error) {
	switch {
	case in.NetworkInterfaceId == nil:
		return nil, missing("networkInterfaceId")
	case in.InstanceId == nil:
		return nil, missing("instanceId")
	case in.DeviceIndex == nil:
		return nil, missing("deviceIndex")
	}
	i := c.interfaces[*in.NetworkInterfaceId]
	if i == nil {
		return nil, refuse("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", *in.NetworkInterfaceId)
	}
	machines, err := c.named([]string{*in.InstanceId}, c.known())
	if err != nil {
		return nil, err
	}
	m, index, now := machines[0], int(*in.DeviceIndex), time.Now()
	there := c.attached(m.id)
	switch {
	case i.machine != "":
		return nil, refuse("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", i.ID)
	case !m.is(now, running, stopped):
		return nil, refuse("IncorrectInstanceState", "Instance '%s' is not in the 'running' or 'stopped' state.", m.id)
	case c.zone(i.Subnet) != m.subnet.Zone:
		return nil, refuse("InvalidParameterCombination", "You may not attach a network interface to an instance if they are not in the same availability zone")
	case index == 0, m.stuck[index] != nil, slices.ContainsFunc(there, func(o *netInterface) bool { return o.index == index }):
		return nil, refuse("InvalidParameterValue", "Instance '%s' already has an interface attached at device index '%d'.", m.id, index)
	case len(there)+2 > mostInterfaces:
		return nil, refuse("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", len(there)+2, m.kind.Name)
	}
	*i = netInterface{Interface: i.Interface, machine: m.id, attachment: c.nextID("eni-attach-"), index: index, since: now}
	return &attachReply{ID: i.attachment}, nil
}

type doneReply struct {
	reply
	Return bool `xml:"return"`
}

// detachNetworkInterface takes Options.Detach. A machine that hangs lets go of an
// interface by force alone. What the reference says may follow from force, does: until
// the machine was stopped, nothing can be attached at the index of the device, and the
// machine's metadata goes on to show the interface ("DetachNetworkInterface").
func (c *Cloud) detachNetworkInterface(in *ec2.DetachNetworkInterfaceInput) (any, error) {
	if in.AttachmentId == nil {
		return nil, missing("attachmentId")
	}
	now := time.Now()
	for _, i := range c.interfaces {
		if i.machine != "" && i.attachment == *in.AttachmentId {
			m, force := c.find(i.machine), aws.ToBool(in.Force)
			if i.leaves.IsZero() && (force || !m.hangs) {
				i.leaves = now.Add(c.opts.Detach)
			}
			if force && m.is(now, running) {
				m.stick(i)
			}
			i.detaching = true
			return &doneReply{Return: true}, nil
		}
	}
	return nil, refuse("InvalidAttachmentID.NotFound", "The attachment ID '%s' does not exist", aws.ToString(in.AttachmentId))
}
