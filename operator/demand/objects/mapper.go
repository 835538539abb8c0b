package objects

import (
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// Mapper returns what maps kinds to resources, as a manager's options take it. Those of demand
// mode, and those of Kubernetes that are read for each Pod, are known. The API server is asked for the others when one is
// first needed.
func Mapper(c *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	asked, err := apiutil.NewDynamicRESTMapper(c, client)
	if err != nil {
		return nil, fmt.Errorf("kinds of the API server: %w", err)
	}
	return &remembered{RESTMapper: asked, known: known()}, nil
}

// remembered answers what is known, and from memory what it was asked before: each read of a cache asks for the scope
// of a kind, and to look through all kinds costs more than the read. A kind of a version keeps its scope and its
// resource.
type remembered struct {
	meta.RESTMapper // is asked for the others

	known   meta.RESTMapper
	answers sync.Map // by question, *meta.RESTMapping
}

// RESTMapping implements [meta.RESTMapper]. An error is not remembered, for the kind may be installed later, and nor is an
// answer to a question for any number of versions but one.
func (r *remembered) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return r.RESTMapper.RESTMapping(kind, versions...)
	}
	question := kind.WithVersion(versions[0])
	if answer, ok := r.answers.Load(question); ok {
		return answer.(*meta.RESTMapping), nil //nolint:forcetypeassert // there is nothing else
	}
	answer, err := r.known.RESTMapping(kind, versions...)
	if err != nil {
		answer, err = r.RESTMapper.RESTMapping(kind, versions...)
	}
	if err == nil {
		r.answers.Store(question, answer)
	}
	return answer, err
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
