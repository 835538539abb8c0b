package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	framework "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"nstance.dev/admin/shardclient"
)

// Address is the provider's source in a configuration.
const Address = "registry.opentofu.org/nstance-dev/nstance"

// Provider is the provider. It is used through the plugin framework.
type Provider struct {
	version string
	now     func() time.Time
}

var _ framework.Provider = (*Provider)(nil)

// New returns a function that makes the provider.
func New(version string) func() framework.Provider {
	return func() framework.Provider { return &Provider{version: version, now: time.Now} }
}

// model is the provider's block.
type model struct {
	Context     types.String `tfsdk:"context"`
	Config      types.String `tfsdk:"config"`
	Servers     types.Map    `tfsdk:"servers"`
	IdentityDir types.String `tfsdk:"identity_dir"`
	Shard       types.String `tfsdk:"shard"`
	Manager     types.String `tfsdk:"manager"`
}

// Metadata implements the framework's interface.
func (p *Provider) Metadata(_ context.Context, _ framework.MetadataRequest, resp *framework.MetadataResponse) {
	resp.TypeName, resp.Version = "nstance", p.version
}

// Schema implements the framework's interface.
func (p *Provider) Schema(_ context.Context, _ framework.SchemaRequest, resp *framework.SchemaResponse) {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: description}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Groups and on-demand instances of Nstance, as an operator of the shards of one cluster. The settings are those of " +
			"`nstance-admin`: what is left out is taken from the same environment variables, and then from the context.",
		Attributes: map[string]schema.Attribute{
			"context":      text("Context of `nstance-admin`: a name in its configuration file, or the path of the file of one. `NSTANCE_ADMIN_CONTEXT`."),
			"config":       text("Path of the configuration file of `nstance-admin` with contexts. `NSTANCE_ADMIN_CONFIG`."),
			"identity_dir": text("Folder with `ca.crt`, `identity.crt` and `identity.key` of an operator; of a viewer it does for data sources and plans. `NSTANCE_ADMIN_IDENTITY_DIR`."),
			"shard":        text("Shard of the resources that name none; the only one is implied. `NSTANCE_ADMIN_SHARD`."),
			"manager":      text("Identity under which groups are managed. The groups of another manager are refused then; left out: none, and nothing is refused."),
			"servers": schema.MapAttribute{
				ElementType: types.StringType, Optional: true,
				MarkdownDescription: "Addresses of the servers' operator API (`host:port`, several with commas between them), by shard. `NSTANCE_ADMIN_SERVERS`.",
			},
		},
	}
}

// Configure implements the framework's interface. It connects with the first call.
func (p *Provider) Configure(ctx context.Context, req framework.ConfigureRequest, resp *framework.ConfigureResponse) {
	if !req.Config.Raw.IsFullyKnown() {
		return // a plan goes on without: what needs a server says so
	}
	var m model
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	s := settings{manager: m.Manager.ValueString(), Flags: shardclient.Flags{
		Config: m.Config.ValueString(), Context: m.Context.ValueString(), IdentityDir: m.IdentityDir.ValueString(), Shard: m.Shard.ValueString(),
	}}
	servers := map[string]string{}
	resp.Diagnostics.Append(m.Servers.ElementsAs(ctx, &servers, false)...)
	var list []string
	for _, shard := range slices.Sorted(maps.Keys(servers)) {
		for address := range strings.SplitSeq(servers[shard], ",") {
			list = append(list, fmt.Sprintf("%s=%s", shard, strings.TrimSpace(address)))
		}
	}
	s.Servers = strings.Join(list, ",")
	c, err := open(s, p.now())
	if err != nil {
		at := path.Empty()
		if len(servers) > 0 {
			at = path.Root("servers")
		}
		resp.Diagnostics.AddAttributeError(at, "The servers are not known", err.Error())
		return
	}
	resp.ResourceData, resp.DataSourceData = c, c
}

// Resources implements the framework's interface.
func (p *Provider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newGroup, newInstance}
}

// DataSources implements the framework's interface.
func (p *Provider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newGroupData, newGroupsData, newInstancesData, newShardData}
}
