package podevents

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// turns say when the next event of each Pod may be sent: after its own pause, and when the limiter of all Pods has room. A Pod
// for which there is none gets a turn in the order in which they come, so that of many thousands that wait each is
// looked at when there is something to do, and not again and again. It is safe for concurrent use.
type turns struct {
	limiter *rate.Limiter

	mu    sync.Mutex
	told  map[types.UID]time.Time // when the last event of a Pod was sent
	due   map[types.UID]time.Time // when those that have a turn may be told
	swept time.Time
}

func newTurns(limiter *rate.Limiter) *turns {
	return &turns{limiter: limiter, told: map[types.UID]time.Time{}, due: map[types.UID]time.Time{}}
}

// wait returns when the last event of a Pod was sent, and how long nothing is to be said of it whatever there is to say.
func (t *turns) wait(pod *corev1.Pod, now time.Time) (told time.Time, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	told = t.told[pod.UID]
	return told, max(early(pod, told, now), t.due[pod.UID].Sub(now))
}

// take takes the turn of a Pod: zero, and it may be told now. Otherwise it has to come again.
func (t *turns) take(uid types.UID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if due, has := t.due[uid]; has && !now.Before(due) {
		delete(t.due, uid)
		t.told[uid] = now
		return 0
	}
	turn := t.limiter.ReserveN(now, 1)
	switch after := turn.DelayFrom(now); {
	case after == 0:
		t.told[uid] = now
		return 0
	case after > Pause: // most of them will have a Node by then
		turn.CancelAt(now)
		return wait.Jitter(Pause, 1)
	default:
		t.due[uid] = now.Add(after)
		return after
	}
}

// sweep forgets Pods of which nothing counts any more. The caller holds mu.
func (t *turns) sweep(now time.Time) {
	if now.Sub(t.swept) < Pause {
		return
	}
	t.swept = now
	for _, times := range []map[types.UID]time.Time{t.told, t.due} {
		for uid, at := range times {
			if now.Sub(at) >= Pause {
				delete(times, uid)
			}
		}
	}
}
