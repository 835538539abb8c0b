package awsfake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// set is a list as EC2 writes it.
type set[T any] struct {
	Items []T `xml:"item"`
}

type tagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func tagItems(tags map[string]string) set[tagItem] {
	var s set[tagItem]
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		s.Items = append(s.Items, tagItem{key, tags[key]})
	}
	return s
}

type stateItem struct {
	Code int                     `xml:"code"`
	Name types.InstanceStateName `xml:"name"`
}

func stateOf(name types.InstanceStateName) stateItem { return stateItem{stateCodes[name], name} }

type groupItem struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

func groupItems(ids []string) set[groupItem] {
	var s set[groupItem]
	for _, id := range ids {
		s.Items = append(s.Items, groupItem{id, "group " + id})
	}
	return s
}

type reservationItem struct {
	ReservationID string            `xml:"reservationId"`
	OwnerID       string            `xml:"ownerId"`
	Instances     set[instanceItem] `xml:"instancesSet"`
}

// reservationReply is the answer of RunInstances.
type reservationReply struct {
	reply
	reservationItem
}

// instancesReply is the answer of DescribeInstances.
type instancesReply struct {
	reply
	Reservations set[reservationItem] `xml:"reservationSet"`
	NextToken    string               `xml:"nextToken,omitempty"`
}

// instanceItem is the type Instance of the API reference, as far as it has a
// meaning here.
type instanceItem struct {
	InstanceID     string           `xml:"instanceId"`
	ImageID        string           `xml:"imageId"`
	State          stateItem        `xml:"instanceState"`
	PrivateDNSName string           `xml:"privateDnsName"`
	Reason         string           `xml:"reason"`
	StateReason    *stateReason     `xml:"stateReason"`
	KeyName        string           `xml:"keyName,omitempty"`
	ClientToken    string           `xml:"clientToken,omitempty"`
	InstanceType   string           `xml:"instanceType"`
	LaunchTime     string           `xml:"launchTime"`
	Zone           string           `xml:"placement>availabilityZone"`
	SubnetID       string           `xml:"subnetId,omitempty"`
	VpcID          string           `xml:"vpcId,omitempty"`
	PrivateIP      string           `xml:"privateIpAddress,omitempty"`
	IPv6           string           `xml:"ipv6Address,omitempty"`
	Architecture   string           `xml:"architecture"`
	RootDevice     string           `xml:"rootDeviceName"`
	Lifecycle      string           `xml:"instanceLifecycle,omitempty"`
	Groups         set[groupItem]   `xml:"groupSet"`
	Interfaces     set[instanceNIC] `xml:"networkInterfaceSet"`
	Tags           set[tagItem]     `xml:"tagSet"`
}

// instanceNIC is the type InstanceNetworkInterface.
type instanceNIC struct {
	ID          string        `xml:"networkInterfaceId"`
	SubnetID    string        `xml:"subnetId"`
	PrivateIP   string        `xml:"privateIpAddress"`
	Status      string        `xml:"status"`
	DeviceIndex int           `xml:"attachment>deviceIndex"`
	IPv6        set[ipv6Item] `xml:"ipv6AddressesSet"`
}

type ipv6Item struct {
	Address string `xml:"ipv6Address"`
}

// timestamp is a time as EC2 writes it.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// describe shows a machine as it was at a time. A terminated one has no network any
// more.
func (m *machine) describe(c *Cloud, when time.Time) instanceItem {
	at, _ := m.life.at(when)
	item := instanceItem{
		InstanceID: m.id, ImageID: m.image.ID, State: stateOf(at.state), ClientToken: m.token,
		InstanceType: m.kind.Name, LaunchTime: timestamp(m.born), Zone: m.subnet.Zone,
		Architecture: string(m.kind.Architecture), RootDevice: "/dev/xvda", Tags: tagItems(m.tags),
	}
	if m.spot && c.opts.HideSpotTokens {
		item.ClientToken = ""
	}
	if m.spot {
		item.Lifecycle = string(types.InstanceLifecycleTypeSpot)
	}
	if at.reason != (stateReason{}) {
		item.StateReason = &at.reason
		item.Reason = fmt.Sprintf("User initiated (%s)", at.since.UTC().Format("2006-01-02 15:04:05 GMT"))
	}
	if at.state == terminated {
		return item
	}
	item.SubnetID, item.VpcID, item.PrivateIP = m.subnet.ID, c.account.VPC, m.ipv4.String()
	item.PrivateDNSName = m.hostname(c.opts.Region)
	item.Groups = groupItems(m.groups)
	nic := instanceNIC{ID: m.nic, SubnetID: m.subnet.ID, PrivateIP: item.PrivateIP, Status: "in-use"}
	if m.wantsIPv6 {
		item.IPv6 = m.ipv6.String()
		nic.IPv6.Items = []ipv6Item{{item.IPv6}}
	}
	item.Interfaces.Items = []instanceNIC{nic}
	for _, i := range c.attached(m.id) {
		item.Interfaces.Items = append(item.Interfaces.Items, instanceNIC{
			ID: i.ID, SubnetID: i.Subnet, PrivateIP: i.IPv4.String(), Status: "in-use", DeviceIndex: i.index,
		})
	}
	return item
}

// hostname is what the DHCP server of a VPC calls a machine.
func (m *machine) hostname(region string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(m.ipv4.String(), ".", "-") + "." + domain
}
