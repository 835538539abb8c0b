package shard

import (
	"context"
	"maps"
	"slices"
	"sync"

	"nstance.dev/server/fleet"
)

// inquiries are questions whose answers it takes to make a machine: the room in
// a subnet, an image, user data that stands elsewhere. A group waits for them
// without a worker (L7): its creates are held back, and it is reconciled again with
// the last answer.
type inquiries struct {
	r *Reign

	mu      sync.Mutex
	open    map[string]*inquiry
	waiting map[fleet.GroupID]map[string]string // names of questions, and what is waited for
}

type inquiry struct {
	answered chan struct{} // closed with the answer
	asked    bool
}

// need is one answer that is missing.
type need struct {
	name string // of the question
	what string // is waited for, for people

	// ask finds the answer out. It runs in a goroutine, one at a time for each
	// name, and what it found is known when it returns. Nil: somebody else finds
	// it out, and calls done; then known says whether that has happened.
	ask   func(context.Context)
	known func() bool
}

func newInquiries(r *Reign) *inquiries {
	return &inquiries{r: r, open: map[string]*inquiry{}, waiting: map[fleet.GroupID]map[string]string{}}
}

// ask has a question asked unless it is being asked. What it returns is closed
// with the answer.
func (q *inquiries) ask(n need) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begin(n).answered
}

// begin does the work of ask. The caller holds mu.
func (q *inquiries) begin(n need) *inquiry {
	in := q.open[n.name]
	if in == nil {
		in = &inquiry{answered: make(chan struct{})}
		q.open[n.name] = in
	}
	if n.ask != nil && !in.asked {
		in.asked = true
		q.r.tasks.Go(func() {
			n.ask(q.r.ctx)
			q.done(n.name)
		})
	}
	return in
}

// wait lets a group wait for answers.
func (q *inquiries) wait(group fleet.GroupID, needs []need) {
	q.mu.Lock()
	for _, n := range needs {
		if q.waiting[group] == nil {
			q.waiting[group] = map[string]string{}
		}
		q.waiting[group][n.name] = n.what
		q.begin(n)
	}
	q.mu.Unlock()
	q.settle(needs)
}

// settle ends questions whose answers came just before they were asked.
func (q *inquiries) settle(needs []need) {
	for _, n := range needs {
		if n.known != nil && n.known() {
			q.done(n.name)
		}
	}
}

// await waits for answers in the name of a caller.
func (q *inquiries) await(ctx context.Context, needs []need) error {
	var answers []<-chan struct{}
	for _, n := range needs {
		answers = append(answers, q.ask(n))
	}
	q.settle(needs)
	for _, answered := range answers {
		select {
		case <-answered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// done says that a question is answered. Groups that have all their answers are
// reconciled.
func (q *inquiries) done(name string) {
	q.mu.Lock()
	if in := q.open[name]; in != nil {
		close(in.answered)
		delete(q.open, name)
	}
	var ready []fleet.GroupID
	for group, names := range q.waiting {
		if _, waits := names[name]; !waits {
			continue
		}
		if delete(names, name); len(names) == 0 {
			delete(q.waiting, group)
			ready = append(ready, group)
		}
	}
	q.mu.Unlock()
	for _, group := range ready {
		q.r.Enqueue(group)
	}
}

// gate holds a group's creates back while it waits.
func (q *inquiries) gate(group fleet.GroupID) fleet.Gate {
	q.mu.Lock()
	defer q.mu.Unlock()
	names := q.waiting[group]
	if len(names) == 0 {
		return fleet.Gate{}
	}
	first := slices.Min(slices.Collect(maps.Values(names)))
	return fleet.Gate{Blocked: "waiting for " + first, By: fleet.BlockerProof}
}
