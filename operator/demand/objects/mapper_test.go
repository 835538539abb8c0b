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

// counted counts the questions that it passes on.
type counted struct {
	meta.RESTMapper
	asked int
}

func (c *counted) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.asked++
	return c.RESTMapper.RESTMapping(kind, versions...)
}

// A kind is asked for until there is one, and then not again.
func TestKindsAreRemembered(t *testing.T) {
	installed := meta.NewDefaultRESTMapper(nil)
	from := &counted{RESTMapper: installed}
	m := &remembered{RESTMapper: from, known: known()}
	kind := demandv1.GroupVersion.WithKind("UpcomingNodeList")
	for range 2 {
		if _, err := m.RESTMapping(kind.GroupKind(), kind.Version); !meta.IsNoMatchError(err) {
			t.Fatalf("error %v of a kind that is not installed", err)
		}
	}
	installed.Add(kind, meta.RESTScopeRoot)
	for range 3 {
		if got, err := m.RESTMapping(kind.GroupKind(), kind.Version); err != nil || got.Scope != meta.RESTScopeRoot {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if from.asked != 3 {
		t.Errorf("asked %d times, want twice without an answer and once with one", from.asked)
	}
	if got, err := m.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: "AnotherList"}, kind.Version); !meta.IsNoMatchError(err) {
		t.Errorf("another kind: %+v, %v", got, err)
	}
}
