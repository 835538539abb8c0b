package crds_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// An API server takes the definitions: the schema is structural and no rule can cost
// more than it allows.
func TestDefinitionsAreValid(t *testing.T) { checkValid(t, byKind(t, crds.All)) }

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
	all := byKind(t, crds.All)
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
	checkCases(t, byKind(t, crds.All), crdtest.Cases())
}

func TestDefaults(t *testing.T) {
	want := map[string]map[string]any{
		"NstanceMachinePool": {
			"group": "workers", "shards": []any{"a", "b"},
			"deletePolicy": "Oldest", "rebalance": "Always", "unreachablePolicy": "Redirect", "deletionPolicy": "Delete",
		},
		"NstanceMachine": {"groupRef": map[string]any{"name": "workers"}, "mode": "OnDemand"},
	}
	of := judges(t, byKind(t, crds.All))
	for _, object := range crdtest.Examples() {
		kind := crdtest.KindOf(object)
		if want[kind] == nil {
			continue
		}
		if diff := cmp.Diff(want[kind], of[kind].Store(object)["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}
