package scale

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sightings note when objects of a kind were first seen to be as they are to become, by name. They are
// safe for concurrent use.
type sightings struct {
	is func(*unstructured.Unstructured) bool

	mu   sync.Mutex
	at   map[string]time.Time
	news chan struct{} // holds one token while there are any
}

// watch notes when objects of a kind become what is says, from now on and as long as the test lasts.
func (w *world) watch(kind schema.GroupVersionResource, in string, is func(*unstructured.Unstructured) bool) *sightings {
	w.t.Helper()
	resource := w.custom.Resource(kind).Namespace(in)
	now, err := resource.List(w.t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	stream, err := resource.Watch(w.t.Context(), metav1.ListOptions{ResourceVersion: now.GetResourceVersion()})
	if err != nil {
		w.t.Fatal(err)
	}
	s := &sightings{is: is, at: map[string]time.Time{}, news: make(chan struct{}, 1)}
	var reader sync.WaitGroup
	reader.Go(func() {
		for event := range stream.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				s.take(object)
			}
		}
	})
	w.t.Cleanup(func() {
		stream.Stop()
		reader.Wait()
	})
	return s
}

func (s *sightings) take(object *unstructured.Unstructured) {
	if !s.is(object) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.at[object.GetName()]; known {
		return
	}
	s.at[object.GetName()] = time.Now()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// count is how many have been seen.
func (s *sightings) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// await returns when an object was first seen so.
func (s *sightings) await(ctx context.Context, name string) (time.Time, error) {
	for {
		s.mu.Lock()
		at, known := s.at[name]
		s.mu.Unlock()
		if known {
			return at, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-s.news:
		}
	}
}
