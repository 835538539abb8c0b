package provider

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

var update = flag.Bool("update", false, "write the files that are made here")

// The messages whose fields are attributes.
var described = []string{
	"GroupConfig", "DemandSettings", "DemandLimits", "Reservation", "DisruptionBudget", "Consolidation", "InstanceRequirements",
	"GpuRequirements", "Range", "NodeSettings", "NodeTaint", "GroupStatus", "Gpu", "InstanceConfig", "InstanceStatus", "Condemned",
	"GetServerInfoResponse",
}

// TestDescriptions: the attributes are described as the API's reference describes the fields.
func TestDescriptions(t *testing.T) {
	text, err := os.ReadFile("../../protos/nstance/v1/operator.proto")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("package provider\n\n// descriptions are the comments of the API's messages, by message and field.\nvar descriptions = map[string]string{\n")
	message := regexp.MustCompile(`(?ms)^message (\w+) \{\n(.*?)^\}`)
	field := regexp.MustCompile(`(?m)((?:^  //.*\n)+)^  (?:optional |repeated )?[\w.<>, ]+? (\w+) = \d+;`)
	for _, m := range message.FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(described, m[1]) {
			continue
		}
		for _, f := range field.FindAllStringSubmatch(m[2], -1) {
			words := strings.Fields(strings.ReplaceAll(f[1], "//", " "))
			fmt.Fprintf(&b, "\t%q: %q,\n", m[1]+"."+f[2], strings.Join(words, " "))
		}
	}
	b.WriteString("}\n")
	written(t, "descriptions.go", formatted(t, b.Bytes()))
}

func formatted(t *testing.T, source []byte) []byte {
	t.Helper()
	out, err := format.Source(source)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReference: the page has every attribute of the schemas.
func TestReference(t *testing.T) {
	schema := schemas(t)
	var b strings.Builder
	section(&b, "Provider `nstance`", schema.Provider.Block)
	for _, kind := range []struct {
		title string
		all   map[string]*tfprotov6.Schema
	}{{"Resource", schema.ResourceSchemas}, {"Data source", schema.DataSourceSchemas}} {
		for _, name := range slices.Sorted(maps.Keys(kind.all)) {
			section(&b, kind.title+" `"+name+"`", kind.all[name].Block)
		}
	}
	const page, begin = "../../docs/reference/tofu.md", "<!-- made of the schemas: go test ./tofu/provider -update -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s lacks the line %s", page, begin)
	}
	written(t, page, []byte(before+begin+b.String()))
}

func section(b *strings.Builder, title string, block *tfprotov6.SchemaBlock) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| Attribute | Type | | Meaning |\n|---|---|---|---|\n", title, block.Description)
	rows(b, "", block.Attributes)
}

func rows(b *strings.Builder, prefix string, attributes []*tfprotov6.SchemaAttribute) {
	slices.SortFunc(attributes, func(x, y *tfprotov6.SchemaAttribute) int { return strings.Compare(x.Name, y.Name) })
	for _, a := range attributes {
		use := "optional"
		switch {
		case a.Required:
			use = "**required**"
		case a.Optional && a.Computed:
			use = "optional, read"
		case a.Computed:
			use = "read"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s |\n", prefix, a.Name, typeName(a), use, strings.ReplaceAll(a.Description, "|", `\|`))
		if a.NestedType != nil {
			rows(b, prefix+a.Name+".", a.NestedType.Attributes)
		}
	}
}

func typeName(a *tfprotov6.SchemaAttribute) string {
	if a.NestedType != nil {
		if a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeList {
			return "list of objects"
		}
		return "object"
	}
	name := func(t tftypes.Type) string {
		switch {
		case t.Is(tftypes.String):
			return "string"
		case t.Is(tftypes.Bool):
			return "bool"
		}
		return "number"
	}
	switch t := a.Type.(type) {
	case tftypes.Map:
		return "map of " + name(t.ElementType)
	case tftypes.List:
		return "list of " + name(t.ElementType)
	}
	return name(a.Type)
}

// TestEveryAttributeIsDescribed: nobody has to guess what an attribute is.
func TestEveryAttributeIsDescribed(t *testing.T) {
	schema := schemas(t)
	var look func(string, []*tfprotov6.SchemaAttribute)
	look = func(at string, attributes []*tfprotov6.SchemaAttribute) {
		for _, a := range attributes {
			if a.Description == "" {
				t.Errorf("%s.%s has no description", at, a.Name)
			}
			if a.NestedType != nil {
				look(at+"."+a.Name, a.NestedType.Attributes)
			}
		}
	}
	for name, s := range schema.ResourceSchemas {
		look(name, s.Block.Attributes)
	}
	for name, s := range schema.DataSourceSchemas {
		look(name, s.Block.Attributes)
	}
}

func schemas(t *testing.T) *tfprotov6.GetProviderSchemaResponse {
	t.Helper()
	server, err := providerserver.NewProtocol6WithError(New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	schema, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range schema.Diagnostics {
		t.Errorf("%s: %s", d.Summary, d.Detail)
	}
	return schema
}

// written compares a file with what it should be, or writes it.
func written(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // a source file
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: go test ./tofu/provider -update", path)
	}
}
