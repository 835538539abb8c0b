package manifest

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Of describes a group as it is, in the form of a file: what its configuration and the
// API have set together. Arguments are those that the API has set.
func Of(g *nstancev1.GroupStatus) *nstancev1.UpsertGroupRequest {
	c := &nstancev1.GroupConfig{
		Template:             &g.Template,
		InstanceTypes:        list(g.GetInstanceTypes()),
		LoadBalancers:        list(g.GetLoadBalancers()),
		Args:                 g.GetDynamic().GetArgs(),
		Demand:               g.GetDemand(),
		Node:                 g.GetNode(),
		InstanceRequirements: g.GetInstanceRequirements(),
	}
	if g.GetDemand() == nil {
		c.Size = &g.Size
	}
	for field, value := range map[**string]string{&c.InstanceType: g.GetInstanceType(), &c.SubnetPool: g.GetSubnetPool(), &c.Mode: g.GetMode()} {
		if value != "" {
			*field = proto.String(value)
		}
	}
	if len(g.GetVars()) > 0 {
		c.Vars = &nstancev1.StringMap{Values: g.GetVars()}
	}
	return &nstancev1.UpsertGroupRequest{Key: g.GetKey(), Config: proto.CloneOf(c)}
}

func list(values []string) *nstancev1.StringList {
	if len(values) == 0 {
		return nil
	}
	return &nstancev1.StringList{Values: values}
}

// Merge returns what a group would be after a request: fields that it leaves out stay,
// those that it names are replaced.
func Merge(current, request *nstancev1.UpsertGroupRequest) *nstancev1.UpsertGroupRequest {
	merged := proto.CloneOf(current)
	if merged.Config == nil {
		merged.Config = &nstancev1.GroupConfig{}
	}
	to, from := merged.Config.ProtoReflect(), proto.CloneOf(request.GetConfig())
	for _, name := range from.GetClear() {
		if field := to.Descriptor().Fields().ByName(protoreflect.Name(name)); field != nil {
			to.Clear(field)
		}
	}
	from.Clear = nil
	from.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	return merged
}

// clearable are the fields that a request can clear; of the emptyable ones it sends an
// empty value.
var (
	clearable = map[protoreflect.Name]bool{"instance_type": true, "instance_requirements": true, "node": true, "subnet_pool": true}
	emptyable = map[protoreflect.Name]bool{"vars": true, "args": true, "instance_types": true, "load_balancers": true}
)

// Changes returns the request that makes of one description the other: only what
// differs. It is nil where nothing does. What has been removed and cannot be is an error.
func Changes(before, after *nstancev1.UpsertGroupRequest) (*nstancev1.UpsertGroupRequest, error) {
	if before.GetKey() != after.GetKey() {
		return nil, fmt.Errorf("key: it is %q and was %q; a group keeps its key", after.GetKey(), before.GetKey())
	}
	from, to := configOf(before).ProtoReflect(), configOf(after).ProtoReflect()
	config := &nstancev1.GroupConfig{}
	changes := config.ProtoReflect()
	var errs []error
	fields := to.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		name := field.Name()
		switch {
		case name == "clear":
			config.Clear = append(config.Clear, configOf(after).GetClear()...)
		case !from.Has(field) && !to.Has(field):
		case to.Has(field):
			if !from.Has(field) || !from.Get(field).Equal(to.Get(field)) {
				changes.Set(field, to.Get(field))
			}
		case clearable[name]:
			config.Clear = append(config.Clear, string(name))
		case emptyable[name]:
			changes.Set(field, changes.NewField(field))
		default:
			errs = append(errs, fmt.Errorf("config.%s: it cannot be removed", name))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if proto.Size(config) == 0 {
		return nil, nil //nolint:nilnil // nothing differs
	}
	return &nstancev1.UpsertGroupRequest{Key: after.GetKey(), Config: config}, nil
}

func configOf(r *nstancev1.UpsertGroupRequest) *nstancev1.GroupConfig {
	if r.GetConfig() == nil {
		return &nstancev1.GroupConfig{}
	}
	return r.GetConfig()
}

// Encode writes a description as [Parse] reads it, in YAML.
func Encode(r *nstancev1.UpsertGroupRequest) ([]byte, error) {
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", r.GetKey(), err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("group %s: %w", r.GetKey(), err)
	}
	if config, ok := tree["config"].(map[string]any); ok {
		for name := range emptyable { // their messages have one field, which files leave out
			wrapped, ok := config[string(name)].(map[string]any)
			switch {
			case !ok:
			case wrapped["values"] != nil:
				config[string(name)] = wrapped["values"]
			case name == "vars" || name == "args":
				config[string(name)] = map[string]any{}
			default:
				config[string(name)] = []any{}
			}
		}
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", r.GetKey(), err)
	}
	return text, nil
}
