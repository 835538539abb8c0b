package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"nstance.dev/admin/manifest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func web(size int32) *nstancev1.UpsertGroupRequest {
	return &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Size: proto.Int32(size)}}
}

func TestParse(t *testing.T) {
	full := &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{
		Template: proto.String("worker"), Size: proto.Int32(3), InstanceType: proto.String("t4g.medium"),
		Vars:          &nstancev1.StringMap{Values: map[string]string{"region": "eu", "replicas": "3"}},
		Args:          &nstancev1.StringMap{Values: map[string]string{"disk": `{"size":20}`, "spot": "true"}},
		InstanceTypes: &nstancev1.StringList{Values: []string{"a", "b"}},
	}}
	for _, test := range []struct {
		name, text string
		want       []*nstancev1.UpsertGroupRequest
	}{
		{"the least", "key: web\nconfig: {size: 2}", []*nstancev1.UpsertGroupRequest{web(2)}},
		{"JSON", `{"key": "web", "config": {"size": 2}}`, []*nstancev1.UpsertGroupRequest{web(2)}},
		{"JSON objects in a row", `{"key":"web","config":{"size":2}}{"key":"b"}`, []*nstancev1.UpsertGroupRequest{web(2), {Key: "b"}}},
		{"YAML in braces", `{key: web, config: {size: 2}}`, []*nstancev1.UpsertGroupRequest{web(2)}},
		{"documents, empty ones left out", "# groups\n---\nkey: web\nconfig: {size: 2}\n---\n\n---\nkey: b\n...\n", []*nstancev1.UpsertGroupRequest{web(2), {Key: "b"}}},
		{
			"short forms of maps and lists, with values that are no texts", `
key: web
config:
  template: worker
  size: 3
  instance_type: t4g.medium
  vars: {region: eu, replicas: 3}
  args: {disk: {size: 20}, spot: true}
  instance_types: [a, b]`, []*nstancev1.UpsertGroupRequest{full},
		},
		{
			"long forms", `
key: web
config:
  template: worker
  size: 3
  instance_type: t4g.medium
  vars: {values: {region: eu, replicas: "3"}}
  args: {values: {disk: '{"size":20}', spot: "true"}}
  instance_types: {values: [a, b]}`, []*nstancev1.UpsertGroupRequest{full},
		},
		{
			"empty maps clear", "key: web\nconfig: {vars: {}, load_balancers: []}",
			[]*nstancev1.UpsertGroupRequest{{Key: "web", Config: &nstancev1.GroupConfig{Vars: &nstancev1.StringMap{}, LoadBalancers: &nstancev1.StringList{}}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := manifest.Parse("g.yaml", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseNamesEveryProblem(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"an unknown field", "key: web\nconfig: {siz: 3}", []string{"g.yaml: document 1: config.siz: unknown field; known are template, size"}},
		{"an unknown field at the top", "key: web\nsize: 3", []string{"document 1: size: unknown field; known are key, config"}},
		{"no key", "config: {size: 3}", []string{"document 1: key: it is missing"}},
		{"wrong types", "key: web\nconfig: {size: many, template: 3, vars: [a], instance_types: a}", []string{
			"config.size: it must be a whole number, not a text",
			"config.template: it must be a text, not the number 3",
			"config.vars: it must be an object, not a list",
			"config.instance_types: it must be a list, not a text",
		}},
		{"a size that is no whole number", "key: web\nconfig: {size: 1.5}", []string{"config.size: it must be a whole number, not the number 1.5"}},
		{"a field without a value", "key: web\nconfig: {size: }", []string{"config.size: it has no value"}},
		{"a key twice", "key: web\nkey: web", []string{`"key" already set in map`}},
		{"the same group twice", "key: web\n---\nkey: web", []string{`document 2: key: group "web" stands in document 1 already`}},
		{"problems in several documents", "key: a\nconfig: {x: 1}\n---\nkey: b\nconfig: {foo: 1}", []string{"document 1: config.x", "document 2: config.foo"}},
		{"a list", "- key: web", []string{"it must be an object"}},
		{"no document", "# nothing\n---\n", []string{"g.yaml: it describes no group"}},
		{"no YAML", "key: [", []string{"document 1: neither YAML nor JSON"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := manifest.Parse("g.yaml", []byte(test.text))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("key: web\nconfig: {size: 2, vars: {a: b}}\n---\nkey: b")
	f.Add(`{"key":"web"}{"key":"b"}`)
	f.Add("key: web\nconfig: {args: {values: {a: [1, {b: null}]}}}")
	f.Fuzz(func(t *testing.T, text string) {
		groups, err := manifest.Parse("g", []byte(text))
		if err != nil {
			return
		}
		for _, g := range groups {
			if g.GetKey() == "" {
				t.Errorf("%q gave a group without a key", text)
			}
		}
	})
}
