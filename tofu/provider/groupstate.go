package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"google.golang.org/protobuf/reflect/protoreflect"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

var (
	groupDescriptor = (&nstancev1.GroupConfig{}).ProtoReflect().Descriptor()
	// groupFields are what a configuration may set of a group.
	groupFields = fieldsOf(groupDescriptor, "clear")
)

func groupField(name protoreflect.Name) protoreflect.FieldDescriptor {
	return groupDescriptor.Fields().ByName(name)
}

// groupRequest is the group that attributes describe. What is null or not known is left out.
func groupRequest(from object) (*nstancev1.UpsertGroupRequest, error) {
	c := &nstancev1.GroupConfig{}
	err := fill(c.ProtoReflect(), from, path.Empty(), groupFields)
	return &nstancev1.UpsertGroupRequest{Key: textOf(from["key"]), Config: c}, err
}

// groupState is a group as a state has it. What means the same as it did is left in the words that
// it had: those of the configuration.
func groupState(t tftypes.Type, shard string, g *nstancev1.GroupStatus, prior object) tftypes.Value {
	set := &nstancev1.GroupConfig{}
	if g.GetDynamic() != nil {
		set = g.GetDynamic()
	}
	of := t.(tftypes.Object) //nolint:forcetypeassert // that of the schema
	now := read(set.ProtoReflect(), of, groupFields)
	now["template"] = tftypes.NewValue(tftypes.String, g.GetTemplate())
	now["mode"] = tftypes.NewValue(tftypes.String, modeFixed)
	now["size"] = tftypes.NewValue(tftypes.Number, int64(g.GetSize()))
	if g.GetMode() == modeDemand {
		now["mode"], now["size"] = tftypes.NewValue(tftypes.String, modeDemand), tftypes.NewValue(tftypes.Number, nil)
	}
	before, err := groupRequest(prior)
	for _, f := range groupFields {
		name := string(f.Name())
		switch {
		case name == "template" || name == "mode" || name == "size" || err != nil:
		case name == "args" || same(before.GetConfig().ProtoReflect(), set.ProtoReflect(), f):
			now[name] = prior[name]
		}
	}
	now["key"], now["shard"] = tftypes.NewValue(tftypes.String, g.GetKey()), tftypes.NewValue(tftypes.String, shard)
	now["id"] = tftypes.NewValue(tftypes.String, shard+"/"+g.GetKey())
	now["tenant"], now["is_static"] = tftypes.NewValue(tftypes.String, g.GetTenant()), tftypes.NewValue(tftypes.Bool, g.GetIsStatic())
	now["wait"], now["timeout"] = prior["wait"], prior["timeout"]
	return tftypes.NewValue(t, now)
}

// textOf is a text; empty: null or not known.
func textOf(v tftypes.Value) string {
	var s string
	if v.IsNull() || !v.IsKnown() || v.As(&s) != nil {
		return ""
	}
	return s
}

// truth is a truth value; false: null or not known.
func truth(v tftypes.Value) bool {
	var b bool
	return !v.IsNull() && v.IsKnown() && v.As(&b) == nil && b
}

// spanOf is a span of time; 0: null or not known.
func spanOf(v tftypes.Value) (time.Duration, error) {
	text := textOf(v)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q must be a span of time such as 90s or 20m", text)
	}
	return d, nil
}

// schemaOf says which attributes a schema has.
type schemaOf struct {
	schema interface {
		TypeAtPath(context.Context, path.Path) (attr.Type, diag.Diagnostics)
	}
}

func (s schemaOf) has(ctx context.Context, at path.Path) bool {
	t, diags := s.schema.TypeAtPath(ctx, at)
	return t != nil && !diags.HasError()
}
