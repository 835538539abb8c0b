package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/fleet"
)

// TestQueueCoalesces: a group that is asked for often is handed out once, and one that is
// asked for later in its time.
func TestQueueCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(nil, nil)
		defer q.waiting.ShutDown()
		web, db := fleet.GroupID{Name: "web"}, fleet.GroupID{Name: "db"}
		q.Enqueue(web)
		q.Enqueue(web)
		q.enqueueAfter(db, time.Minute)
		synctest.Wait()
		if n := q.waiting.Len(); n != 1 {
			t.Errorf("%d groups wait, want web alone", n)
		}
		if got, _ := q.waiting.Get(); got != web {
			t.Errorf("%v is handed out, want web", got)
		}
		q.Enqueue(web) // while a worker has it
		if n := q.waiting.Len(); n != 0 {
			t.Errorf("%d groups wait while a worker has web, want none", n)
		}
		q.waiting.Done(web)
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if n := q.waiting.Len(); n != 2 {
			t.Errorf("%d groups wait a minute later, want web again and db", n)
		}
	})
}
