package crds_test

import (
	"maps"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// An API server takes the definitions of demand mode: the schema is structural and no rule
// can cost more than it allows.
func TestDemandDefinitionsAreValid(t *testing.T) {
	all, err := crds.Demand()
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{}
	for _, crd := range all {
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		crd.Status.StoredVersions = []string{"v1alpha1"}
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", crd.Name, err)
		}
		version := crd.Spec.Versions[0]
		if version.Subresources == nil || version.Subresources.Status == nil {
			t.Errorf("%s has no status", crd.Name)
		}
		short[crd.Spec.Names.ShortNames[0]] = string(crd.Spec.Scope) + " " + crd.Name
	}
	want := map[string]string{
		"creq": "Namespaced capacityrequests.demand.nstance.dev",
		"un":   "Cluster upcomingnodes.demand.nstance.dev",
		"ac":   "Cluster availablecapacities.demand.nstance.dev",
	}
	if !maps.Equal(short, want) {
		t.Errorf("short names %v, want %v", short, want)
	}
}

// What the schemas and their rules refuse, they refuse with nobody else there.
func TestDemandObjectsAreTakenAndRefused(t *testing.T) {
	all, err := crds.Demand()
	if err != nil {
		t.Fatal(err)
	}
	judges := map[string]*crdtest.Judge{}
	for _, crd := range all {
		if judges[crd.Spec.Names.Kind], err = crdtest.NewJudge(crd); err != nil {
			t.Fatal(err)
		}
	}
	names := map[string]bool{}
	for _, c := range crdtest.DemandCases() {
		if names[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}
		names[c.Name] = true
		t.Run(c.Name, func(t *testing.T) {
			kind, _ := c.Sent["kind"].(string)
			if differs := crdtest.Agree(c, judges[kind].Answer(t.Context(), c)); differs != "" {
				t.Error(differs)
			}
		})
	}
}

// Objects of a phase can be asked for.
func TestRequestsAreSelectedByPhase(t *testing.T) {
	all, err := crds.Demand()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		fields := crd.Spec.Versions[0].SelectableFields
		if want := crd.Spec.Names.Kind == "CapacityRequest"; want != (len(fields) == 1 && fields[0].JSONPath == ".status.phase") {
			t.Errorf("%s: selectable fields %v", crd.Name, fields)
		}
	}
}
