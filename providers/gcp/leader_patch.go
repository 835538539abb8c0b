package gcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"
	"google.golang.org/protobuf/encoding/protojson"

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
func (d *Driver) write(ctx context.Context, op string, m self, nic *computepb.NetworkInterface, ranges []*computepb.AliasIpRange) (*computepb.Operation, error) {
	body, err := json.Marshal(patchOf(nic, ranges))
	if err != nil {
		return nil, driver.Fail(driver.Invalid, op, err)
	}
	target, err := url.Parse(d.api.endpoint)
	if err != nil {
		return nil, driver.Fail(driver.Invalid, op, err)
	}
	target = target.JoinPath("compute/v1/projects", d.project, "zones", m.zone, "instances", m.name, "updateNetworkInterface")
	target.RawQuery = url.Values{"networkInterface": {nic.GetName()}}.Encode()
	running, err := d.patch(ctx, target.String(), body)
	if err != nil {
		return nil, fail(op, writes, err)
	}
	return running, nil
}

// patch sends a call that begins an operation.
func (d *Driver) patch(ctx context.Context, target string, body []byte) (*computepb.Operation, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.api.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := googleapi.CheckResponse(resp); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	running := new(computepb.Operation)
	return running, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer, running)
}
