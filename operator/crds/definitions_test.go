package crds_test

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"nstance.dev/operator/crds/crdtest"
)

type definition = apiextensionsv1.CustomResourceDefinition

// byKind returns the definitions of a list by kind.
func byKind(t *testing.T, list func() ([]*definition, error)) map[string]*definition {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]*definition{}
	for _, crd := range all {
		of[crd.Spec.Names.Kind] = crd
	}
	return of
}

// checkValid checks that an API server takes the definitions, and that each kind has a status.
func checkValid(t *testing.T, all map[string]*definition) {
	t.Helper()
	for kind, crd := range all {
		crd = crd.DeepCopy()
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		version := crd.Spec.Versions[0]
		crd.Status.StoredVersions = []string{version.Name}
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", kind, err)
		}
		if version.Subresources == nil || version.Subresources.Status == nil {
			t.Errorf("%s has no status", kind)
		}
	}
}

// shortNames are the scopes and the names of definitions, by their short names.
func shortNames(all map[string]*definition) map[string]string {
	short := map[string]string{}
	for _, crd := range all {
		short[crd.Spec.Names.ShortNames[0]] = string(crd.Spec.Scope) + " " + crd.Name
	}
	return short
}

// judges are those of the definitions, by kind.
func judges(t *testing.T, all map[string]*definition) map[string]*crdtest.Judge {
	t.Helper()
	of := map[string]*crdtest.Judge{}
	for kind, crd := range all {
		judge, err := crdtest.NewJudge(crd)
		if err != nil {
			t.Fatal(err)
		}
		of[kind] = judge
	}
	return of
}

// checkCases checks that the definitions take and refuse what a table says.
func checkCases(t *testing.T, all map[string]*definition, cases []crdtest.Case) {
	t.Helper()
	of, names := judges(t, all), map[string]bool{}
	for _, c := range cases {
		if names[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}
		names[c.Name] = true
		t.Run(c.Name, func(t *testing.T) {
			if differs := crdtest.Agree(c, of[crdtest.KindOf(c.Sent)].Answer(t.Context(), c)); differs != "" {
				t.Error(differs)
			}
		})
	}
}
