package crds_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// definitions returns the definitions by kind.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range all {
		byKind[crd.Spec.Names.Kind] = crd
	}
	return byKind
}

// An API server takes the definitions: the schema is structural and no rule can cost
// more than it allows.
func TestDefinitionsAreValid(t *testing.T) {
	for kind, crd := range definitions(t) {
		crd = crd.DeepCopy()
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		crd.Status.StoredVersions = []string{"v1beta1"}
		internal := &apiextensions.CustomResourceDefinition{}
		err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// Cluster API and the autoscaler find a kind by its name and its labels, people by its
// short name.
func TestDefinitionsAreFound(t *testing.T) {
	short := map[string]string{
		"NstanceCluster": "nsc", "NstanceMachinePool": "nsmp", "NstanceMachine": "nsm",
		"NstanceMachineTemplate": "nsmt", "NstanceShardGroup": "nssg", "NstanceControlPlane": "nscp",
	}
	labels := map[string]string{
		"cluster.x-k8s.io/v1beta1":    "v1beta1",
		"cluster.x-k8s.io/v1beta2":    "v1beta1",
		"cluster.x-k8s.io/provider":   "infrastructure-nstance",
		"clusterctl.cluster.x-k8s.io": "",
	}
	all := definitions(t)
	if len(all) != len(short) {
		t.Errorf("%d kinds, want %d", len(all), len(short))
	}
	for kind, crd := range all {
		plural := strings.ToLower(kind) + "s"
		want := apiextensionsv1.CustomResourceDefinitionNames{
			Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind),
			ShortNames: []string{short[kind]}, Categories: []string{"cluster-api"},
		}
		if diff := cmp.Diff(want, crd.Spec.Names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		if diff := cmp.Diff(labels, crd.Labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", kind, diff)
		}
		if crd.Name != plural+"."+crd.Spec.Group || crd.Spec.Scope != apiextensionsv1.NamespaceScoped || len(crd.Spec.Versions) != 1 {
			t.Errorf("%s: name %s, scope %s, %d versions", kind, crd.Name, crd.Spec.Scope, len(crd.Spec.Versions))
		}
		version := crd.Spec.Versions[0]
		columns := version.AdditionalPrinterColumns
		if version.Subresources == nil || version.Subresources.Status == nil || version.Subresources.Scale != nil {
			t.Errorf("%s: want a status and no scale", kind)
		}
		if len(columns) == 0 || columns[len(columns)-1].Name != "Age" {
			t.Errorf("%s: the last column is not Age", kind)
		}
	}
}

// O15: what the schema and its rules refuse, they refuse with nobody else there.
func TestO15_SchemasTakeAndRefuse(t *testing.T) {
	judges := map[string]*crdtest.Judge{}
	for kind, crd := range definitions(t) {
		judge, err := crdtest.NewJudge(crd)
		if err != nil {
			t.Fatal(err)
		}
		judges[kind] = judge
	}
	var names []string
	for _, c := range crdtest.Cases() {
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

func TestDefaults(t *testing.T) {
	want := map[string]map[string]any{
		"NstanceMachinePool": {
			"group": "workers", "shards": []any{"a", "b"},
			"deletePolicy": "Oldest", "rebalance": "Always", "unreachablePolicy": "Redirect", "deletionPolicy": "Delete",
		},
		"NstanceMachine": {"groupRef": map[string]any{"name": "workers"}, "mode": "OnDemand"},
	}
	all := definitions(t)
	for _, object := range crdtest.Examples() {
		kind := crdtest.KindOf(object)
		if want[kind] == nil {
			continue
		}
		judge, err := crdtest.NewJudge(all[kind])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[kind], judge.Store(object)["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}
