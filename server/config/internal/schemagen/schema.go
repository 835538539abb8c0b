// Package schemagen makes the JSON Schema of the configuration, and its
// reference for readers, from the types of package document, the comments on their
// fields, and the schemas of the providers, providers/*/rules/schema.json. It reads
// these files, so it runs where they are: from go generate, and from the test that
// says when its output is out of date.
package schemagen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"nstance.dev/server/config/document"
)

// Schema gives the JSON Schema. The working directory must be that of package
// config.
func Schema() ([]byte, error) {
	r := &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, Mapper: custom}
	if err := r.AddGoComments("nstance.dev/server/config", "./document"); err != nil {
		return nil, fmt.Errorf("read the comments of the types: %w", err)
	}
	s := r.Reflect(&document.Config{})
	s.ID = "https://nstance.dev/schema/config.schema.json"
	s.Title = "Nstance shard configuration"
	all, err := fragments()
	if err != nil {
		return nil, fmt.Errorf("read the schemas of the providers: %w", err)
	}
	compose(s, all)
	openKeys(s)
	for _, def := range s.Definitions {
		openKeys(def)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// custom describes the types whose form in JSON is not that of their Go type.
func custom(t reflect.Type) *jsonschema.Schema {
	text := &jsonschema.Schema{Type: "string"}
	switch t {
	case reflect.TypeFor[document.Duration]():
		return &jsonschema.Schema{
			Title: "duration", Examples: []any{"90s", "6h", "7d"},
			OneOf: []*jsonschema.Schema{
				{Type: "string", Pattern: `^(\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^\+?0$|^[0-9]+d$`},
				{Const: 0},
			},
		}
	case reflect.TypeFor[document.Percent]():
		return &jsonschema.Schema{Title: "percentage", Type: "string", Pattern: `^(100|[0-9]{1,2})%$`}
	case reflect.TypeFor[document.USD]():
		return &jsonschema.Schema{Title: "US dollars", Type: "number", Minimum: json.Number("0"), Examples: []any{0.0336}}
	case reflect.TypeFor[document.Fraction]():
		return &jsonschema.Schema{Title: "number from 0 to 1", Type: "number", Minimum: json.Number("0"), Maximum: json.Number("1"), Examples: []any{0.15}}
	case reflect.TypeFor[document.NodeCount]():
		return &jsonschema.Schema{
			Title: "integer or percentage", Examples: []any{3, "10%"},
			OneOf: []*jsonschema.Schema{{Type: "integer", Minimum: json.Number("0")}, {Type: "string", Pattern: `^((100|[0-9]{1,2})%|[0-9]+)$`}},
		}
	case reflect.TypeFor[document.Quantity]():
		return &jsonschema.Schema{
			Title: "quantity", Examples: []any{"500m", "2Gi"},
			OneOf: []*jsonschema.Schema{{Type: "string", Pattern: `^[0-9]{1,18}(\.[0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`}, {Type: "number", Minimum: json.Number("0")}},
		}
	case reflect.TypeFor[document.SourceCheck]():
		return &jsonschema.Schema{
			Title: "`require`, `warn`, `off`",
			Enum:  []any{document.SourceCheckRequire, document.SourceCheckWarn, document.SourceCheckOff, true, false},
		}
	case reflect.TypeFor[document.InstanceTypes]():
		return &jsonschema.Schema{
			Title: "string or list of strings",
			OneOf: []*jsonschema.Schema{text, {Type: "array", Items: text}},
		}
	case reflect.TypeFor[document.Vars]():
		scalar := &jsonschema.Schema{OneOf: []*jsonschema.Schema{text, {Type: "number"}, {Type: "boolean"}}}
		return &jsonschema.Schema{Title: "object of strings, numbers and booleans", Type: "object", AdditionalProperties: scalar}
	}
	return nil
}

// openKeys lets objects have the keys that every reader leaves alone, and puts
// each description on one line.
func openKeys(s *jsonschema.Schema) {
	s.Description = strings.Join(strings.Fields(s.Description), " ")
	if s.Type == "object" {
		s.PatternProperties = map[string]*jsonschema.Schema{`^(\$schema$|x-)`: jsonschema.TrueSchema}
	}
	if s.Properties == nil {
		return
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		p.Value.Description = strings.Join(strings.Fields(p.Value.Description), " ")
		if p.Value.AdditionalProperties != nil {
			openKeys(p.Value)
		}
	}
}
