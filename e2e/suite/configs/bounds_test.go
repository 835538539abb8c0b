package configs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	aws "nstance.dev/providers/aws/rules"
	gcp "nstance.dev/providers/gcp/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/schema"
	"nstance.dev/server/driver"
)

// bound is a limit that the schema sets for a number, and the place of one in a document.
type bound struct {
	path  []string
	limit string // minimum or maximum
	value float64
}

// schemaOf is a part of a JSON schema.
type schemaOf struct {
	Ref        string               `json:"$ref"`
	Properties map[string]*schemaOf `json:"properties"`
	Others     json.RawMessage      `json:"additionalProperties"`
	Items      *schemaOf            `json:"items"`
	Defs       map[string]*schemaOf `json:"$defs"`
	Minimum    *float64             `json:"minimum"`
	Maximum    *float64             `json:"maximum"`
}

// boundsOf finds the bounds of the numbers of a document. It takes away from left what it finds.
func (s *schemaOf) boundsOf(root *schemaOf, value any, path []string, left map[*schemaOf]bool) (all []bound) {
	for s != nil && s.Ref != "" {
		s = root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	if s == nil {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		var others *schemaOf
		_ = json.Unmarshal(s.Others, &others) // false: none
		for _, name := range slices.Sorted(maps.Keys(value)) {
			part := s.Properties[name]
			if part == nil {
				part = others
			}
			all = append(all, part.boundsOf(root, value[name], append(slices.Clone(path), name), left)...)
		}
	case []any:
		for i, item := range value {
			all = append(all, s.Items.boundsOf(root, item, append(slices.Clone(path), fmt.Sprint(i)), left)...)
		}
	case float64:
		delete(left, s)
		if s.Minimum != nil {
			all = append(all, bound{path, "minimum", *s.Minimum})
		}
		if s.Maximum != nil {
			all = append(all, bound{path, "maximum", *s.Maximum})
		}
	}
	return all
}

// bounded are the parts of a schema that have a bound.
func (s *schemaOf) bounded(all map[*schemaOf]bool) {
	if s == nil {
		return
	}
	if s.Minimum != nil || s.Maximum != nil {
		all[s] = true
	}
	s.Items.bounded(all)
	for _, part := range s.Properties {
		part.bounded(all)
	}
	for _, part := range s.Defs {
		part.bounded(all)
	}
}

// TestF50_SchemaAndLoadHaveTheSameBounds: each number is accepted up to its bounds, by the
// program as by the schema, and refused beyond them, at its path.
func TestF50_SchemaAndLoadHaveTheSameBounds(t *testing.T) {
	root := new(schemaOf)
	if err := json.Unmarshal(schema.JSON(), root); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../server/config/configtest/full.jsonc")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := jsonc.Standard("f", text)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(plain, &document); err != nil {
		t.Fatal(err)
	}
	rails := map[string]any{"never_registered_per_hour": 6.0}
	document["groups"].(map[string]any)["default"].(map[string]any)["apps"].(map[string]any)["rails"] = rails
	if plain, err = json.Marshal(document); err != nil {
		t.Fatal(err)
	}
	left := map[*schemaOf]bool{}
	root.bounded(left)
	all := root.boundsOf(root, document, nil, left)
	if len(all) < 20 || len(left) > 0 {
		t.Fatalf("%d bounds found, and %d that no number of the document has", len(all), len(left))
	}
	all = slices.DeleteFunc(all, func(b bound) bool { // the schema has that of "ca", and for the others words
		return b.limit == "maximum" && slices.Equal(b.path, []string{"certificates", "kubelet.client", "ttl"}) ||
			// Of the weights this one alone must not be 0, which its description says.
			b.limit == "minimum" && slices.Equal(b.path, []string{"server", "demand", "preemption_weights", "priority_gap"})
	})
	for _, b := range all {
		step := max(1, b.value/1000)
		if b.value < 1 && b.value > 0 {
			step = b.value / 2
		}
		if b.limit == "minimum" {
			step = -step
		}
		path := strings.Join(b.path, ".")
		for value, refused := range map[float64]bool{b.value: false, b.value + step: true} {
			var problems jsonc.Problems
			_, err := config.Load("f", with(t, plain, b.path, value), config.LoadOptions{Providers: []*driver.Rules{aws.New(), gcp.New()}})
			errors.As(err, &problems)
			found := slices.ContainsFunc(problems, func(p jsonc.Problem) bool {
				return strings.NewReplacer("[", ".", "]", "", `"`, "").Replace(p.Path) == path
			})
			if found != refused {
				t.Errorf("%s: %v (%s %v) refused: %v, want %v: %v", path, value, b.limit, b.value, found, refused, err)
			}
		}
	}
}

// with is a document with another value at a path.
func with(t *testing.T, document []byte, path []string, value float64) []byte {
	t.Helper()
	var all any
	if err := json.Unmarshal(document, &all); err != nil {
		t.Fatal(err)
	}
	at := all
	for i, name := range path {
		switch in := at.(type) {
		case map[string]any:
			if i == len(path)-1 {
				in[name] = value
			}
			at = in[name]
		case []any:
			var n int
			_, _ = fmt.Sscan(name, &n)
			if i == len(path)-1 {
				in[n] = value
			}
			at = in[n]
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
