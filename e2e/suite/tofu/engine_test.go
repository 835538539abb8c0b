//go:build tofu

package tofu_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"nstance.dev/tofu/provider"
)

// object is a block of a configuration, or a state.
type object = map[string]any

// engine uses a provider as OpenTofu does.
type engine struct {
	t      *testing.T
	server tfprotov6.ProviderServer
	schema *tfprotov6.GetProviderSchemaResponse
}

// use returns an engine with a provider that is configured like this.
func use(t *testing.T, config object) *engine {
	t.Helper()
	server, err := providerserver.NewProtocol6WithError(provider.New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, server: server}
	if e.schema, err = server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{}); err != nil {
		t.Fatal(err)
	}
	e.fine("schema", e.schema.Diagnostics, nil)
	c := pack(t, e.schema.Provider.ValueType(), config)
	resp, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: &c})
	e.fine("configure the provider", resp.Diagnostics, err)
	return e
}

// fine fails the test where a step has an error.
func (e *engine) fine(step string, diagnostics []*tfprotov6.Diagnostic, err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("%s: %v", step, err)
	}
	if text := errorsOf(diagnostics); text != "" {
		e.t.Fatalf("%s: %s", step, text)
	}
}

// errorsOf is the errors among diagnostics, each with its attribute.
func errorsOf(diagnostics []*tfprotov6.Diagnostic) string {
	var lines []string
	for _, d := range diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			lines = append(lines, fmt.Sprintf("[%v] %s: %s", d.Attribute, d.Summary, d.Detail))
		}
	}
	return strings.Join(lines, "\n")
}

// planned is what a plan says of a resource.
type planned struct {
	prior, config, value tfprotov6.DynamicValue
	after                tftypes.Value
	changes, replaces    bool
}

// plan validates and plans a resource; a nil config ends it. The answer's text is the errors.
func (e *engine) plan(kind string, prior tftypes.Value, config object) (planned, string) {
	e.t.Helper()
	t := e.schema.ResourceSchemas[kind].ValueType()
	p := planned{config: pack(e.t, t, config), prior: packed(e.t, t, prior)}
	if config != nil {
		resp, err := e.server.ValidateResourceConfig(e.t.Context(), &tfprotov6.ValidateResourceConfigRequest{TypeName: kind, Config: &p.config})
		if err != nil {
			e.t.Fatal(err)
		}
		if text := errorsOf(resp.Diagnostics); text != "" {
			return p, text
		}
	}
	proposed := p.config
	if config != nil {
		proposed = packed(e.t, t, e.proposed(kind, prior, unpacked(e.t, t, &p.config)))
	}
	resp, err := e.server.PlanResourceChange(e.t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: kind, PriorState: &p.prior, ProposedNewState: &proposed, Config: &p.config,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	if text := errorsOf(resp.Diagnostics); text != "" {
		return p, text
	}
	p.value, p.replaces = *resp.PlannedState, len(resp.RequiresReplace) > 0
	p.after = unpacked(e.t, t, resp.PlannedState)
	p.changes = !p.after.Equal(prior)
	return p, ""
}

// proposed is a configuration with what the state knows of computed attributes.
func (e *engine) proposed(kind string, prior, config tftypes.Value) tftypes.Value {
	now, before := attributes(e.t, config), attributes(e.t, prior)
	for _, a := range e.schema.ResourceSchemas[kind].Block.Attributes {
		if v, ok := before[a.Name]; ok && a.Computed && now[a.Name].IsNull() {
			now[a.Name] = v
		}
	}
	return tftypes.NewValue(config.Type(), now)
}

// apply carries a plan out and returns the state, and the errors.
func (e *engine) apply(kind string, p planned) (tftypes.Value, string) {
	e.t.Helper()
	t := e.schema.ResourceSchemas[kind].ValueType()
	resp, err := e.server.ApplyResourceChange(e.t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: kind, PriorState: &p.prior, PlannedState: &p.value, Config: &p.config,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	after := unpacked(e.t, t, resp.NewState)
	if text := errorsOf(resp.Diagnostics); text != "" {
		return after, text
	}
	e.asPlanned(p.after, after)
	return after, ""
}

// asPlanned fails the test where a state differs from what was planned, which OpenTofu calls a bug of the provider.
func (e *engine) asPlanned(plan, state tftypes.Value) {
	e.t.Helper()
	differences, err := plan.Diff(state)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, d := range differences {
		if d.Value1 != nil && d.Value1.IsFullyKnown() && len(d.Path.Steps()) > 0 {
			e.t.Errorf("after the apply %v is %v, and the plan said %v", d.Path, d.Value2, d.Value1)
		}
	}
}

// make plans and applies.
func (e *engine) make(kind string, prior tftypes.Value, config object) tftypes.Value {
	e.t.Helper()
	p, text := e.plan(kind, prior, config)
	if text != "" {
		e.t.Fatalf("plan of %s: %s", kind, text)
	}
	state, text := e.apply(kind, p)
	if text != "" {
		e.t.Fatalf("apply of %s: %s", kind, text)
	}
	return state
}

// settled demands that another plan changes nothing.
func (e *engine) settled(kind string, state tftypes.Value, config object) {
	e.t.Helper()
	if p, text := e.plan(kind, e.refresh(kind, state), config); text != "" || p.changes {
		difference, _ := p.after.Diff(state)
		e.t.Errorf("another plan of %s: %s, changes: %v", kind, text, difference)
	}
}

// refresh reads a resource again.
func (e *engine) refresh(kind string, state tftypes.Value) tftypes.Value {
	e.t.Helper()
	t := e.schema.ResourceSchemas[kind].ValueType()
	current := packed(e.t, t, state)
	resp, err := e.server.ReadResource(e.t.Context(), &tfprotov6.ReadResourceRequest{TypeName: kind, CurrentState: &current})
	if err != nil {
		e.t.Fatal(err)
	}
	e.fine("read "+kind, resp.Diagnostics, nil)
	return unpacked(e.t, t, resp.NewState)
}

// adopt imports a resource and reads it.
func (e *engine) adopt(kind, id string) tftypes.Value {
	e.t.Helper()
	resp, err := e.server.ImportResourceState(e.t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: kind, ID: id})
	if err != nil {
		e.t.Fatal(err)
	}
	e.fine("import "+id, resp.Diagnostics, nil)
	return e.refresh(kind, unpacked(e.t, e.schema.ResourceSchemas[kind].ValueType(), resp.ImportedResources[0].State))
}

// look reads a data source.
func (e *engine) look(kind string, config object) (tftypes.Value, string) {
	e.t.Helper()
	t := e.schema.DataSourceSchemas[kind].ValueType()
	c := pack(e.t, t, config)
	resp, err := e.server.ReadDataSource(e.t.Context(), &tfprotov6.ReadDataSourceRequest{TypeName: kind, Config: &c})
	if err != nil {
		e.t.Fatal(err)
	}
	if text := errorsOf(resp.Diagnostics); text != "" {
		return tftypes.Value{}, text
	}
	return unpacked(e.t, t, resp.State), ""
}

// none is the state of a resource that does not exist.
func (e *engine) none(kind string) tftypes.Value {
	return tftypes.NewValue(e.schema.ResourceSchemas[kind].ValueType(), nil)
}

func attributes(t *testing.T, v tftypes.Value) map[string]tftypes.Value {
	t.Helper()
	all := map[string]tftypes.Value{}
	if v.IsNull() {
		return all
	}
	if err := v.As(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// pack makes a value of Go's values: what is left out is null.
func pack(t *testing.T, of tftypes.Type, v object) tfprotov6.DynamicValue {
	t.Helper()
	if v == nil {
		return packed(t, of, tftypes.NewValue(of, nil))
	}
	return packed(t, of, valueOf(of, v))
}

func packed(t *testing.T, of tftypes.Type, v tftypes.Value) tfprotov6.DynamicValue {
	t.Helper()
	d, err := tfprotov6.NewDynamicValue(of, v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func unpacked(t *testing.T, of tftypes.Type, d *tfprotov6.DynamicValue) tftypes.Value {
	t.Helper()
	v, err := d.Unmarshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func valueOf(of tftypes.Type, v any) tftypes.Value {
	if v == nil {
		return tftypes.NewValue(of, nil)
	}
	switch of := of.(type) {
	case tftypes.Object:
		all := map[string]tftypes.Value{}
		for name, t := range of.AttributeTypes {
			all[name] = valueOf(t, v.(object)[name]) //nolint:forcetypeassert // the test's own
		}
		return tftypes.NewValue(of, all)
	case tftypes.Map:
		all := map[string]tftypes.Value{}
		for name, one := range v.(object) { //nolint:forcetypeassert // as above
			all[name] = valueOf(of.ElementType, one)
		}
		return tftypes.NewValue(of, all)
	case tftypes.List:
		var all []tftypes.Value
		for _, one := range v.([]any) { //nolint:forcetypeassert // as above
			all = append(all, valueOf(of.ElementType, one))
		}
		return tftypes.NewValue(of, all)
	}
	return tftypes.NewValue(of, v)
}
