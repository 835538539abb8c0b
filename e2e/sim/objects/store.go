// Package objects keeps the objects of an API server in memory, for simulators.
//
// A [Store] keeps them as the fake client of controller-runtime does, and beside that counts generations, makes UIDs
// that are the same in each run, and keeps a journal of changes. A [View] is what a process has of them: it lags behind
// the journal for as long as the simulator lets it. Which calls arrive, what they are answered, and what is refused for
// what an object holds is for each simulator.
//
// One write happens at a time; reads may go on beside it.
package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"nstance.dev/operator/testworld"
)

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

// Store keeps objects. New makes one.
type Store struct {
	// Changed is called after each change, by who made it. It is set before the first.
	Changed func(Change)
	// Direct reads and writes without anybody noticing: what it writes is noticed with the [Store.Write] that it is called in.
	Direct client.WithWatch

	scheme *runtime.Scheme

	mu      sync.Mutex
	made    int                                 // objects
	now     map[string]map[string]client.Object // by kind and name
	journal map[string][]Change                 // by kind
}

// New returns a store without objects. Those whose status is written by itself are named, beside the product's own.
func New(t testing.TB, statuses ...client.Object) *Store {
	t.Helper()
	return &Store{
		Changed: func(Change) {}, Direct: testworld.NewClientBuilder(t).WithStatusSubresource(statuses...).Build(), scheme: testworld.Scheme(t),
		now: map[string]map[string]client.Object{}, journal: map[string][]Change{},
	}
}

// Scheme has the kinds of the store.
func (s *Store) Scheme() *runtime.Scheme { return s.scheme }

// Kind is the kind of an object, or of those that a list has.
func (s *Store) Kind(o runtime.Object) string {
	kind, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		panic(err) // simulators have the kinds that the controllers use
	}
	return strings.TrimSuffix(kind.Kind, "List")
}

// Stored returns an object, which is not to be changed; nil: there is none.
func (s *Store) Stored(kind, name string) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now[kind][name]
}

// Write makes a call that changes one object, and notes what came of it. do is given the object as it stands; nil: there
// is none.
func (s *Store) Write(by string, o client.Object, do func(stored client.Object) error) error {
	kind := s.Kind(o)
	before := s.Stored(kind, o.GetName())
	if err := do(before); err != nil {
		return err
	}
	after, ok := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", o)
	}
	err := s.Direct.Get(context.Background(), client.ObjectKeyFromObject(o), after)
	switch {
	case apierrors.IsNotFound(err) && before == nil:
		return nil
	case apierrors.IsNotFound(err):
		after = nil
	case err != nil:
		return err
	case before != nil && before.GetResourceVersion() == after.GetResourceVersion():
		return nil
	default:
		if err := s.count(before, after); err != nil {
			return err
		}
	}
	s.note(kind, o.GetName(), Change{By: by, Before: before, After: after})
	return nil
}

// note takes a change in.
func (s *Store) note(kind, name string, c Change) {
	s.mu.Lock()
	if s.now[kind] == nil {
		s.now[kind] = map[string]client.Object{}
	}
	if c.After == nil {
		delete(s.now[kind], name)
	} else {
		s.now[kind][name] = c.After
	}
	s.journal[kind] = append(s.journal[kind], c)
	s.mu.Unlock()
	s.Changed(c)
}

// count gives an object its next generation where its spec has changed.
func (s *Store) count(before, after client.Object) error {
	generation := int64(1)
	if before != nil {
		generation = before.GetGeneration()
		if !reflect.DeepEqual(specOf(before), specOf(after)) {
			generation++
		}
	}
	if generation == after.GetGeneration() {
		return nil
	}
	after.SetGeneration(generation)
	return s.Direct.Update(context.Background(), after)
}

func specOf(o client.Object) any {
	if f := reflect.ValueOf(o).Elem().FieldByName("Spec"); f.IsValid() {
		return f.Interface()
	}
	return nil
}

// Identify gives an object that is about to be made its UID, which is the same in each run.
func (s *Store) Identify(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	o.SetUID(types.UID(fmt.Sprintf("%s-%d", o.GetName(), s.made)))
	o.SetGeneration(1)
}

// Meant refuses a call that is about another object than the one that stands, or about an earlier state of it. Empty:
// any is meant.
func Meant(stored client.Object, uid types.UID, resourceVersion string) error {
	switch {
	case stored == nil:
	case uid != "" && uid != stored.GetUID():
		return conflict(stored, "it has another UID")
	case resourceVersion != "" && resourceVersion != stored.GetResourceVersion():
		return conflict(stored, "it has changed")
	}
	return nil
}

func conflict(o client.Object, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, o.GetName(), errors.New(why))
}

// MeantByDeletion refuses a deletion whose preconditions do not hold; nil: it has none.
func MeantByDeletion(stored client.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	var uid types.UID
	var version string
	if p.UID != nil {
		uid = *p.UID
	}
	if p.ResourceVersion != nil {
		version = *p.ResourceVersion
	}
	return Meant(stored, uid, version)
}

// MeantByPatch refuses a patch that names another UID than the object has.
func MeantByPatch(stored, o client.Object, patch client.Patch) error {
	data, err := patch.Data(o)
	var named struct {
		Metadata struct{ UID types.UID }
	}
	if err = errors.Join(err, json.Unmarshal(data, &named)); err != nil {
		return err
	}
	return Meant(stored, named.Metadata.UID, "")
}

// Applied is what a part of an object that is applied names, and the object as it stands, if it is the one that is meant.
func (s *Store) Applied(config runtime.ApplyConfiguration) (named *metav1.PartialObjectMetadata, meant func() (client.Object, error), err error) {
	part, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, nil, err
	}
	named = &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, named); err != nil {
		return nil, nil, err
	}
	return named, func() (client.Object, error) {
		stored := s.Stored(named.Kind, named.Name)
		if stored == nil {
			return nil, notFound(named.Kind, named.Name)
		}
		return stored, Meant(stored, named.UID, named.ResourceVersion)
	}, nil
}

func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

// Change changes an object as it stands: its status, or the rest of it.
func (s *Store) Change(by string, o client.Object, status bool, how func(client.Object)) error {
	return s.Write(by, o, func(stored client.Object) error {
		if stored == nil {
			return notFound(s.Kind(o), o.GetName())
		}
		next, ok := stored.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("the copy of %s is no object", o.GetName())
		}
		how(next)
		if status {
			return s.Direct.Status().Update(context.Background(), next)
		}
		return s.Direct.Update(context.Background(), next)
	})
}

// All returns the objects of a kind by name. They are not to be changed.
func All[T client.Object](s *Store) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return typed[T](s.now[nameOf[T]()])
}

func nameOf[T client.Object]() string { return reflect.TypeFor[T]().Elem().Name() }

func typed[T client.Object](of map[string]client.Object) []T {
	out := make([]T, 0, len(of))
	for _, o := range of {
		if is, ok := o.(T); ok {
			out = append(out, is)
		}
	}
	slices.SortFunc(out, func(x, y T) int { return cmp.Compare(x.GetName(), y.GetName()) })
	return out
}

// Find returns one object, which is not to be changed.
func Find[T client.Object](s *Store, name string) (T, bool) {
	o, ok := s.Stored(nameOf[T](), name).(T)
	return o, ok
}
