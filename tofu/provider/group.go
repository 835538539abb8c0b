package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/manifest"
	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// The modes of groups.
const (
	modeFixed  = "fixed"
	modeDemand = "demand"
)

// groupResource is a group of a shard.
type groupResource struct{ shards *shards }

var (
	_ resource.ResourceWithConfigure      = (*groupResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*groupResource)(nil)
	_ resource.ResourceWithValidateConfig = (*groupResource)(nil)
	_ resource.ResourceWithImportState    = (*groupResource)(nil)
)

func newGroup() resource.Resource { return &groupResource{} }

// Metadata implements the framework's interface.
func (r *groupResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "nstance_group"
}

// Configure implements the framework's interface.
func (r *groupResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.shards, _ = req.ProviderData.(*shards)
}

// Schema implements the framework's interface.
func (r *groupResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := map[string]schema.Attribute{}
	for _, f := range groupFields {
		attributes[string(f.Name())] = resourceAttribute(f)
	}
	stays := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	known := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	attributes["template"] = schema.StringAttribute{Required: true, MarkdownDescription: "Template key."}
	attributes["mode"] = schema.StringAttribute{
		Optional: true, Computed: true, Default: stringdefault.StaticString(modeFixed),
		MarkdownDescription: describe(groupField("mode")),
	}
	attributes["size"] = schema.Int64Attribute{
		Optional: true, Computed: true,
		MarkdownDescription: describe(groupField("size")) + " Left out: whoever else sets it, and the template at first. Not with mode `demand`.",
	}
	attributes["args"] = schema.MapAttribute{
		ElementType: types.StringType, Optional: true,
		MarkdownDescription: describe(groupField("args")) + " They are not read back, so that a change by others is not seen.",
	}
	attributes["key"] = schema.StringAttribute{Required: true, PlanModifiers: stays, MarkdownDescription: "Key of the group, unique per tenant and shard."}
	attributes["shard"] = schema.StringAttribute{
		Optional: true, Computed: true, MarkdownDescription: "Shard of the group; the provider's by default.",
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
	}
	attributes["wait"] = schema.BoolAttribute{
		Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		MarkdownDescription: "Whether an apply ends only when all machines of a group of fixed size run, and a destroy when all are gone.",
	}
	attributes["timeout"] = schema.StringAttribute{
		Optional: true, Computed: true, Default: stringdefault.StaticString("10m0s"),
		MarkdownDescription: "How long to wait, such as `20m`.",
	}
	attributes["id"] = schema.StringAttribute{Computed: true, PlanModifiers: known, MarkdownDescription: "`SHARD/KEY`."}
	attributes["tenant"] = schema.StringAttribute{Computed: true, PlanModifiers: known, MarkdownDescription: "Tenant that owns the group: the one of the identity."}
	attributes["is_static"] = schema.BoolAttribute{Computed: true, PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()}, MarkdownDescription: "Whether the server's configuration file has the group. The resource is what the API changes of it then, and its end removes that alone."}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A group of machines of one template, of fixed size or of mode `demand`. What is left out is as the template says.",
		Attributes:          attributes,
	}
}

// ValidateConfig implements the framework's interface: what needs no server to be seen.
func (r *groupResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	config := attributesOf(req.Config.Raw)
	if _, err := groupRequest(config); err != nil {
		resp.Diagnostics.Append(problem(ctx, "Invalid group", err, schemaOf{req.Config.Schema}))
	}
	if _, err := spanOf(config["timeout"]); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("timeout"), "Invalid group", err.Error())
	}
	if mode := config["mode"]; mode.IsKnown() {
		switch m := textOf(mode); {
		case m != "" && m != modeFixed && m != modeDemand:
			resp.Diagnostics.AddAttributeError(path.Root("mode"), "Invalid group", fmt.Sprintf("%q must be one of fixed, demand", m))
		case m == modeDemand && !config["size"].IsNull():
			resp.Diagnostics.AddAttributeError(path.Root("size"), "Invalid group", "a group of mode demand has no size: demand.min and demand.max bound it")
		case m != modeDemand && !config["demand"].IsNull():
			resp.Diagnostics.AddAttributeError(path.Root("demand"), "Invalid group", `it has a meaning with mode = "demand" alone`)
		}
	}
}

// ModifyPlan implements the framework's interface: the server says whether the group may look like this.
func (r *groupResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	config, plan, state := attributesOf(req.Config.Raw), attributesOf(req.Plan.Raw), attributesOf(req.State.Raw)
	if config["size"].IsNull() {
		size := types.Int64Unknown()
		switch {
		case textOf(plan["mode"]) == modeDemand:
			size = types.Int64Null()
		case state != nil && textOf(state["mode"]) != modeDemand:
			resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("size"), &size)...)
		}
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("size"), size)...)
	}
	if r.shards == nil || !req.Config.Raw.IsFullyKnown() || len(resp.RequiresReplace) > 0 {
		return
	}
	change, shard, api, err := r.change(ctx, state, plan)
	if err == nil && change != nil {
		var known bool
		if known, err = r.shards.has(ctx, shard, "check-group"); err == nil && known {
			_, err = api.CheckGroup(ctx, change)
		}
	}
	switch {
	case err == nil:
	case status.Code(err) == codes.Unavailable:
		resp.Diagnostics.AddWarning("The group was not checked", err.Error())
	case status.Code(err) == codes.Aborted:
		resp.Diagnostics.AddAttributeError(path.Root("key"), "The group exists", exists(shard, textOf(plan["key"])))
	default:
		resp.Diagnostics.Append(problem(ctx, "The server would refuse the group", err, schemaOf{req.Plan.Schema}))
	}
}

func exists(shard, key string) string {
	return fmt.Sprintf("shard %s has a group %q, which is not in the state: take it over with `tofu import ADDRESS %s/%s`, or choose another key", shard, key, shard, key)
}

// change is the request that makes of a state what a plan says; nil: there is nothing to do.
func (r *groupResource) change(ctx context.Context, state, plan object) (*nstancev1.UpsertGroupRequest, string, nstancev1.OperatorServiceClient, error) {
	shard, api, err := r.shards.of(textOf(plan["shard"]))
	if err != nil {
		return nil, "", nil, err
	}
	after, err := groupRequest(plan)
	if err != nil {
		return nil, "", nil, err
	}
	before := &nstancev1.UpsertGroupRequest{Key: after.GetKey(), Config: &nstancev1.GroupConfig{}}
	if state != nil {
		if before, err = groupRequest(state); err != nil {
			return nil, "", nil, err
		}
	}
	switch after.GetConfig().GetMode() {
	case modeDemand:
		if after.Config.Demand == nil {
			after.Config.Demand = &nstancev1.DemandSettings{}
		}
	default:
		before.Config.Demand = nil // goes with the mode
		if before.Config.Mode == nil {
			after.Config.Mode = nil // what every group is, and every server knows
		}
	}
	if after.Config.Size == nil {
		before.Config.Size = nil // nobody's
	}
	if err := r.supported(ctx, shard, after.GetConfig()); err != nil {
		return nil, "", nil, err
	}
	change, err := manifest.Changes(before, after)
	if change != nil {
		change.Manager = r.shards.manager
		if state == nil {
			change.ExpectedEtag = new(string) // it must not exist
		}
	}
	return change, shard, api, err
}

// supported is an error where the servers of a shard would leave out what a group asks for.
func (r *groupResource) supported(ctx context.Context, shard string, c *nstancev1.GroupConfig) error {
	for attribute, asked := range map[string]bool{
		"mode": c.GetMode() == modeDemand, "node": c.GetNode() != nil, "instance_requirements": c.GetInstanceRequirements() != nil,
	} {
		if !asked {
			continue
		}
		if known, err := r.shards.has(ctx, shard, "demand-groups"); err != nil || !known {
			if err != nil {
				return err
			}
			return &valueError{path.Root(attribute), "the servers of shard " + shard + " do not know it yet: upgrade them first"}
		}
	}
	return nil
}

// Create implements the framework's interface.
func (r *groupResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	plan := attributesOf(req.Plan.Raw)
	change, shard, api, err := r.change(ctx, nil, plan)
	if err == nil {
		var g *nstancev1.GroupStatus
		if g, err = api.UpsertGroup(ctx, change); err == nil {
			resp.State.Raw = groupState(req.Plan.Raw.Type(), shard, g, plan)
			err = r.settled(ctx, api, plan, g)
		}
	}
	if status.Code(err) == codes.Aborted {
		resp.Diagnostics.AddAttributeError(path.Root("key"), "The group exists", exists(shard, textOf(plan["key"])))
		return
	}
	if err != nil {
		resp.Diagnostics.Append(problem(ctx, "The group was not made", err, schemaOf{req.Plan.Schema}))
	}
}

// Read implements the framework's interface.
func (r *groupResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	state := attributesOf(req.State.Raw)
	shard, api, err := r.shards.of(textOf(state["shard"]))
	if err == nil {
		var g *nstancev1.GroupStatus
		if g, err = group(ctx, api, textOf(state["key"])); err == nil {
			// Of a group of the configuration the resource is what the API has set.
			if g == nil || g.GetIsStatic() && g.GetDynamic() == nil && !state["id"].IsNull() && textOf(state["template"]) != "" {
				resp.State.RemoveResource(ctx)
				return
			}
			resp.State.Raw = groupState(req.State.Raw.Type(), shard, g, state)
			return
		}
	}
	resp.Diagnostics.Append(problem(ctx, "The group was not read", err, schemaOf{req.State.Schema}))
}

// Update implements the framework's interface.
func (r *groupResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	plan := attributesOf(req.Plan.Raw)
	change, shard, api, err := r.change(ctx, attributesOf(req.State.Raw), plan)
	if err == nil {
		var g *nstancev1.GroupStatus
		if change != nil {
			g, err = api.UpsertGroup(ctx, change)
		} else if g, err = group(ctx, api, textOf(plan["key"])); g == nil && err == nil {
			err = fmt.Errorf("group %q does not exist", textOf(plan["key"]))
		}
		if err == nil {
			resp.State.Raw = groupState(req.Plan.Raw.Type(), shard, g, plan)
			err = r.settled(ctx, api, plan, g)
		}
	}
	if err != nil {
		resp.Diagnostics.Append(problem(ctx, "The group was not changed", err, schemaOf{req.Plan.Schema}))
	}
}

// Delete implements the framework's interface.
func (r *groupResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	state := attributesOf(req.State.Raw)
	_, api, err := r.shards.of(textOf(state["shard"]))
	if err == nil {
		_, err = api.DeleteGroup(ctx, &nstancev1.DeleteGroupRequest{Key: textOf(state["key"]), Manager: r.shards.manager})
	}
	if err == nil && truth(state["wait"]) && !truth(state["is_static"]) {
		err = until(ctx, api, wait.Goal{Group: textOf(state["key"]), GroupGone: true}, state)
	}
	if err != nil {
		resp.Diagnostics.Append(problem(ctx, "The group was not deleted", err, schemaOf{req.State.Schema}))
	}
}

// ImportState implements the framework's interface.
func (r *groupResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	shard, key := splitID(req.ID)
	shard, _, err := r.shards.of(shard)
	if err != nil {
		resp.Diagnostics.AddError("The group was not imported", err.Error())
		return
	}
	for name, value := range map[string]string{"shard": shard, "key": key} {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), value)...)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("wait"), true)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("timeout"), "10m0s")...)
}

// settled waits until the machines of a group of fixed size run, if that is asked for.
func (r *groupResource) settled(ctx context.Context, api nstancev1.OperatorServiceClient, plan object, g *nstancev1.GroupStatus) error {
	if !truth(plan["wait"]) || textOf(plan["mode"]) == modeDemand {
		return nil
	}
	size := g.GetSize()
	return until(ctx, api, wait.Goal{Group: g.GetKey(), Size: &size}, plan)
}

func until(ctx context.Context, api nstancev1.OperatorServiceClient, goal wait.Goal, of object) error {
	timeout, err := spanOf(of["timeout"])
	if err != nil {
		return err
	}
	return wait.Until(ctx, api, goal, wait.Options{Timeout: timeout, Gap: 100 * time.Millisecond})
}
