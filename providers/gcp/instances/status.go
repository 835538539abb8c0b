package instances

import (
	"net/netip"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// statuses are the cloud's words for a machine's state; see
// https://cloud.google.com/compute/docs/instances/instance-lifecycle. A machine
// under repair may come back by itself, so nothing is said of it.
var statuses = map[string]driver.Status{
	"PROVISIONING":   driver.Pending,
	"STAGING":        driver.Pending,
	"PENDING":        driver.Pending,
	"RUNNING":        driver.Running,
	"STOPPING":       driver.Stopping,
	"PENDING_STOP":   driver.Stopping,
	"SUSPENDING":     driver.Stopping,
	"SUSPENDED":      driver.Suspended,
	"STOPPED":        driver.Stopped,
	"TERMINATED":     driver.Stopped,
	"REPAIRING":      driver.Unknown,
	"DEPROVISIONING": driver.Deleting,
}

func statusOf(word string) driver.Status {
	if s, ok := statuses[word]; ok {
		return s
	}
	return driver.Unknown
}

// machineOf is what the server learns of an instance.
func machineOf(p api.Place, inst *computepb.Instance) driver.Machine {
	labels := inst.GetLabels()
	m := driver.Machine{
		RawID:      labels[labelInstanceID],
		ProviderID: inst.GetName(),
		Status:     statusOf(inst.GetStatus()),
		Hostname:   inst.GetHostname(),
		Tenant:     labels[labelTenant],
		Group:      labels[labelGroup],
		Template:   labels[labelTemplate],
		Kind:       labels[labelKind],
		Type:       api.BaseName(inst.GetMachineType()),
	}
	if m.Status.Down() {
		m.Reason = inst.GetStatusMessage()
	}
	// A machine that somebody made after the pattern of ours has its labels, and not its
	// name.
	if id, err := identity.ParseID(m.RawID); err == nil && m.ProviderID == m.RawID {
		m.InstanceID = id
	}
	if m.Hostname == "" {
		m.Hostname = inst.GetName()
	}
	if at, err := time.Parse(time.RFC3339, inst.GetCreationTimestamp()); err == nil {
		m.CreatedAt = at
	}
	if nics := inst.GetNetworkInterfaces(); len(nics) > 0 {
		m.IPv4 = address(nics[0].GetNetworkIP())
		m.IPv6 = address(nics[0].GetIpv6Address())
		m.SubnetID = p.Short(nics[0].GetSubnetwork())
	}
	return m
}

// address is the zero value for what is none.
func address(text string) netip.Addr {
	addr, _ := netip.ParseAddr(text)
	return addr
}
