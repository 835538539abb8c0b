package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
)

// P5: a full pass over a large shard in which nothing is to be done.
//
// Ours: every group of a shard of 100,000 instances is put into the queue; the
// time until all have been looked at and found to be as they should.
//
// Floor: a bare loop over the same rows: the instances of each group out of the
// cache, counted by their state.
//
// Goal: 3 times the floor, and 5 µs an instance at most.
const (
	passBound = 5 * time.Microsecond
	passes    = "nstance_reconcile_seconds"
)

func measurePass(ctx context.Context, env Env) (rows []Row, err error) {
	a, err := newArchive(ctx, largeShard, drivertest.Options{})
	if err != nil {
		return nil, err
	}
	s := &passingShard{counter: &single{name: passes, Registry: prometheus.NewRegistry()}}
	if s.w, _, err = a.begin(ctx, 2, s.counter); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.w.close()) }()
	for _, g := range s.w.cache.Groups() {
		s.groups = append(s.groups, g.ID)
	}
	if err := s.w.cache.Flush(ctx); err != nil {
		return nil, err
	}
	time.Sleep(settling) // the take-over's own pass
	least, err := interleave(ctx, shortRounds*env.Rounds, s.loop, s.pass)
	if err != nil {
		return nil, err
	}
	row := Row{
		Name: "a pass over 100,000 instances", Unit: "ms", Ours: 1e3 * least[1], Floor: 1e3 * least[0],
		Against: "a bare loop over the rows", Goal: AtMost(3),
	}
	if each := time.Duration(least[1] / largeShard * float64(time.Second)); each > passBound {
		row.Broken = fmt.Sprintf("%v an instance, and %v is the bound", each, passBound)
	}
	return []Row{row}, nil
}

type passingShard struct {
	w       *world
	groups  []fleet.GroupID
	counter *single
}

// pass returns the seconds of a pass over all groups.
func (s *passingShard) pass(ctx context.Context) (float64, error) {
	before := s.counter.count()
	started := time.Now()
	for _, id := range s.groups {
		s.w.term.Enqueue(id)
	}
	err := eventually(ctx, "a pass", func() bool { return s.counter.count() >= before+uint64(len(s.groups)) })
	return time.Since(started).Seconds(), err
}

// loop returns the seconds of the floor.
func (s *passingShard) loop(context.Context) (float64, error) {
	started := time.Now()
	states := map[fleet.State]int{}
	for _, id := range s.groups {
		for _, in := range s.w.cache.Fleet(id) {
			states[in.State]++
		}
	}
	took := time.Since(started).Seconds()
	if states[fleet.Running] != largeShard {
		return 0, fmt.Errorf("instances are %v, and should all run", states)
	}
	return took, nil
}

// single registers one metric and drops all others: looking at it is cheap.
type single struct {
	name string
	*prometheus.Registry
}

// Register implements prometheus.Registerer.
func (s *single) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 64)
	c.Describe(ch)
	close(ch)
	for d := range ch {
		if strings.Contains(d.String(), `"`+s.name+`"`) {
			return s.Registry.Register(c)
		}
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (s *single) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := s.Register(c); err != nil {
			panic(err)
		}
	}
}

// count is how many observations the histogram has.
func (s *single) count() uint64 {
	families, err := s.Gather()
	if err != nil || len(families) != 1 {
		return 0
	}
	return families[0].GetMetric()[0].GetHistogram().GetSampleCount()
}
