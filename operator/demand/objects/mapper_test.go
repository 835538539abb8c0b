package objects

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// unreachable is an API server to which no connection is made.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// What is read for each Pod is known without an API server, with the resources and scopes that Kubernetes has.
func TestKindsThatAreKnown(t *testing.T) {
	m, err := Mapper(&rest.Config{Host: "https://api"}, &http.Client{Transport: unreachable{}})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[schema.GroupVersionKind]struct {
		resource string
		scope    meta.RESTScopeName
	}{
		corev1.SchemeGroupVersion.WithKind("Pod"):           {"pods", meta.RESTScopeNameNamespace},
		corev1.SchemeGroupVersion.WithKind("Node"):          {"nodes", meta.RESTScopeNameRoot},
		demandv1.GroupVersion.WithKind("CapacityRequest"):   {"capacityrequests", meta.RESTScopeNameNamespace},
		demandv1.GroupVersion.WithKind("UpcomingNode"):      {"upcomingnodes", meta.RESTScopeNameRoot},
		demandv1.GroupVersion.WithKind("AvailableCapacity"): {"availablecapacities", meta.RESTScopeNameRoot},
	} {
		got, err := m.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || got.Resource != kind.GroupVersion().WithResource(want.resource) || got.Scope.Name() != want.scope {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
	if _, err := m.RESTMapping(schema.GroupKind{Kind: "Secret"}, "v1"); err == nil {
		t.Error("a kind that is not known is mapped without an API server")
	}
}
