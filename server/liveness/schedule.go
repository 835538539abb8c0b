package liveness

import (
	"container/heap"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// schedule notes when the instance is to be judged again, and whether the
// provider is to be asked.
func (m *Monitor) schedule(id identity.ID, v fleet.Verdict) {
	m.mu.Lock()
	s := m.signs[id]
	if s == nil {
		m.mu.Unlock()
		return
	}
	if v.AskProvider {
		m.asks[id] = struct{}{}
	}
	earlierThanBefore := !v.Next.IsZero() && (s.due.IsZero() || v.Next.Before(s.due))
	if earlierThanBefore {
		s.due = v.Next
		heap.Push(&m.due, dueAt{v.Next, id})
	}
	m.mu.Unlock()
	if v.AskProvider || earlierThanBefore {
		m.poke()
	}
}

func (m *Monitor) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// ripe takes the instances that are due, and says how long until the next.
func (m *Monitor) ripe(now time.Time) ([]identity.ID, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []identity.ID
	for len(m.due) > 0 && !m.due[0].at.After(now) {
		d := heap.Pop(&m.due).(dueAt)
		if s := m.signs[d.id]; s != nil && s.due.Equal(d.at) {
			s.due = time.Time{}
			ids = append(ids, d.id)
		}
	}
	if len(m.due) == 0 {
		return ids, time.Hour
	}
	return ids, max(m.due[0].at.Sub(now), time.Millisecond)
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
