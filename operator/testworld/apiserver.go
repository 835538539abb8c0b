package testworld

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgo "k8s.io/client-go/applyconfigurations"
	"k8s.io/kube-openapi/pkg/validation/spec"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/crds"
)

// Scheme returns the kinds of Kubernetes that the operator works with, those of Cluster API
// and its own. It is always the same one: nobody may add to it.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	k, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	return k.scheme
}

// NewClientBuilder returns a builder of fake clients to which objects, indexes and interceptors
// may be added.
func NewClientBuilder(t testing.TB) *fake.ClientBuilder {
	t.Helper()
	k, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(k.scheme).
		WithRESTMapper(k.mapper).
		WithInterceptorFuncs(interceptor.Funcs{Create: create}).
		WithTypeConverters(k.converters...).
		WithStatusSubresource(
			&infrav1.NstanceCluster{}, &infrav1.NstanceMachinePool{}, &infrav1.NstanceShardGroup{},
			&infrav1.NstanceMachine{}, &infrav1.NstanceMachineTemplate{}, &controlplanev1.NstanceControlPlane{},
			&clusterv1.Cluster{}, &clusterv1.Machine{}, &clusterv1.MachinePool{},
			&demandv1.CapacityRequest{}, &demandv1.UpcomingNode{}, &demandv1.AvailableCapacity{},
			&hostsv1.HostMachine{}, &hostsv1.MachineConfiguration{}, &hostsv1.MachineConfigurationVersion{}, &hostsv1.MachineOperation{},
		)
}

// known is what every client knows of kinds. It is dear to make, and made once.
type known struct {
	scheme     *runtime.Scheme
	mapper     meta.RESTMapper
	converters []managedfields.TypeConverter
}

var kinds = sync.OnceValues(func() (*known, error) {
	kubernetes := []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, storagev1.AddToScheme, policyv1.AddToScheme, admissionregistrationv1.AddToScheme, certificatesv1.AddToScheme,
	}
	alone := runtime.NewScheme() // its converter refuses what it does not know
	scheme := runtime.NewScheme()
	errs := []error{clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme), demandv1.AddToScheme(scheme), hostsv1.AddToScheme(scheme)}
	for _, add := range kubernetes {
		errs = append(errs, add(scheme), add(alone))
	}
	ours, err := schemas()
	errs = append(errs, err)
	return &known{
		scheme: scheme, mapper: testrestmapper.TestOnlyStaticRESTMapper(scheme),
		converters: []managedfields.TypeConverter{clientgo.NewTypeConverter(alone), ours, managedfields.NewDeducedTypeConverter()},
	}, errors.Join(errs...)
})

// create gives a new object what the API server gives it: a UID and the time.
func create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if o.GetUID() == "" {
		o.SetUID(uuid.NewUUID())
	}
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	return c.Create(ctx, o, opts...)
}

// schemas converts objects of the operator's kinds by their definitions.
func schemas() (managedfields.TypeConverter, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	hosts, err := crds.Hosts()
	if err != nil {
		return nil, err
	}
	all = append(all, hosts...)
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
}

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
