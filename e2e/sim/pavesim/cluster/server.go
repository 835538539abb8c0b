// Package cluster is the API server that node machines join, in memory.
//
// A [Server] keeps objects as the fake client of controller-runtime does, and beside that counts
// generations, makes UIDs that are the same in each run, and keeps a journal of changes, behind which
// the [Cache] of a process lags as far as the simulator lets it. It issues tokens that are bound to
// Secrets, and knows whether one may still be used.
//
// It has one user at a time: nothing in it is locked.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/testworld"
)

// Kinds are those whose changes caches are told of, in the order in which they are handed over.
func Kinds() []string {
	return []string{
		hostsv1.KindHostMachine, hostsv1.KindMachineConfiguration, hostsv1.KindMachineConfigurationVersion, "Node", "CertificateSigningRequest",
	}
}

// Change is one change of an object. A nil Before: it is new; a nil After: it is gone.
type Change struct {
	By            string
	Before, After client.Object
}

// Object is the one that a change is of.
func (c Change) Object() client.Object {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// Server is the API server. New makes one.
type Server struct {
	// Changed is called after each change.
	Changed func(Change)

	store   client.WithWatch
	scheme  *runtime.Scheme
	made    int
	now     map[string]map[string]client.Object // by kind and name
	journal map[string][]Change                 // by kind
	tokens  map[string]token                    // by ID
}

// New returns a server without objects.
func New(t testing.TB) *Server {
	t.Helper()
	return &Server{
		Changed: func(Change) {}, scheme: testworld.Scheme(t), now: map[string]map[string]client.Object{}, journal: map[string][]Change{}, tokens: map[string]token{},
		store: testworld.NewClientBuilder(t).WithStatusSubresource(&corev1.Node{}, &certificatesv1.CertificateSigningRequest{}).Build(),
	}
}

func (s *Server) kind(o runtime.Object) string {
	kind, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		panic(err) // the simulator has the kinds that the controllers use
	}
	return strings.TrimSuffix(kind.Kind, "List")
}

// write makes a call that changes one object, and notes what came of it.
func (s *Server) write(by, kind string, o client.Object, do func(stored client.Object) error) error {
	if err := do(s.now[kind][o.GetName()]); err != nil {
		return err
	}
	return s.note(by, kind, o)
}

// note takes in what a write has left of an object.
func (s *Server) note(by, kind string, o client.Object) error {
	before, name := s.now[kind][o.GetName()], o.GetName()
	after, ok := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", o)
	}
	err := s.store.Get(context.Background(), client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, after)
	switch {
	case apierrors.IsNotFound(err):
		after = nil
	case err != nil:
		return err
	}
	switch {
	case after == nil && before == nil:
		return nil
	case after == nil:
		delete(s.now[kind], name)
	case before != nil && before.GetResourceVersion() == after.GetResourceVersion():
		return nil
	default:
		if err := s.count(before, after); err != nil {
			return err
		}
		if s.now[kind] == nil {
			s.now[kind] = map[string]client.Object{}
		}
		s.now[kind][name] = after
	}
	c := Change{By: by, Before: before, After: after}
	s.journal[kind] = append(s.journal[kind], c)
	s.Changed(c)
	return nil
}

// count gives an object its next generation where its spec has changed.
func (s *Server) count(before, after client.Object) error {
	spec := func(o client.Object) any {
		if f := reflect.ValueOf(o).Elem().FieldByName("Spec"); f.IsValid() {
			return f.Interface()
		}
		return nil
	}
	generation := int64(1)
	if before != nil {
		generation = before.GetGeneration()
		if !reflect.DeepEqual(spec(before), spec(after)) {
			generation++
		}
	}
	if generation == after.GetGeneration() {
		return nil
	}
	after.SetGeneration(generation)
	return s.store.Update(context.Background(), after)
}

// Create makes an object.
func (s *Server) Create(by string, o client.Object) error {
	return s.write(by, s.kind(o), o, func(client.Object) error {
		s.made++
		o.SetUID(types.UID(fmt.Sprintf("%s-%d", o.GetName(), s.made)))
		o.SetGeneration(1)
		return s.store.Create(context.Background(), o)
	})
}

// Change changes an object as it stands: its status, or the rest of it.
func (s *Server) Change(by string, o client.Object, status bool, how func(client.Object)) error {
	return s.write(by, s.kind(o), o, func(stored client.Object) error {
		next, ok := copyOf(stored)
		if !ok {
			return apierrors.NewNotFound(schema.GroupResource{Resource: s.kind(o)}, o.GetName())
		}
		how(next)
		if status {
			return s.store.Status().Update(context.Background(), next)
		}
		return s.store.Update(context.Background(), next)
	})
}

func copyOf(o client.Object) (client.Object, bool) {
	if o == nil {
		return nil, false
	}
	next, ok := o.DeepCopyObject().(client.Object)
	return next, ok
}

// Delete deletes an object, if it is the one that is meant; nil preconditions: whichever it is.
func (s *Server) Delete(by string, o client.Object, p *metav1.Preconditions) error {
	return s.write(by, s.kind(o), o, func(stored client.Object) error {
		if stored != nil && p != nil && (p.UID != nil && *p.UID != stored.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != stored.GetResourceVersion()) {
			return conflict(o, "it is another one by now")
		}
		return s.store.Delete(context.Background(), o)
	})
}

// Remove takes an object out as if it had never been there, whatever holds it up: a backup that was
// restored, or an etcd that was made anew.
func (s *Server) Remove(by string, o client.Object) error {
	if err := s.Change(by, o, false, func(o client.Object) { o.SetFinalizers(nil) }); client.IgnoreNotFound(err) != nil {
		return err
	}
	return client.IgnoreNotFound(s.Delete(by, o, nil))
}

func conflict(o client.Object, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, o.GetName(), errors.New(why))
}

// All returns the objects of a kind by name. They are not to be changed.
func All[T client.Object](s *Server) []T {
	kind := reflect.TypeFor[T]().Elem().Name()
	out := make([]T, 0, len(s.now[kind]))
	for _, o := range s.now[kind] {
		if typed, ok := o.(T); ok {
			out = append(out, typed)
		}
	}
	slices.SortFunc(out, func(x, y T) int { return cmp.Compare(x.GetName(), y.GetName()) })
	return out
}

// Find returns one object, which is not to be changed.
func Find[T client.Object](s *Server, name string) (T, bool) {
	o, ok := s.now[reflect.TypeFor[T]().Elem().Name()][name].(T)
	return o, ok
}

// Now is the time as objects have it.
func Now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }
