// Package reference makes the pages about the operator's kinds from their definitions:
// every field with its type, its bounds and its description, and the rules that the API
// server keeps.
package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// howToRead says what the words of the tables mean.
const howToRead = `
How to read the tables: a *name* is 1 to 32 characters of ` + "`a` to `z`, `0` to `9`" + ` and single hyphens between them. Fields
in **bold** are required. ` + "`x.y`" + ` is field y of x, ` + "`x[].y`" + ` that of each element of list x. Every kind has the ` + "`status`" + `
subresource, and conditions as Kubernetes knows them: type, status, reason, message, and the generation that they are about.
`

// A Page is about the kinds of one or more groups.
type Page struct {
	// Path below the root of the repository.
	Path string
	// Introduction is what stands before the kinds, its heading included.
	Introduction string
	// Order of the kinds: those that people write come first.
	Order []string
}

// ClusterAPI is the page about the kinds that Cluster API knows.
var ClusterAPI = Page{
	Path: "docs/kubernetes/reference.md",
	Introduction: `# Kinds

The custom resources of the Kubernetes operator. People write NstanceMachinePools and NstanceMachineTemplates; the other
kinds are made by the operator and by Cluster API, and are there to be read.
`,
	Order: []string{
		"NstanceMachinePool", "NstanceMachineTemplate", "NstanceMachine", "NstanceShardGroup",
		"NstanceCluster", "NstanceControlPlane",
	},
}

// Hosts is the page about the kinds of host machines.
var Hosts = Page{
	Path: "docs/hosts/reference.md",
	Introduction: `# Kinds of host machines

The custom resources of group ` + "`hosts.nstance.dev`" + `, all of them cluster-scoped. People write MachineConfigurations and MachineOperations, and the
HostMachines of hosts that they bring themselves; the operator writes MachineConfigurationVersions, and the HostMachines of
instances. What they are for stands in [concepts](concepts.md), how versions come about in [versions](versions.md). The chart installs
them with ` + "`hosts.enabled: true`" + `.
`,
	Order: []string{"MachineConfiguration", "MachineConfigurationVersion", "HostMachine", "MachineOperation"},
}

// Demand is the page about the kinds of demand mode.
var Demand = Page{
	Path: "docs/demand/kinds.md",
	Introduction: `# Kinds of demand mode

The custom resources of group ` + "`demand.nstance.dev`" + `. The operator writes a CapacityRequest for each Pod ([which and how](pods.md)), and other workload
APIs may write their own. UpcomingNodes and AvailableCapacities are written by the operator alone, to be read: ` + "`kubectl get un,ac,creq -A`" + `
shows what is asked for, what is on its way and what is missing. The chart installs the kinds with ` + "`demand.enabled: true`" + `. They need [Kubernetes 1.31 or later](../kubernetes/install.md#versions).
`,
	Order: []string{"CapacityRequest", "UpcomingNode", "AvailableCapacity"},
}

// Text returns the page. Each of the definitions must be of a kind that it knows.
func (p Page) Text(all []*apiextensionsv1.CustomResourceDefinition) (string, error) {
	if len(all) != len(p.Order) {
		return "", fmt.Errorf("%d definitions, %s has %d kinds", len(all), p.Path, len(p.Order))
	}
	var page strings.Builder
	page.WriteString("<!-- Generated from the types in operator/api by \"make generate\". Do not edit. -->\n")
	page.WriteString(p.Introduction + howToRead)
	for _, kind := range p.Order {
		i := slices.IndexFunc(all, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Spec.Names.Kind == kind })
		if i < 0 {
			return "", fmt.Errorf("no definition of %s", kind)
		}
		section(&page, all[i])
	}
	return page.String(), nil
}

// section writes what there is to say of one kind.
func section(page *strings.Builder, crd *apiextensionsv1.CustomResourceDefinition) {
	version := crd.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(page, "\n## %s\n\n%s\n\n`%s/%s`, short `%s`.\n",
		crd.Spec.Names.Kind, oneLine(schema.Description), crd.Spec.Group, version.Name, strings.Join(crd.Spec.Names.ShortNames, "`, `"))
	for _, part := range []string{"spec", "status"} {
		fmt.Fprintf(page, "\n| %s | type | |\n|---|---|---|\n", part)
		of := schema.Properties[part]
		rows(page, &of, "")
	}
	if rules := messages(schema, nil); len(rules) > 0 {
		page.WriteString("\nThe API server refuses what breaks these rules:\n\n")
		for _, rule := range rules {
			fmt.Fprintf(page, "- %s\n", rule)
		}
	}
}

// rows writes a row for each field of an object, and for the fields of those.
func rows(page *strings.Builder, object *apiextensionsv1.JSONSchemaProps, prefix string) {
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		field := object.Properties[name]
		shown := "`" + prefix + name + "`"
		if slices.Contains(object.Required, name) {
			shown = "**" + shown + "**"
		}
		fmt.Fprintf(page, "| %s | %s | %s |\n", shown, typeOf(&field), oneLine(field.Description))
		switch {
		case name == "conditions": // the introduction says what they are
		case field.Items != nil && field.Items.Schema != nil:
			rows(page, field.Items.Schema, prefix+name+"[].")
		default:
			rows(page, &field, prefix+name+".")
		}
	}
}

// typeOf says what a field may hold, in a few words.
func typeOf(field *apiextensionsv1.JSONSchemaProps) string {
	words := base(field)
	if limits := limits(field); limits != "" {
		words += ", " + limits
	}
	if field.Default != nil {
		words += ", default `" + strings.Trim(string(field.Default.Raw), `"`) + "`"
	}
	return words
}

// namePattern is the pattern of a name, as the introduction explains it.
const namePattern = `^[a-z0-9]+(-[a-z0-9]+)*$`

func base(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.XIntOrString && field.Pattern == "":
		return "integer or string"
	case field.XIntOrString:
		return "quantity"
	case len(field.Enum) > 0:
		var values []string
		for _, value := range field.Enum {
			values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
		}
		return strings.Join(values, ", ")
	case field.Pattern == namePattern:
		return "name"
	case field.Format == "date-time":
		return "time"
	case field.Type == "array":
		return "list of " + base(field.Items.Schema)
	case field.AdditionalProperties != nil:
		return "map to " + base(field.AdditionalProperties.Schema)
	}
	return field.Type
}

// limits are the bounds of a field that its base does not imply.
func limits(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case len(field.Enum) > 0, field.Pattern == namePattern, field.XIntOrString:
		return ""
	case field.Type == "array":
		return span(field.MinItems, field.MaxItems, "")
	case field.AdditionalProperties != nil:
		return span(field.MinProperties, field.MaxProperties, "")
	case field.Type == "string":
		return span(field.MinLength, field.MaxLength, " characters")
	case field.Type == "integer":
		return span(whole(field.Minimum), whole(field.Maximum), "")
	}
	return ""
}

func whole(bound *float64) *int64 {
	if bound == nil {
		return nil
	}
	n := int64(*bound)
	return &n
}

func span(from, to *int64, unit string) string {
	switch {
	case from != nil && to != nil && *from == *to:
		return fmt.Sprintf("%d%s", *from, unit)
	case from != nil && to != nil:
		return fmt.Sprintf("%d to %d%s", *from, *to, unit)
	case to != nil:
		return fmt.Sprintf("at most %d%s", *to, unit)
	case from != nil:
		return fmt.Sprintf("at least %d%s", *from, unit)
	}
	return ""
}

// messages are those of all rules of a schema, each once, from the outside in.
func messages(schema *apiextensionsv1.JSONSchemaProps, seen []string) []string {
	for _, rule := range schema.XValidations {
		if !slices.Contains(seen, rule.Message) {
			seen = append(seen, rule.Message)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		seen = messages(&field, seen)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		seen = messages(schema.Items.Schema, seen)
	}
	return seen
}

// oneLine makes a description fit into a table.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
