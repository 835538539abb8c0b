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

// result is a job that a worker is done with.
type result struct {
	job job
	err error
}

// workerPool carries jobs out, a bounded number at once.
type workerPool struct {
	jobs        chan job
	results     chan result
	outstanding int // jobs that were offered and whose result was not taken in yet; of the loop alone
}

// newWorkerPool makes a pool without workers. The results of all outstanding jobs have room, so that no worker waits for the
// loop, which waits for the workers when it ends.
func newWorkerPool(workers int) *workerPool {
	return &workerPool{jobs: make(chan job, jobQueue), results: make(chan result, jobQueue+workers)}
}

// offer hands a job over, unless too many wait.
func (p *workerPool) offer(j job) bool {
	if p.outstanding >= cap(p.results) {
		return false // the loop takes results in first
	}
	select {
	case p.jobs <- j:
		p.outstanding++
		return true
	default:
		return false
	}
}

// run works until ctx ends, and waits for what is under way.
func (p *workerPool) run(ctx context.Context, workers int) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { p.work(ctx) })
	}
	all.Wait()
}

func (p *workerPool) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-p.jobs:
			if ctx.Err() != nil {
				p.results <- result{j, errNotBegun}
				return
			}
			p.results <- result{j, p.do(ctx, j)}
		}
	}
}

func (p *workerPool) do(ctx context.Context, j job) error {
	ctx, cancel := context.WithTimeout(ctx, jobTime)
	defer cancel()
	return j.run(ctx)
}
