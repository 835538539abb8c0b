package shard

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
)

// queue is the groups that are to be reconciled. Repeats coalesce.
type queue struct {
	waiting workqueue.TypedDelayingInterface[fleet.GroupID]
	known   *groups.Store
	rows    *cache.Cache
}

func newQueue(known *groups.Store, rows *cache.Cache) *queue {
	return &queue{workqueue.NewTypedDelayingQueue[fleet.GroupID](), known, rows}
}

// Enqueue has a group reconciled soon. Repeats coalesce.
func (q *queue) Enqueue(group fleet.GroupID) { q.waiting.Add(group) }

// enqueueAfter has a group reconciled after a while.
func (q *queue) enqueueAfter(group fleet.GroupID, after time.Duration) {
	q.waiting.AddAfter(group, after)
}

// enqueueAll has every group reconciled, those included that instances alone are left of.
func (q *queue) enqueueAll() {
	for id := range q.known.All() {
		q.waiting.Add(id)
	}
	for _, in := range q.rows.All() {
		if in.State != fleet.Deleted {
			q.waiting.Add(in.Group)
		}
	}
}
