package gcpfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// updateInterface changes the alias addresses of an interface. It is a PATCH: without
// aliasIpRanges in the body they stay, and an empty list takes them all away. The
// fingerprint must be that of what is there; it is another one from then on.
// https://docs.cloud.google.com/compute/docs/reference/rest/v1/instances/updateNetworkInterface
func (c *Cloud) updateInterface(about call, in *computepb.UpdateNetworkInterfaceInstanceRequest) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		i, err := c.exists(in.GetProject(), in.GetZone(), in.GetInstance())
		if err != nil {
			return nil, err
		}
		wanted := in.GetNetworkInterfaceResource()
		if err := c.mayUpdate(i, in.GetNetworkInterface(), wanted); err != nil {
			return nil, err
		}
		op := c.begin("zones/"+i.zone, "updateNetworkInterface", i.below(), i.pb.GetId())
		c.after(c.conditions.Work, func() { c.finish(op, c.update(i, wanted, says(about.body, "aliasIpRanges"))) })
		return op, nil
	})
}

// update carries an update out at the end of its operation: until then the interface
// shows what it had. One that was changed since the call stays as it is.
func (c *Cloud) update(i *instance, wanted *computepb.NetworkInterface, aliases bool) *failure {
	nic := i.pb.GetNetworkInterfaces()[0]
	switch {
	case c.instances[i.place()] != i:
		return &failure{http.StatusNotFound, "RESOURCE_NOT_FOUND", fmt.Sprintf("The resource '%s' was not found", c.path(i.below()))}
	case wanted.GetFingerprint() != nic.GetFingerprint():
		return &failure{http.StatusPreconditionFailed, "CONDITION_NOT_MET", staleInterface}
	}
	if aliases {
		if failed := c.realias(i, wanted.GetAliasIpRanges()); failed != nil {
			return failed
		}
		nic.AliasIpRanges = wanted.GetAliasIpRanges()
	}
	nic.Fingerprint = new(fingerprint("nic", fmt.Sprint(c.id())))
	return nil
}

const staleInterface = "Supplied fingerprint does not match current network interface fingerprint."

// says reports whether a body has a field, be it empty.
func says(body []byte, field string) bool {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(body, &fields) // it was read before
	return fields[field] != nil
}

// mayUpdate checks what an update asks for, and on what it is based.
func (c *Cloud) mayUpdate(i *instance, name string, wanted *computepb.NetworkInterface) error {
	nic := i.pb.GetNetworkInterfaces()[0]
	switch {
	case name != nic.GetName():
		return invalidField("networkInterface", name, "The instance has no such network interface.")
	case i.leaving():
		return notReady(c.path(i.below()))
	case len(wanted.GetAccessConfigs()) > 0:
		return invalidField("resource.accessConfigs", "", "Updating this field is not supported.")
	case wanted.NetworkIP != nil && wanted.GetNetworkIP() != nic.GetNetworkIP():
		return invalidField("resource.networkIP", wanted.GetNetworkIP(), "This fake moves no machine to another address.")
	case wanted.GetFingerprint() == "":
		return required("resource.fingerprint")
	case wanted.GetFingerprint() != nic.GetFingerprint():
		return conditionNotMet(staleInterface)
	}
	if wanted.Subnetwork != nil {
		s, err := c.subnetOf(wanted, "resource")
		if err != nil {
			return err
		}
		if s != i.subnet {
			return invalidField("resource.subnetwork", wanted.GetSubnetwork(), "This fake moves no machine to another subnetwork.")
		}
	}
	return checkAliases(i.subnet, wanted.GetAliasIpRanges(), "resource")
}

// realias gives a machine other alias ranges. If one is another's all stays as it is.
func (c *Cloud) realias(i *instance, wanted []*computepb.AliasIpRange) *failure {
	own := single(c.machine(i).IP)
	used := maps.Clone(i.subnet.used)
	i.subnet.release(i)
	i.subnet.used[own] = i
	for _, alias := range wanted {
		of := aliasPrefix(alias)
		if i.subnet.holder(of) != nil {
			i.subnet.used = used
			return inUse(alias.GetIpCidrRange())
		}
		i.subnet.used[of] = i
	}
	return nil
}

// setLabels replaces all labels of a machine.
func (c *Cloud) setLabels(_ call, in *computepb.SetLabelsInstanceRequest) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		i, err := c.exists(in.GetProject(), in.GetZone(), in.GetInstance())
		if err != nil {
			return nil, err
		}
		wanted := in.GetInstancesSetLabelsRequestResource()
		if err := validLabels(wanted.GetLabels()); err != nil {
			return nil, err
		}
		switch wanted.GetLabelFingerprint() {
		case "":
			return nil, required("resource.labelFingerprint")
		case i.pb.GetLabelFingerprint():
		default:
			return nil, conditionNotMet("Labels fingerprint either invalid or resource labels have changed")
		}
		i.pb.Labels = wanted.GetLabels()
		i.pb.LabelFingerprint = new(fingerprint("labels", fmt.Sprint(c.id())))
		op := c.begin("zones/"+i.zone, "setLabels", i.below(), i.pb.GetId())
		c.complete(op, nil)
		return op, nil
	})
}
