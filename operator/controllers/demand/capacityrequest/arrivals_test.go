package capacityrequest

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// added is a queue that notes when requests come.
type added struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	after []time.Duration
}

func (a *added) Add(reconcile.Request) { a.after = append(a.after, 0) }

func (a *added) AddAfter(_ reconcile.Request, after time.Duration) { a.after = append(a.after, after) }

// After a start, only a Pod that has its request already may wait.
func TestWhenAPodIsLookedAt(t *testing.T) {
	pod := func(phase corev1.PodPhase) *corev1.Pod { return &corev1.Pod{Status: corev1.PodStatus{Phase: phase}} }
	for name, tt := range map[string]struct {
		pod                *corev1.Pod
		initial, requested bool
		later              bool
	}{
		"a new Pod":                        {pod(corev1.PodPending), false, false, false},
		"one that runs and has a request":  {pod(corev1.PodRunning), true, true, true},
		"one that waits and has a request": {pod(corev1.PodPending), true, true, true},
		"one that has none":                {pod(corev1.PodPending), true, false, false},
		"one that has ended and has one":   {pod(corev1.PodSucceeded), true, true, false},
		"one that has failed and has one":  {pod(corev1.PodFailed), true, true, false},
		"one that comes with a request":    {pod(corev1.PodPending), false, true, false},
	} {
		a := &arrivals{requested: func(context.Context, *corev1.Pod) bool { return tt.requested }}
		var q added
		for range 100 {
			a.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: tt.pod, IsInInitialList: tt.initial}, &q)
		}
		first, last := slices.Min(q.after), slices.Max(q.after)
		switch {
		case len(q.after) != 100:
			t.Errorf("%s: looked at %d times of 100", name, len(q.after))
		case tt.later && (first < Settling/2 || last > Settling || last-first < Settling/4):
			t.Errorf("%s: looked at after %v to %v", name, first, last)
		case !tt.later && last > 0:
			t.Errorf("%s: looked at after %v", name, last)
		}
	}
	a := &arrivals{}
	var q added
	a.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod(corev1.PodPending), ObjectNew: pod(corev1.PodRunning)}, &q)
	a.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: pod(corev1.PodRunning)}, &q)
	if !slices.Equal(q.after, []time.Duration{0, 0}) {
		t.Errorf("a change and an end are looked at after %v", q.after)
	}
}

// The volumes of the first list queue no Pods, that they were there changes nothing for a Pod that waits.
// One that is made, changes or goes later does.
func TestWhenAVolumeHasItsPodsLookedAt(t *testing.T) {
	volume := &corev1.PersistentVolume{}
	events := notListed[*corev1.PersistentVolume]()
	if events.Create(event.TypedCreateEvent[*corev1.PersistentVolume]{Object: volume, IsInInitialList: true}) {
		t.Error("a volume of the first list has its Pods looked at")
	}
	if !events.Create(event.TypedCreateEvent[*corev1.PersistentVolume]{Object: volume}) ||
		!events.Update(event.TypedUpdateEvent[*corev1.PersistentVolume]{ObjectOld: volume, ObjectNew: volume}) ||
		!events.Delete(event.TypedDeleteEvent[*corev1.PersistentVolume]{Object: volume}) {
		t.Error("a volume that is made, changes or goes leaves its Pods unseen")
	}
}
