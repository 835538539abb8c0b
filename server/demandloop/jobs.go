package demandloop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/lease"
)

const (
	jobTime  = 30 * time.Second
	jobQueue = 4096
)

// job is one effect. Run is called by a worker, done by the loop with what it returned.
type job struct {
	run     func(ctx context.Context) error
	done    func(error)
	what    string
	machine identity.ID
	cluster string // empty: of none
}

var errNotBegun = fmt.Errorf("%w: it was not begun", lease.ErrNotLeader)

// ended is a job that a worker is done with.
type ended struct {
	job job
	err error
}

// crew carries jobs out, a bounded number at once.
type crew struct {
	jobs  chan job
	ended chan ended
	open  int // jobs that were offered and whose result was not taken in yet; of the loop alone
}

// newCrew makes a crew without workers. The results of all that is open have room, so that no worker waits for the
// loop, which waits for the workers when it ends.
func newCrew(workers int) *crew {
	return &crew{jobs: make(chan job, jobQueue), ended: make(chan ended, jobQueue+workers)}
}

// offer hands a job over, unless too many wait.
func (c *crew) offer(j job) bool {
	if c.open >= cap(c.ended) {
		return false // the loop takes results in first
	}
	select {
	case c.jobs <- j:
		c.open++
		return true
	default:
		return false
	}
}

// run works until ctx ends, and waits for what is under way.
func (c *crew) run(ctx context.Context, workers int) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { c.work(ctx) })
	}
	all.Wait()
}

func (c *crew) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-c.jobs:
			if ctx.Err() != nil {
				c.ended <- ended{j, errNotBegun}
				return
			}
			c.ended <- ended{j, c.do(ctx, j)}
		}
	}
}

func (c *crew) do(ctx context.Context, j job) error {
	ctx, cancel := context.WithTimeout(ctx, jobTime)
	defer cancel()
	return j.run(ctx)
}
