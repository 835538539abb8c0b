package provider

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// deaf has one group, and fails whenever an instance is asked for.
type deaf struct {
	nstancev1.OperatorServiceClient
	code  codes.Code
	asked string
}

func (*deaf) ListGroups(context.Context, *emptypb.Empty, ...grpc.CallOption) (*nstancev1.ListGroupsResponse, error) {
	return &nstancev1.ListGroupsResponse{Groups: []*nstancev1.GroupStatus{{Key: "web", Kind: "knc"}}}, nil
}

func (d *deaf) CreateInstance(_ context.Context, req *nstancev1.CreateInstanceRequest, _ ...grpc.CallOption) (*nstancev1.CreateInstanceResponse, error) {
	d.asked = req.GetInstanceId()
	return nil, status.Error(d.code, "no")
}

// An instance whose create got no answer is in the state, so that the next plan finds out whether it exists; one that was refused is not.
func TestAnInstanceThatMayExistIsInTheState(t *testing.T) {
	for code, kept := range map[codes.Code]bool{codes.Unavailable: true, codes.DeadlineExceeded: true, codes.InvalidArgument: false, codes.ResourceExhausted: false} {
		api := &deaf{code: code}
		r := &instanceResource{shards: &shards{byName: map[string]nstancev1.OperatorServiceClient{"a": api}, usual: "a"}}
		var described resource.SchemaResponse
		r.Schema(t.Context(), resource.SchemaRequest{}, &described)
		of := described.Schema.Type().TerraformType(t.Context()).(tftypes.Object)
		plan := object{}
		for name, t := range of.AttributeTypes {
			plan[name] = tftypes.NewValue(t, nil)
		}
		plan["group"], plan["id"] = tftypes.NewValue(tftypes.String, "web"), tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
		resp := resource.CreateResponse{State: tfsdk.State{Schema: described.Schema, Raw: tftypes.NewValue(of, nil)}}
		r.Create(t.Context(), resource.CreateRequest{Plan: tfsdk.Plan{Schema: described.Schema, Raw: tftypes.NewValue(of, plan)}}, &resp)
		if !resp.Diagnostics.HasError() || api.asked == "" {
			t.Errorf("%s: asked for %q, said %v", code, api.asked, resp.Diagnostics)
		}
		if got := textOf(attributesOf(resp.State.Raw)["id"]); (got == api.asked) != kept || !kept && got != "" {
			t.Errorf("%s: the state has %q, asked for was %q", code, got, api.asked)
		}
	}
}
