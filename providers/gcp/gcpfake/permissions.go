package gcpfake

import (
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// permissions are what a method asks of its caller, as its reference page says.
// https://docs.cloud.google.com/compute/docs/reference/rest/v1 and
// https://docs.cloud.google.com/iam/docs/roles-permissions/compute
var permissions = map[string][]string{
	"instances.insert":                             {"compute.instances.create", "compute.disks.create", "compute.subnetworks.use"},
	"instances.get":                                {"compute.instances.get"},
	"instances.list":                               {"compute.instances.list"},
	"instances.delete":                             {"compute.instances.delete"},
	"instances.stop":                               {"compute.instances.stop"},
	"instances.start":                              {"compute.instances.start"},
	"instances.reset":                              {"compute.instances.reset"},
	"instances.getSerialPortOutput":                {"compute.instances.getSerialPortOutput"},
	"instances.suspend":                            {"compute.instances.suspend"},
	"instances.resume":                             {"compute.instances.resume"},
	"instances.simulateMaintenanceEvent":           {"compute.instances.simulateMaintenanceEvent"},
	"instances.setLabels":                          {"compute.instances.setLabels"},
	"instances.updateNetworkInterface":             {"compute.instances.updateNetworkInterface"},
	"instanceGroups.insert":                        {"compute.instanceGroups.create"},
	"instanceGroups.get":                           {"compute.instanceGroups.get"},
	"instanceGroups.list":                          {"compute.instanceGroups.list"},
	"instanceGroups.addInstances":                  {"compute.instanceGroups.update", "compute.instances.use"},
	"instanceGroups.removeInstances":               {"compute.instanceGroups.update"},
	"instanceGroups.listInstances":                 {"compute.instanceGroups.list"},
	"networkEndpointGroups.insert":                 {"compute.networkEndpointGroups.create"},
	"networkEndpointGroups.get":                    {"compute.networkEndpointGroups.get"},
	"networkEndpointGroups.list":                   {"compute.networkEndpointGroups.list"},
	"networkEndpointGroups.attachNetworkEndpoints": {"compute.networkEndpointGroups.attachNetworkEndpoints", "compute.instances.use"},
	"networkEndpointGroups.detachNetworkEndpoints": {"compute.networkEndpointGroups.detachNetworkEndpoints"},
	"networkEndpointGroups.listNetworkEndpoints":   {"compute.networkEndpointGroups.get"},
	"zones.get":                                    {"compute.zones.get"},
	"zones.list":                                   {"compute.zones.list"},
	"machineTypes.get":                             {"compute.machineTypes.get"},
	"machineTypes.list":                            {"compute.machineTypes.list"},
	"subnetworks.get":                              {"compute.subnetworks.get"},
	"subnetworks.list":                             {"compute.subnetworks.list"},
	"zoneOperations.get":                           {"compute.zoneOperations.get"},
	"zoneOperations.list":                          {"compute.zoneOperations.list"},
	"zoneOperations.wait":                          {"compute.zoneOperations.get"},
}

// needed are the permissions that a request takes: those of its method, and for a new
// machine those for what it is to have.
func needed(op string, in proto.Message) []string {
	all := slices.Clone(permissions[op])
	insert, ok := in.(*computepb.InsertInstanceRequest)
	if !ok {
		return all
	}
	m := insert.GetInstanceResource()
	for permission, needs := range map[string]bool{
		"compute.instances.setLabels":         len(m.GetLabels()) > 0,
		"compute.instances.setMetadata":       len(m.GetMetadata().GetItems()) > 0,
		"compute.instances.setTags":           len(m.GetTags().GetItems()) > 0,
		"compute.instances.setServiceAccount": len(m.GetServiceAccounts()) > 0,
		"iam.serviceAccounts.actAs":           len(m.GetServiceAccounts()) > 0,
		"compute.disks.setLabels": slices.ContainsFunc(m.GetDisks(), func(d *computepb.AttachedDisk) bool {
			return len(d.GetInitializeParams().GetLabels()) > 0
		}),
		"compute.subnetworks.useExternalIp": slices.ContainsFunc(m.GetNetworkInterfaces(), func(n *computepb.NetworkInterface) bool {
			return len(n.GetAccessConfigs()) > 0
		}),
	} {
		if needs {
			all = append(all, permission)
		}
	}
	slices.Sort(all)
	return all
}

// permitted checks the caller's permissions. Those that calls took so far are noted.
func (c *Cloud) permitted(op string, in proto.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range needed(op, in) {
		if c.opts.Permissions != nil && !slices.Contains(c.opts.Permissions, p) {
			return forbidden(p, "projects/"+c.opts.Project)
		}
		c.used[p] = true
	}
	return nil
}

// Permissions are those that calls took so far, in order: what a role needs for just
// what was done.
func (c *Cloud) Permissions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return keys(c.used)
}
