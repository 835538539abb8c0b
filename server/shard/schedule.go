package shard

import (
	"container/heap"
	"context"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// schedule notes when the instance is to be judged again, and whether the
// provider is to be asked.
func (h *health) schedule(id identity.ID, v fleet.Verdict) {
	h.mu.Lock()
	s := h.signs[id]
	if s == nil {
		h.mu.Unlock()
		return
	}
	if v.AskProvider {
		h.asks[id] = struct{}{}
	}
	earlierThanBefore := !v.Next.IsZero() && (s.due.IsZero() || v.Next.Before(s.due))
	if earlierThanBefore {
		s.due = v.Next
		heap.Push(&h.due, dueAt{v.Next, id})
	}
	h.mu.Unlock()
	if v.AskProvider || earlierThanBefore {
		h.poke()
	}
}

func (h *health) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run judges what falls due and asks the provider, until ctx ends.
func (h *health) run(ctx context.Context) {
	for {
		ids, next := h.ripe(h.r.now())
		for _, id := range ids {
			h.judge(id)
		}
		if asks := h.takeAsks(); len(asks) > 0 {
			h.ask(ctx, asks)
		}
		if look := h.weighSilence(h.r.now()); !look.IsZero() {
			next = min(next, max(look.Sub(h.r.now()), time.Millisecond))
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-h.wake:
			timer.Stop()
		}
	}
}

// ripe takes the instances that are due, and says how long until the next.
func (h *health) ripe(now time.Time) ([]identity.ID, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []identity.ID
	for len(h.due) > 0 && !h.due[0].at.After(now) {
		d := heap.Pop(&h.due).(dueAt)
		if s := h.signs[d.id]; s != nil && s.due.Equal(d.at) {
			s.due = time.Time{}
			ids = append(ids, d.id)
		}
	}
	if len(h.due) == 0 {
		return ids, time.Hour
	}
	return ids, max(h.due[0].at.Sub(now), time.Millisecond)
}

// dueAt is one entry of the heap; it is valid while the signs name its time.
type dueAt struct {
	at time.Time
	id identity.ID
}

type dueHeap []dueAt

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dueHeap) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueHeap) Push(x any)        { *d = append(*d, x.(dueAt)) }
func (d *dueHeap) Pop() any {
	old := *d
	last := old[len(old)-1]
	*d = old[:len(old)-1]
	return last
}
