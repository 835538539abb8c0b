package drain

import (
	"testing"
	"time"
)

// Hundreds of drains that wait look at all instances once in a second, and not each for itself.
func TestTheQueueIsLookedAtOnceInASecond(t *testing.T) {
	var q queue
	looks := 0
	look := func() []Waiting {
		looks++
		return make([]Waiting, looks)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 500 {
		if all := q.get(now.Add(queueAge-1), look); len(all) != 1 {
			t.Fatalf("%d drains", len(all))
		}
	}
	if all := q.get(now.Add(2*queueAge-1), look); looks != 2 || len(all) != 2 {
		t.Errorf("%d looks in two seconds, %d drains", looks, len(all))
	}
	var r Reconciler
	r.Now = func() time.Time { return now }
	r.queue.asked, r.queue.at = []Waiting{{Request: Request{Instance: "i1"}}}, now
	if n := len(r.asked(map[string]bool{"i1": true})); n != 0 {
		t.Errorf("%d drains that this process works on are counted twice", n)
	}
}
