package crds_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// An API server takes the definitions: the schema is structural, and no rule, also none that
// compares whole templates, can cost more than it allows.
func TestHostDefinitionsAreValid(t *testing.T) {
	all := byKind(t, crds.Hosts)
	checkValid(t, all)
	for kind, crd := range all {
		if !slices.Contains(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Required, "spec") {
			t.Errorf("%s: the spec is not required, so a client could reset it by setting it to null", kind)
		}
	}
	want := map[string]string{
		"hm":   "Cluster hostmachines.hosts.nstance.dev",
		"mcfg": "Cluster machineconfigurations.hosts.nstance.dev",
		"mcv":  "Cluster machineconfigurationversions.hosts.nstance.dev",
		"mop":  "Cluster machineoperations.hosts.nstance.dev",
	}
	if short := shortNames(all); !maps.Equal(short, want) {
		t.Errorf("short names %v, want %v", short, want)
	}
}

// A field that keeps what the schema does not know would be seen by no rule.
func TestHostDefinitionsKnowEveryField(t *testing.T) {
	for kind, crd := range byKind(t, crds.Hosts) {
		unknown(t, kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
}

// unknown reports parts of a schema that keep unknown fields, and parts of a spec without an
// upper bound.
func unknown(t *testing.T, at string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		t.Errorf("%s keeps unknown fields", at)
	}
	for name, inner := range schema.Properties {
		if at[0] != '.' && name != "spec" { // at the root
			continue
		}
		unknown(t, "."+at+"."+name, &inner)
	}
	switch {
	case schema.XIntOrString, len(schema.Enum) > 0, schema.Format != "":
	case schema.Type == "string" && schema.MaxLength == nil:
		t.Errorf("%s has no longest text", at)
	case schema.Type == "array" && schema.MaxItems == nil:
		t.Errorf("%s has no most items", at)
	case schema.AdditionalProperties != nil && schema.MaxProperties == nil:
		t.Errorf("%s has no most entries", at)
	}
	if schema.Items != nil {
		unknown(t, at+"[]", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		unknown(t, at+"{}", schema.AdditionalProperties.Schema)
	}
}

// M26: once a version is deployed, the schema alone refuses a change of it to everybody. M101:
// kernel arguments are refused, word for word.
func TestM26M101_HostSchemasTakeAndRefuse(t *testing.T) {
	checkCases(t, byKind(t, crds.Hosts), crdtest.HostCases())
}

func TestHostDefaults(t *testing.T) {
	template := map[string]any{
		"image":      map[string]any{"type": "OCI", "oci": map[string]any{"reference": "registry.example.com/node:1"}},
		"kubernetes": map[string]any{"version": "v1.36.3", "clusterDomain": "cluster.local"},
	}
	want := map[string]map[string]any{
		"MachineConfiguration": {
			"template": template, "revisionHistoryLimit": int64(10),
			"updateStrategy": map[string]any{"type": "OnDelete"},
			"prebuild":       map[string]any{"mode": "Off", "maxConcurrent": int64(10)},
		},
		"MachineConfigurationVersion": {"configurationName": "gpu", "version": int64(3), "template": template},
	}
	of := judges(t, byKind(t, crds.Hosts))
	for _, object := range crdtest.HostExamples() {
		kind := crdtest.KindOf(object)
		spec, _ := of[kind].Store(object)["spec"].(map[string]any)
		if kind == "HostMachine" && (spec["provisioner"] != "nstance" || spec["failurePolicy"] != "Revert") {
			t.Errorf("HostMachine has the defaults %v", spec)
		}
		if want[kind] == nil {
			continue
		}
		if diff := cmp.Diff(want[kind], spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}
