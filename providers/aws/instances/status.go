package instances

import (
	"cmp"
	"net/netip"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

// statuses are the meanings of the states of an instance.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html
var statuses = map[types.InstanceStateName]driver.Status{
	types.InstanceStateNamePending:      driver.Pending,
	types.InstanceStateNameRunning:      driver.Running,
	types.InstanceStateNameStopping:     driver.Stopping,
	types.InstanceStateNameStopped:      driver.Stopped,
	types.InstanceStateNameShuttingDown: driver.Deleting,
	types.InstanceStateNameTerminated:   driver.Deleted,
}

func statusOfState(state *types.InstanceState) driver.Status {
	if state == nil {
		return driver.Unknown
	}
	if s, known := statuses[state.Name]; known {
		return s
	}
	return driver.Unknown
}

// machineOf is what the server learns of an instance.
func machineOf(i types.Instance) driver.Machine {
	tags := tagMap(i.Tags)
	m := driver.Machine{
		RawID:      tags[identity.TagInstanceID],
		ProviderID: sdk.ToString(i.InstanceId),
		Status:     statusOfState(i.State),
		CreatedAt:  createdAt(i),
		Hostname:   sdk.ToString(i.PrivateDnsName),
		IPv4:       api.Address(i.PrivateIpAddress),
		IPv6:       firstIPv6(i),
		Tenant:     tags[identity.TagTenant],
		Group:      tags[identity.TagGroup],
		Template:   tags[identity.TagTemplate],
		Kind:       tags[identity.TagKind],
		SubnetID:   sdk.ToString(i.SubnetId),
		Type:       string(i.InstanceType),
	}
	if m.Status.Down() {
		m.Reason = reasonOf(i)
	}
	if id, err := identity.ParseID(m.RawID); err == nil && launchedFor(i, id) {
		m.InstanceID = id
	}
	return m
}

// reasonOf is why an instance left its last state. The message begins with the code,
// such as Client.InternalError of a launch whose encryption key may not be used.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
func reasonOf(i types.Instance) string {
	if r := i.StateReason; r != nil {
		return cmp.Or(sdk.ToString(r.Message), sdk.ToString(r.Code))
	}
	return sdk.ToString(i.StateTransitionReason)
}

// createdAt is when the primary network interface was attached: a stop and a start
// change the launch time and leave this.
func createdAt(i types.Instance) time.Time {
	for _, n := range i.NetworkInterfaces {
		if a := n.Attachment; a != nil && a.AttachTime != nil && sdk.ToInt32(a.DeviceIndex) == 0 {
			return *a.AttachTime
		}
	}
	return sdk.ToTime(i.LaunchTime)
}

func firstIPv6(i types.Instance) netip.Addr {
	if ip := api.Address(i.Ipv6Address); ip.IsValid() {
		return ip
	}
	for _, n := range i.NetworkInterfaces {
		for _, a := range n.Ipv6Addresses {
			if ip := api.Address(a.Ipv6Address); ip.IsValid() {
				return ip
			}
		}
	}
	return netip.Addr{}
}
