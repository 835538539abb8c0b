package provider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func protoName(name string) protoreflect.Name { return protoreflect.Name(name) }

// What is left out of data sources changes with every look, or has a word of its own there.
var (
	groupView    = fieldsOf((&nstancev1.GroupStatus{}).ProtoReflect().Descriptor(), "key", "provider", "conditions", "pause", "revision", "dynamic", "demand_usage")
	instanceView = fieldsOf((&nstancev1.InstanceStatus{}).ProtoReflect().Descriptor(), "revision", "cpu_usage", "memory_usage", "last_seen", "machine", "hold", "life", "files")
	shardView    = fieldsOf((&nstancev1.GetServerInfoResponse{}).ProtoReflect().Descriptor(), "shard", "config_digest", "leading_since", "lease", "storage", "provider_calls")
)

// dataSource reads one thing of a shard.
type dataSource struct {
	shards *shards
	name   string
	text   string
	// arguments are asked for beside the shard, and attributes are answered.
	arguments, attributes map[string]schema.Attribute
	read                  func(ctx context.Context, api nstancev1.OperatorServiceClient, config object, t tftypes.Object) (object, error)
}

var _ datasource.DataSourceWithConfigure = (*dataSource)(nil)

// Metadata implements the framework's interface.
func (d *dataSource) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "nstance_" + d.name
}

// Configure implements the framework's interface.
func (d *dataSource) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.shards, _ = req.ProviderData.(*shards)
}

// Schema implements the framework's interface.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	all := map[string]schema.Attribute{
		"shard": schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: "Shard that is asked; the provider's by default."},
	}
	for _, attributes := range []map[string]schema.Attribute{d.arguments, d.attributes} {
		for name, a := range attributes {
			all[name] = a
		}
	}
	resp.Schema = schema.Schema{MarkdownDescription: d.text, Attributes: all}
}

// Read implements the framework's interface.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	config := attributesOf(req.Config.Raw)
	shard, api, err := d.shards.of(textOf(config["shard"]))
	if err == nil {
		t := req.Config.Raw.Type().(tftypes.Object) //nolint:forcetypeassert // that of the schema
		var all object
		if all, err = d.read(ctx, api, config, t); err == nil {
			for name := range d.arguments {
				all[name] = config[name]
			}
			all["shard"] = tftypes.NewValue(tftypes.String, shard)
			resp.State.Raw = tftypes.NewValue(t, all)
			return
		}
	}
	resp.Diagnostics.Append(problem(ctx, "nstance_"+d.name+" was not read", err, schemaOf{req.Config.Schema}))
}

func newGroupData() datasource.DataSource {
	return &dataSource{
		name: "group", text: "A group as it is: what its settings have come to, and how many machines it has.",
		arguments:  map[string]schema.Attribute{"key": schema.StringAttribute{Required: true, MarkdownDescription: "Key of the group."}},
		attributes: dataAttributes(groupView),
		read: func(ctx context.Context, api nstancev1.OperatorServiceClient, config object, t tftypes.Object) (object, error) {
			g, err := group(ctx, api, textOf(config["key"]))
			if err != nil {
				return nil, err
			}
			if g == nil {
				return nil, errNoGroup(textOf(config["key"]))
			}
			return read(g.ProtoReflect(), t, groupView), nil
		},
	}
}

func newGroupsData() datasource.DataSource {
	fields := slices.Concat(fieldsOf((&nstancev1.GroupStatus{}).ProtoReflect().Descriptor())[:1], groupView)
	return &dataSource{
		name: "groups", text: "All groups of the tenant on a shard, sorted by key.",
		attributes: map[string]schema.Attribute{"groups": schema.ListNestedAttribute{
			NestedObject: schema.NestedAttributeObject{Attributes: dataAttributes(fields)}, Computed: true, MarkdownDescription: "The groups; see the data source `nstance_group`.",
		}},
		read: func(ctx context.Context, api nstancev1.OperatorServiceClient, _ object, t tftypes.Object) (object, error) {
			list, err := api.ListGroups(ctx, &emptypb.Empty{})
			if err != nil {
				return nil, err
			}
			of := t.AttributeTypes["groups"].(tftypes.List).ElementType.(tftypes.Object) //nolint:forcetypeassert // as above
			values := []tftypes.Value{}
			for _, g := range list.GetGroups() {
				values = append(values, tftypes.NewValue(of, read(g.ProtoReflect(), of, fields)))
			}
			return object{"groups": tftypes.NewValue(t.AttributeTypes["groups"], values)}, nil
		},
	}
}

func newInstancesData() datasource.DataSource {
	return &dataSource{
		name: "instances", text: "The instances of the tenant on a shard, oldest first.",
		arguments: map[string]schema.Attribute{"group": schema.StringAttribute{Optional: true, MarkdownDescription: "Key of the group that they belong to; left out: all."}},
		attributes: map[string]schema.Attribute{"instances": schema.ListNestedAttribute{
			NestedObject: schema.NestedAttributeObject{Attributes: dataAttributes(instanceView)}, Computed: true, MarkdownDescription: "The instances.",
		}},
		read: func(ctx context.Context, api nstancev1.OperatorServiceClient, config object, t tftypes.Object) (object, error) {
			all, complete, err := wait.ListInstances(ctx, api)
			if err != nil {
				return nil, err
			}
			if !complete {
				return nil, errIncomplete
			}
			of := t.AttributeTypes["instances"].(tftypes.List).ElementType.(tftypes.Object) //nolint:forcetypeassert // as above
			values := []tftypes.Value{}
			for _, in := range all {
				if only := textOf(config["group"]); only == "" || in.GetGroup() == only {
					values = append(values, tftypes.NewValue(of, read(in.ProtoReflect(), of, instanceView)))
				}
			}
			return object{"instances": tftypes.NewValue(t.AttributeTypes["instances"], values)}, nil
		},
	}
}

func newShardData() datasource.DataSource {
	return &dataSource{
		name: "shard", text: "The server that leads a shard: who it is and what it can do.",
		attributes: dataAttributes(shardView),
		read: func(ctx context.Context, api nstancev1.OperatorServiceClient, _ object, t tftypes.Object) (object, error) {
			info, err := api.GetServerInfo(ctx, &emptypb.Empty{})
			return read(info.ProtoReflect(), t, shardView), err
		},
	}
}
