package crds_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// hostDefinitions returns the definitions of host machines by kind.
func hostDefinitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range all {
		byKind[crd.Spec.Names.Kind] = crd
	}
	return byKind
}

// An API server takes the definitions: the schema is structural, and no rule, also none that
// compares whole templates, can cost more than it allows.
func TestHostDefinitionsAreValid(t *testing.T) {
	short := map[string]string{}
	for kind, crd := range hostDefinitions(t) {
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		crd.Status.StoredVersions = []string{"v1alpha1"}
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", kind, err)
		}
		version := crd.Spec.Versions[0]
		if version.Subresources == nil || version.Subresources.Status == nil {
			t.Errorf("%s has no status", kind)
		}
		if !slices.Contains(version.Schema.OpenAPIV3Schema.Required, "spec") {
			t.Errorf("%s: the spec is not required, so a client could reset it by setting it to null", kind)
		}
		short[crd.Spec.Names.ShortNames[0]] = string(crd.Spec.Scope) + " " + crd.Name
	}
	want := map[string]string{
		"hm":   "Cluster hostmachines.hosts.nstance.dev",
		"mcfg": "Cluster machineconfigurations.hosts.nstance.dev",
		"mcv":  "Cluster machineconfigurationversions.hosts.nstance.dev",
		"mop":  "Cluster machineoperations.hosts.nstance.dev",
	}
	if !maps.Equal(short, want) {
		t.Errorf("short names %v, want %v", short, want)
	}
}

// A field that keeps what the schema does not know would be seen by no rule.
func TestHostDefinitionsKnowEveryField(t *testing.T) {
	for kind, crd := range hostDefinitions(t) {
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
	judges := map[string]*crdtest.Judge{}
	for kind, crd := range hostDefinitions(t) {
		judge, err := crdtest.NewJudge(crd)
		if err != nil {
			t.Fatal(err)
		}
		judges[kind] = judge
	}
	var names []string
	for _, c := range crdtest.HostCases() {
		if slices.Contains(names, c.Name) {
			t.Errorf("two cases are called %q", c.Name)
		}
		names = append(names, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			if differs := crdtest.Agree(c, judges[crdtest.KindOf(c.Sent)].Answer(t.Context(), c)); differs != "" {
				t.Error(differs)
			}
		})
	}
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
	for _, object := range crdtest.HostExamples() {
		kind := crdtest.KindOf(object)
		judge, err := crdtest.NewJudge(hostDefinitions(t)[kind])
		if err != nil {
			t.Fatal(err)
		}
		spec, _ := judge.Store(object)["spec"].(map[string]any)
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
