package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Client returns a client of the server, which reads from it and from no cache. By is who
// it belongs to.
func (s *Server) Client(by string) client.Client {
	call := func(verb string, o runtime.Object) Call { return s.call(by, verb, o) }
	return interceptor.NewClient(s.store, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			what := call("get", o)
			what.Name = key.Name
			return s.read(ctx, what, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			return s.read(ctx, call("list", o), func() error { return c.List(ctx, o, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			what := call("create", o)
			return s.write(ctx, what, o, func() error {
				s.identify(what, o)
				return c.Create(ctx, o, opts...)
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return s.write(ctx, call("update", o), o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return s.write(ctx, call("patch", o), o, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return s.write(ctx, call("delete", o), o, func() error { return s.delete(ctx, c, o, opts...) })
		},
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return errNoMass
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return s.apply(ctx, by, o, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return s.write(ctx, call("update", o), o, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return s.write(ctx, call("patch", o), o, func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return s.apply(ctx, by, o, func() error { return c.SubResource(sub).Apply(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			if pod, ok := o.(*corev1.Pod); ok && sub == "eviction" {
				return s.write(ctx, call("evict", o), o, func() error { return s.evict(ctx, c, pod) })
			}
			return c.SubResource(sub).Create(ctx, o, body, opts...)
		},
	})
}

// identify gives a new object its UID, which in each run is the same: pauses are spread by
// it. The caller holds mu.
func (s *Server) identify(c Call, o client.Object) {
	s.made++
	o.SetUID(types.UID(fmt.Sprintf("%s-%s-%d", strings.ToLower(c.Kind), c.Name, s.made)))
}

func (s *Server) call(by, verb string, o runtime.Object) Call {
	c := Call{By: by, Verb: verb}
	if kind, err := apiutil.GVKForObject(o, s.scheme); err == nil {
		c.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	if accessor, err := meta.Accessor(o); err == nil {
		c.Name = accessor.GetName()
	}
	return c
}

// apply is write for a configuration that is applied.
func (s *Server) apply(ctx context.Context, by string, config runtime.ApplyConfiguration, do func() error) error {
	part, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return err
	}
	object := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, object); err != nil {
		return err
	}
	gv, err := schema.ParseGroupVersion(object.APIVersion)
	if err != nil {
		return err
	}
	call := Call{By: by, Verb: "apply", Kind: object.Kind, Name: object.Name}
	after, err := s.travel(ctx, call)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	if now := s.journal(object.Kind).now[key]; object.UID != "" && (now == nil || now.GetUID() != object.UID) {
		return apierrors.NewConflict(schema.GroupResource{Group: gv.Group, Resource: object.Kind}, object.Name, fmt.Errorf("another UID"))
	}
	if err := do(); err != nil {
		return err
	}
	if err := s.note(call, gv.WithKind(object.Kind), key, object); err != nil {
		return err
	}
	return after
}

// delete deletes an object, if it is the one that is meant.
func (s *Server) delete(ctx context.Context, c client.Client, o client.Object, opts ...client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	kind, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		return err
	}
	now := s.journal(kind.Kind).now[client.ObjectKeyFromObject(o)]
	if p := options.Preconditions; now != nil && p != nil && p.UID != nil && *p.UID != now.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, o.GetName(), fmt.Errorf("another UID"))
	}
	if now != nil && !now.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return c.Delete(ctx, o, opts...)
}

// evict deletes a Pod if no budget is in the way. The caller holds mu.
func (s *Server) evict(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	now, _ := s.journal("Pod").now[client.ObjectKeyFromObject(pod)].(*corev1.Pod)
	if now == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, pod.Name)
	}
	if !now.DeletionTimestamp.IsZero() {
		return nil
	}
	if budget := s.blocking(now); budget != "" {
		return apierrors.NewTooManyRequests("disruption budget "+budget+" does not allow it", 0)
	}
	return c.Delete(ctx, pod)
}

// blocking names a budget that does not let a Pod go. The caller holds mu.
func (s *Server) blocking(pod *corev1.Pod) string {
	if !ready(pod) {
		return "" // a Pod that does not work is missed by nobody
	}
	for _, o := range s.journal("PodDisruptionBudget").now {
		budget, ok := o.(*policyv1.PodDisruptionBudget)
		if !ok || budget.Namespace != pod.Namespace || budget.Spec.MinAvailable == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		healthy := 0
		for _, other := range s.journal("Pod").now {
			if p, ok := other.(*corev1.Pod); ok && p.Namespace == pod.Namespace && selector.Matches(labels.Set(p.Labels)) && ready(p) {
				healthy++
			}
		}
		if healthy <= budget.Spec.MinAvailable.IntValue() {
			return budget.Name
		}
	}
	return ""
}

// ready reports whether a Pod works.
func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning
}

func sortedKeys(of map[client.ObjectKey]client.Object) []client.ObjectKey {
	keys := make([]client.ObjectKey, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return keys
}
