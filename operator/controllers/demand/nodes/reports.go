package nodes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

const (
	// together is how long reports are collected.
	together = 100 * time.Millisecond
	// sendAgain is when reports are sent again for which a shard had no session or no room.
	sendAgain = time.Second
	// mostReports is how many reports are sent in one message.
	mostReports = 200
)

// Reports collects reports of Nodes and sends those of one shard together. Of each machine only the
// newest waits, so what waits is bounded by their number. [NewReports] makes one; it is safe for
// concurrent use.
type Reports struct {
	send func(shard string, reports []*demandpb.NodeReport) bool

	mu      sync.Mutex
	waiting map[string]map[string]*demandpb.NodeReport // by shard and machine
	news    chan struct{}                              // holds one token while something waits
}

// NewReports returns a collector. send says whether a shard had a session and room for all.
func NewReports(send func(shard string, reports []*demandpb.NodeReport) bool) *Reports {
	return &Reports{send: send, waiting: map[string]map[string]*demandpb.NodeReport{}, news: make(chan struct{}, 1)}
}

// add has a report sent soon.
func (r *Reports) add(shard string, report *demandpb.NodeReport) {
	r.mu.Lock()
	if r.waiting[shard] == nil {
		r.waiting[shard] = map[string]*demandpb.NodeReport{}
	}
	r.waiting[shard][report.GetMachineId()] = report
	r.mu.Unlock()
	r.notify()
}

// drop forgets what waits of a machine.
func (r *Reports) drop(shard, machine string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting[shard], machine)
}

func (r *Reports) notify() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Start sends reports until ctx ends.
func (r *Reports) Start(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.news:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(together):
			}
		case <-again:
		}
		again = nil
		if !r.flush() {
			again = time.After(sendAgain)
		}
	}
}

// flush sends what waits, and keeps what did not go.
func (r *Reports) flush() (all bool) {
	all = true
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = map[string]map[string]*demandpb.NodeReport{}
	r.mu.Unlock()
	for _, shard := range slices.Sorted(maps.Keys(waiting)) {
		for machines := range slices.Chunk(slices.Sorted(maps.Keys(waiting[shard])), mostReports) {
			reports := make([]*demandpb.NodeReport, len(machines))
			for i, machine := range machines {
				reports[i] = waiting[shard][machine]
			}
			if !r.send(shard, reports) {
				r.keep(shard, reports)
				all = false
			}
		}
	}
	return all
}

// keep puts reports back, but for those that there is something newer about.
func (r *Reports) keep(shard string, reports []*demandpb.NodeReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[shard] == nil {
		r.waiting[shard] = map[string]*demandpb.NodeReport{}
	}
	for _, report := range reports {
		if _, newer := r.waiting[shard][report.GetMachineId()]; !newer {
			r.waiting[shard][report.GetMachineId()] = report
		}
	}
}
