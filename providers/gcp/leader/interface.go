package leader

import (
	"context"
	"encoding/json"
	"net/url"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// interfacePatch is the body of instances.updateNetworkInterface: what is not in
// it stays as it is. The SDK's own message leaves an empty list out, so that the
// last alias address could never be taken away.
type interfacePatch struct {
	Fingerprint   string       `json:"fingerprint"`
	AliasIPRanges []aliasRange `json:"aliasIpRanges"` // never nil
}

type aliasRange struct {
	IPCIDRRange         string `json:"ipCidrRange"`
	SubnetworkRangeName string `json:"subnetworkRangeName,omitempty"`
}

func patchOf(nic *computepb.NetworkInterface, ranges []*computepb.AliasIpRange) interfacePatch {
	patch := interfacePatch{Fingerprint: nic.GetFingerprint(), AliasIPRanges: make([]aliasRange, len(ranges))}
	for i, r := range ranges {
		patch.AliasIPRanges[i] = aliasRange{IPCIDRRange: r.GetIpCidrRange(), SubnetworkRangeName: r.GetSubnetworkRangeName()}
	}
	return patch
}

// write begins to replace the alias ranges of a machine's interface; see
// https://cloud.google.com/compute/docs/reference/rest/v1/instances/updateNetworkInterface.
func (n *Network) write(ctx context.Context, op string, m self, nic *computepb.NetworkInterface, ranges []*computepb.AliasIpRange) (*computepb.Operation, error) {
	body, err := json.Marshal(patchOf(nic, ranges))
	if err != nil {
		return nil, driver.Fail(driver.Invalid, op, err)
	}
	target, err := url.Parse(n.api.Endpoint)
	if err != nil {
		return nil, driver.Fail(driver.Invalid, op, err)
	}
	target = target.JoinPath("compute/v1/projects", n.api.Project, "zones", m.zone, "instances", m.name, "updateNetworkInterface")
	target.RawQuery = url.Values{"networkInterface": {nic.GetName()}}.Encode()
	running, err := n.api.Patch(ctx, target.String(), body)
	if err != nil {
		return nil, api.Fail(op, api.Writes, err)
	}
	return running, nil
}
