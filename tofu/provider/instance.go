package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/wait"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var (
	instanceFields = fieldsOf((&nstancev1.InstanceConfig{}).ProtoReflect().Descriptor())
	// statusFields are what is read of an instance and does not change while it runs.
	statusFields = []string{"tenant", "provider_instance_id", "provider_uri", "hostname", "created_at"}
)

// instanceResource is an on-demand instance.
type instanceResource struct{ shards *shards }

var (
	_ resource.ResourceWithConfigure      = (*instanceResource)(nil)
	_ resource.ResourceWithValidateConfig = (*instanceResource)(nil)
	_ resource.ResourceWithImportState    = (*instanceResource)(nil)
)

func newInstance() resource.Resource { return &instanceResource{} }

// Metadata implements the framework's interface.
func (r *instanceResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "nstance_instance"
}

// Configure implements the framework's interface.
func (r *instanceResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.shards, _ = req.ProviderData.(*shards)
}

// Schema implements the framework's interface.
func (r *instanceResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	stays := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	attributes := map[string]schema.Attribute{
		"vars": schema.MapAttribute{
			ElementType: types.StringType, Optional: true, MarkdownDescription: descriptions["InstanceConfig.vars"],
			PlanModifiers: []planmodifier.Map{mapplanmodifier.RequiresReplace()},
		},
		"load_balancers": schema.ListAttribute{
			ElementType: types.StringType, Optional: true, MarkdownDescription: descriptions["InstanceConfig.load_balancers"],
			PlanModifiers: []planmodifier.List{listplanmodifier.RequiresReplace()},
		},
		"group": schema.StringAttribute{Required: true, PlanModifiers: stays, MarkdownDescription: "Key of the group whose settings apply."},
		"shard": schema.StringAttribute{
			Optional: true, Computed: true, MarkdownDescription: "Shard of the instance; the provider's by default.",
			PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
		},
		"wait":       schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true), MarkdownDescription: "Whether an apply ends only when the instance runs, and a destroy when it is gone."},
		"timeout":    schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString("10m0s"), MarkdownDescription: "How long to wait, such as `20m`."},
		"skip_drain": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether a destroy gives the work no time to leave."},
		"id":         schema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}, MarkdownDescription: "Id of the instance."},
	}
	for _, name := range []string{"template", "instance_type", "subnet_pool"} {
		attributes[name] = schema.StringAttribute{Optional: true, PlanModifiers: stays, MarkdownDescription: descriptions["InstanceConfig."+name] + " Left out: the group's."}
	}
	for _, name := range statusFields {
		attributes[name] = schema.StringAttribute{Computed: true, MarkdownDescription: descriptions["InstanceStatus."+name], PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "One on-demand instance: it has the settings of a group without counting in its size, and lives until it is deleted. " +
			"A change of its settings makes another instance. One that is gone, or on its way out, is missing for a plan, which makes another.",
		Attributes: attributes,
	}
}

// ValidateConfig implements the framework's interface.
func (r *instanceResource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	if _, err := spanOf(attributesOf(req.Config.Raw)["timeout"]); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("timeout"), "Invalid instance", err.Error())
	}
}

// request is the instance that a plan describes. It has its id from here where that is possible: a
// call with an id may be repeated, and so outlives a change of leader.
func (r *instanceResource) request(ctx context.Context, api nstancev1.OperatorServiceClient, plan object) (*nstancev1.CreateInstanceRequest, error) {
	req := &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{}, Manager: r.shards.manager}
	if err := fill(req.Config.ProtoReflect(), plan, path.Empty(), instanceFields); err != nil {
		return nil, err
	}
	if req.Config.Template != nil {
		return req, nil
	}
	g, err := group(ctx, api, req.Config.GetGroup())
	if err != nil {
		return nil, err
	}
	if g == nil {
		return nil, &valueError{path.Root("group"), fmt.Sprintf("group %q does not exist", req.Config.GetGroup())}
	}
	id, err := identity.NewID(g.GetKind())
	if err != nil {
		return nil, err
	}
	text := id.String()
	req.InstanceId = &text
	return req, nil
}

// Create implements the framework's interface.
func (r *instanceResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	if err := r.create(ctx, req, resp); err != nil {
		resp.Diagnostics.Append(problem(ctx, "The instance was not made", err, schemaOf{req.Plan.Schema}))
	}
}

func (r *instanceResource) create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) error {
	plan := attributesOf(req.Plan.Raw)
	shard, api, err := r.shards.of(textOf(plan["shard"]))
	if err != nil {
		return err
	}
	ask, err := r.request(ctx, api, plan)
	if err != nil {
		return err
	}
	t := req.Plan.Raw.Type()
	made, err := api.CreateInstance(ctx, ask)
	if err != nil {
		if ask.InstanceId != nil && unanswered(err) { // it may exist: the next plan looks, and removes it
			resp.State.Raw = instanceState(t, shard, &nstancev1.InstanceStatus{InstanceId: ask.GetInstanceId(), Group: ask.GetConfig().GetGroup()}, plan)
		}
		return err
	}
	in := &nstancev1.InstanceStatus{InstanceId: made.GetInstanceId(), Group: ask.GetConfig().GetGroup()}
	resp.State.Raw = instanceState(t, shard, in, plan) // it exists from here on, whatever fails
	if truth(plan["wait"]) {
		if err := until(ctx, api, wait.Goal{Running: []string{in.GetInstanceId()}}, plan); err != nil {
			return err
		}
	}
	if in, err = api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: made.GetInstanceId()}); err != nil {
		return err
	}
	resp.State.Raw = instanceState(t, shard, in, plan)
	return nil
}

// unanswered reports whether a call may have had its effect although it failed.
func unanswered(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown:
		return true
	default:
		return false
	}
}

// Read implements the framework's interface.
func (r *instanceResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	state := attributesOf(req.State.Raw)
	shard, api, err := r.shards.of(textOf(state["shard"]))
	if err == nil {
		var in *nstancev1.InstanceStatus
		in, err = api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: textOf(state["id"])})
		if missing(in, err) {
			resp.State.RemoveResource(ctx)
			return
		}
		if err == nil && !in.GetOnDemand() {
			err = fmt.Errorf("instance %s belongs to group %s, which looks after it: only on-demand instances are resources", in.GetInstanceId(), in.GetGroup())
		}
		if err == nil {
			resp.State.Raw = instanceState(req.State.Raw.Type(), shard, in, state)
			return
		}
	}
	resp.Diagnostics.Append(problem(ctx, "The instance was not read", err, schemaOf{req.State.Schema}))
}

// Update implements the framework's interface: what the server knows of makes another instance.
func (r *instanceResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete implements the framework's interface.
func (r *instanceResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	state := attributesOf(req.State.Raw)
	id := textOf(state["id"])
	_, api, err := r.shards.of(textOf(state["shard"]))
	if err == nil {
		_, err = api.DeleteInstance(ctx, &nstancev1.DeleteInstanceRequest{InstanceId: id, SkipDrain: truth(state["skip_drain"])})
	}
	if status.Code(err) == codes.NotFound {
		return
	}
	if err == nil && truth(state["wait"]) {
		err = until(ctx, api, wait.Goal{Gone: []string{id}}, state)
	}
	if err != nil {
		resp.Diagnostics.Append(problem(ctx, "The instance was not deleted", err, schemaOf{req.State.Schema}))
	}
}

// ImportState implements the framework's interface.
func (r *instanceResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	shard, id := splitID(req.ID)
	shard, _, err := r.shards.of(shard)
	if err == nil {
		_, err = identity.ParseID(id)
	}
	if err != nil {
		resp.Diagnostics.AddError("The instance was not imported", err.Error())
		return
	}
	for name, value := range map[string]string{"shard": shard, "id": id, "timeout": "10m0s"} {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), value)...)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("wait"), true)...)
}

// instanceState is an instance as a state has it. Of what was asked for, the server tells the group.
func instanceState(t tftypes.Type, shard string, in *nstancev1.InstanceStatus, prior object) tftypes.Value {
	now := object{}
	for name, of := range t.(tftypes.Object).AttributeTypes { //nolint:forcetypeassert // that of the schema
		v := prior[name]
		if !v.IsKnown() {
			v = tftypes.NewValue(of, nil)
		}
		now[name] = v
	}
	m := in.ProtoReflect()
	for _, name := range statusFields {
		now[name] = readField(m, m.Descriptor().Fields().ByName(protoName(name)), tftypes.String)
	}
	now["id"], now["shard"] = tftypes.NewValue(tftypes.String, in.GetInstanceId()), tftypes.NewValue(tftypes.String, shard)
	now["group"] = tftypes.NewValue(tftypes.String, in.GetGroup())
	return tftypes.NewValue(t, now)
}
