package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
)

// Call is one call of the API.
type Call struct {
	By   string // who calls
	Verb string // get, list, watch, create, update, patch, apply, delete, evict
	Kind string
	Name string // empty in lists and watches
}

func (c Call) String() string { return c.By + " " + c.Verb + " " + c.Kind + " " + c.Name }

// Fault is what happens to a call on its way. The zero value: nothing.
type Fault struct {
	Latency time.Duration // before it arrives
	Before  error         // instead of its effect
	After   error         // after its effect, instead of the answer
}

// Change is one change of an object. A nil Before: it is new; a nil After: it is gone.
type Change struct {
	Call
	Before, After client.Object
}

// Faults decides what goes wrong. Its methods may be called by several goroutines.
type Faults interface {
	// Call draws what happens to a call.
	Call(c Call) Fault
	// Lag is how long the nth event of a watch takes; end: the watch breaks instead.
	Lag(by, kind string, n int) (lag time.Duration, end bool)
}

// Options are what a Server is made with; all are required unless said.
type Options struct {
	Test   testing.TB // for what cannot fail
	Faults Faults
	// Changed hears of each change in order. It is called with the server locked, so it
	// may look at the change alone.
	Changed func(Change)
	// Kinds add kinds beside those that every server knows; nil: there are none.
	Kinds []func(*runtime.Scheme) error
}

// Server is the API server. It is safe for concurrent use; New makes one.
type Server struct {
	opts   Options
	store  client.WithWatch
	scheme *runtime.Scheme
	mapper meta.RESTMapper

	mu       sync.Mutex
	away     time.Time // until when nobody reaches it
	made     int       // objects so far
	journals map[string]*journal
	changes  int // so far
}

// journal is what stands of one kind, and how that came about.
type journal struct {
	now    map[client.ObjectKey]client.Object
	events []watch.Event
	news   chan struct{} // closed with the next event
}

// New returns a server without objects.
func New(o Options) *Server {
	scheme := kinds(o.Test, o.Kinds)
	return &Server{
		opts: o, scheme: scheme, mapper: testrestmapper.TestOnlyStaticRESTMapper(scheme), journals: map[string]*journal{},
		store: testworld.NewClientBuilder(o.Test).WithScheme(scheme).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName} // it is the index of Pods
		}).Build(),
	}
}

// kinds are those that the operator and the models work with, and no others: the fake
// client goes through all of them with each write.
func kinds(t testing.TB, more []func(*runtime.Scheme) error) *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion,
		&corev1.Node{}, &corev1.NodeList{}, &corev1.Pod{}, &corev1.PodList{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeList{},
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaimList{})
	scheme.AddKnownTypes(appsv1.SchemeGroupVersion, &appsv1.DaemonSet{}, &appsv1.DaemonSetList{})
	scheme.AddKnownTypes(storagev1.SchemeGroupVersion, &storagev1.VolumeAttachment{}, &storagev1.VolumeAttachmentList{})
	scheme.AddKnownTypes(policyv1.SchemeGroupVersion, &policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{}, &policyv1.Eviction{})
	for _, version := range []schema.GroupVersion{
		corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, storagev1.SchemeGroupVersion, policyv1.SchemeGroupVersion,
	} {
		metav1.AddToGroupVersion(scheme, version)
	}
	for _, add := range append([]func(*runtime.Scheme) error{clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme, demandv1.AddToScheme, hostsv1.AddToScheme}, more...) {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Scheme has the kinds that the server knows.
func (s *Server) Scheme() *runtime.Scheme { return s.scheme }

// Mapper maps them.
func (s *Server) Mapper() meta.RESTMapper { return s.mapper }

// Away lets nobody reach the server for a while; zero ends that.
func (s *Server) Away(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = time.Now().Add(d)
	for _, j := range s.journals {
		j.wake()
	}
}

func (s *Server) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.away)
}

// Changes is how many changes there were so far.
func (s *Server) Changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// errAway is what a client gets of a server that is away.
func errAway(c Call) error {
	return &url.Error{Op: c.Verb, URL: "https://sim/" + c.Kind, Err: syscall.ECONNREFUSED}
}

// travel takes a call to the server, or fails on the way.
func (s *Server) travel(ctx context.Context, c Call) (after, err error) {
	f := s.opts.Faults.Call(c)
	timer := time.NewTimer(f.Latency)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
	}
	if s.isAway() {
		return nil, errAway(c)
	}
	return f.After, f.Before
}

// journal returns that of a kind. The caller holds mu.
func (s *Server) journal(kind string) *journal {
	j := s.journals[kind]
	if j == nil {
		j = &journal{now: map[client.ObjectKey]client.Object{}, news: make(chan struct{})}
		s.journals[kind] = j
	}
	return j
}

func (j *journal) wake() {
	close(j.news)
	j.news = make(chan struct{})
}

// read makes a call without effect.
func (s *Server) read(ctx context.Context, c Call, do func() error) error {
	if _, err := s.travel(ctx, c); err != nil {
		return err
	}
	return do()
}

// write makes a call that changes one object, and notes what came of it.
func (s *Server) write(ctx context.Context, c Call, object runtime.Object, do func() error) error {
	after, err := s.travel(ctx, c)
	if err != nil {
		return err
	}
	if err := s.change(c, object, do); err != nil {
		return err
	}
	return after
}

func (s *Server) change(c Call, object runtime.Object, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: accessor.GetNamespace(), Name: accessor.GetName()}
	return s.note(c, kind, key, object)
}

// note takes in what a write has left of an object. The caller holds mu.
func (s *Server) note(c Call, kind schema.GroupVersionKind, key client.ObjectKey, written runtime.Object) error {
	j := s.journal(kind.Kind)
	before := j.now[key]
	after, err := s.stored(kind, key)
	if err != nil {
		return err
	}
	switch {
	case before == nil && after == nil:
		return nil
	case after == nil:
		delete(j.now, key)
		s.tell(j, watch.Event{Type: watch.Deleted, Object: before}, Change{c, before, nil})
		return nil
	case before != nil && before.GetResourceVersion() == after.GetResourceVersion():
		return nil
	}
	if after, err = s.counted(before, after, written); err != nil {
		return err
	}
	j.now[key] = after
	if before == nil {
		s.tell(j, watch.Event{Type: watch.Added, Object: after}, Change{c, nil, after})
		return nil
	}
	s.tell(j, watch.Event{Type: watch.Modified, Object: after}, Change{c, before, after})
	return nil
}

func (s *Server) tell(j *journal, e watch.Event, c Change) {
	j.events = append(j.events, e)
	s.changes++
	j.wake()
	s.opts.Changed(c)
}

// stored returns an object as it stands, nil if it does not.
func (s *Server) stored(kind schema.GroupVersionKind, key client.ObjectKey) (client.Object, error) {
	made, err := s.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	object, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object", kind)
	}
	err = s.store.Get(context.Background(), key, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// counted gives a kind of the operator or of Cluster API its next generation where its
// spec has changed, and lets who wrote it know.
func (s *Server) counted(before, after client.Object, written runtime.Object) (client.Object, error) {
	if !strings.HasPrefix(reflect.TypeOf(after).Elem().PkgPath(), "nstance.dev/") &&
		!strings.HasPrefix(reflect.TypeOf(after).Elem().PkgPath(), "sigs.k8s.io/cluster-api/") {
		return after, nil
	}
	generation := int64(1)
	if before != nil {
		generation = before.GetGeneration()
		if !reflect.DeepEqual(specOf(before), specOf(after)) || before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() {
			generation++
		}
	}
	if generation == after.GetGeneration() {
		return after, nil
	}
	after.SetGeneration(generation)
	if err := s.store.Update(context.Background(), after); err != nil {
		return nil, fmt.Errorf("count the generation: %w", err)
	}
	if accessor, err := meta.Accessor(written); err == nil {
		accessor.SetGeneration(after.GetGeneration())
		accessor.SetResourceVersion(after.GetResourceVersion())
	}
	return after, nil
}

// specOf is the spec of an object.
func specOf(o client.Object) any {
	spec := reflect.ValueOf(o).Elem().FieldByName("Spec")
	if !spec.IsValid() {
		return nil
	}
	return spec.Interface()
}

// Each calls do with every object of the kind of T that stands, which it must not change.
func Each[T client.Object](s *Server, do func(T)) {
	for _, o := range All[T](s) {
		do(o)
	}
}

// All returns the objects of the kind of T that stand, by namespace and name. They are not
// to be changed.
func All[T client.Object](s *Server) []T {
	kind := kindOf[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journal(kind)
	out := make([]T, 0, len(j.now))
	for _, key := range sortedKeys(j.now) {
		if o, ok := j.now[key].(T); ok {
			out = append(out, o)
		}
	}
	return out
}

// Get returns one object that stands, and not to be changed; false: it does not.
func Get[T client.Object](s *Server, namespace, name string) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.journal(kindOf[T]()).now[client.ObjectKey{Namespace: namespace, Name: name}].(T)
	return o, ok
}

// kindOf is the kind of a type, which has its name.
func kindOf[T client.Object]() string { return reflect.TypeFor[T]().Elem().Name() }

// ErrGone is the answer to a watch that is asked to go on from what nobody remembers.
var ErrGone = apierrors.NewResourceExpired("too old resource version")

var errNoMass = errors.New("objects are deleted one by one")
