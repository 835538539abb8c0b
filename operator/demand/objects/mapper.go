package objects

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// Mapper returns what maps kinds to resources, as a manager's options take it. Those of demand
// mode, and those of Kubernetes that are read for each Pod, are known: every read of a cache asks for them. The API server is
// asked for the others when one is first needed.
func Mapper(c *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	asked, err := apiutil.NewDynamicRESTMapper(c, client)
	if err != nil {
		return nil, fmt.Errorf("kinds of the API server: %w", err)
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known(), asked}}, nil
}

// known maps the kinds of demand mode, and those of Kubernetes that it reads most.
func known() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{demandv1.GroupVersion, corev1.SchemeGroupVersion})
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(demandv1.GroupVersion.WithKind("CapacityRequest"), meta.RESTScopeNamespace)
	m.Add(demandv1.GroupVersion.WithKind("UpcomingNode"), meta.RESTScopeRoot)
	m.Add(demandv1.GroupVersion.WithKind("AvailableCapacity"), meta.RESTScopeRoot)
	return m
}
