// Package kubefake is an API server in memory for tests of controllers: the fake client of
// controller-runtime, which knows the kinds that the operator works with and merges
// server-side apply by the same schemas as a real one.
//
// It validates nothing and admits everything; what a real API server refuses has tables of
// its own. It works under the fake clock of testing/synctest.
package kubefake

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgo "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplane "nstance.dev/operator/api/controlplane/v1beta1"
	infrastructure "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/crds"
)

// Scheme returns the kinds of Kubernetes, Cluster API and the operator.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrastructure.AddToScheme, controlplane.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// NewBuilder returns a builder of fake clients to which objects, indexes and interceptors
// may be added.
func NewBuilder(t testing.TB) *fake.ClientBuilder {
	t.Helper()
	scheme := Scheme(t)
	converter, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	kubernetes := runtime.NewScheme() // alone, so that it refuses what it does not know
	if err := clientgoscheme.AddToScheme(kubernetes); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).
		WithInterceptorFuncs(interceptor.Funcs{Create: create}).
		WithTypeConverters(clientgo.NewTypeConverter(kubernetes), converter, managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(
			&infrastructure.NstanceCluster{}, &infrastructure.NstanceMachinePool{}, &infrastructure.NstanceShardGroup{},
			&infrastructure.NstanceMachine{}, &infrastructure.NstanceMachineTemplate{}, &controlplane.NstanceControlPlane{},
			&clusterv1.Cluster{}, &clusterv1.Machine{}, &clusterv1.MachinePool{},
		)
}

// create gives a new object what the API server gives it: a UID and the time.
func create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if o.GetUID() == "" {
		o.SetUID(uuid.NewUUID())
	}
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	return c.Create(ctx, o, opts...)
}

// schemas converts objects of the operator's kinds by their definitions.
var schemas = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	models := map[string]*spec.Schema{}
	for _, crd := range all {
		for _, version := range crd.Spec.Versions {
			model, err := schema(version)
			if err != nil {
				return nil, err
			}
			model.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
				"group": crd.Spec.Group, "version": version.Name, "kind": crd.Spec.Names.Kind,
			}})
			models[crd.Spec.Names.Kind+"."+version.Name] = model
		}
	}
	return managedfields.NewTypeConverter(models, true)
})

func schema(version apiextensionsv1.CustomResourceDefinitionVersion) (*spec.Schema, error) {
	props := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, props, nil)
	if err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	return structural.ToKubeOpenAPI(), nil
}
