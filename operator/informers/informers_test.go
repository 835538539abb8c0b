package informers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"nstance.dev/operator/informers"
)

// source has one informer alone, or none.
type source struct {
	*controllertest.FakeInformer
	err     error
	handler toolscache.ResourceEventHandler
	removed int
}

func (s *source) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return s, s.err
}

func (s *source) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	s.handler = handler
	return s.FakeInformer.AddEventHandler(handler)
}

func (s *source) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	s.removed++
	return nil
}

func TestHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{FakeInformer: controllertest.NewFakeInformer()}
		ctx, stop := context.WithCancel(t.Context())
		var heard []string
		synced, err := informers.Hear(ctx, s, &corev1.Node{}, func(n *corev1.Node, gone bool) {
			heard = append(heard, map[bool]string{false: "", true: "-"}[gone]+n.Name)
		})
		if err != nil {
			t.Fatal(err)
		}
		node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
		s.Add(node("came"))
		s.Update(node("was"), node("is"))
		s.Delete(node("went"))
		s.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "unseen", Obj: node("unseen")}) // its end was missed
		s.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "of another kind"}})
		before, after := node("again"), node("again")
		before.UID, after.UID = "1", "2"
		s.Update(before, after) // the end of the first one was missed
		if want := []string{"came", "is", "-went", "-unseen", "-again", "again"}; !slices.Equal(heard, want) {
			t.Errorf("heard of %q, want %q", heard, want)
		}
		if synced() {
			t.Error("all that was there is heard of before it is listed")
		}
		s.Synced()
		if !synced() {
			t.Error("all that was there is not heard of")
		}
		synctest.Wait()
		if s.removed != 0 {
			t.Error("it ends before its context")
		}
		stop()
		synctest.Wait()
		if s.removed != 1 {
			t.Errorf("its context has ended, and %d handlers are removed", s.removed)
		}
	})
}

func TestHearOfWhatCannotBeWatched(t *testing.T) {
	gone := errors.New("no such kind")
	_, err := informers.Hear(t.Context(), &source{err: gone}, &corev1.Node{}, func(*corev1.Node, bool) {})
	if !errors.Is(err, gone) || !strings.Contains(err.Error(), "watch *v1.Node") {
		t.Errorf("error %v", err)
	}
}
