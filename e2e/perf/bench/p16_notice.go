package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// P16: from the notice that a machine will be interrupted to the create call of its
// replacement.
//
// Ours: an agent reports the notice, and the provider receives the call, over a
// store whose calls take 60 ms. The record of the replacement is durable before its
// machine is asked for.
//
// Floor: one write to the same store.
//
// Goal: 1.2 times the floor.
const noticesEachRound = 10

func measureNotice(ctx context.Context, env Env) (rows []Row, err error) {
	s := &noticeScene{nursery: newNursery(), created: make(chan time.Time, 16)}
	s.w, err = newWorld(ctx, drivertest.Options{OnCreate: s.nursery.boot, OnCall: func(c drivertest.Call) {
		if c.Op == drivertest.OpCreate {
			s.created <- c.At
		}
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.w.close()) }()
	least, err := interleave(ctx, env.Rounds, s.write, s.notices)
	if err != nil {
		return nil, err
	}
	return []Row{{
		Name: "notice to create", Unit: "ms", Ours: least[1], Floor: least[0], Against: "one store write", Goal: AtMost(1.2),
	}}, nil
}

type noticeScene struct {
	w       *world
	nursery *nursery
	created chan time.Time
	n       int
}

func (s *noticeScene) slowly(do func() error) error {
	s.w.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: storeLatency} })
	defer s.w.store.SetFaults(nil)
	return do()
}

// write returns the milliseconds of the floor.
func (s *noticeScene) write(ctx context.Context) (took float64, err error) {
	const key = "bench/floor"
	var etag string
	err = s.slowly(func() (err error) {
		began := time.Now()
		etag, err = s.w.store.PutIfAbsent(ctx, key, []byte("1"))
		took = milliseconds(time.Since(began))
		return err
	})
	return took, errors.Join(err, objectstore.Delete(ctx, s.w.store, key, etag, objectstore.RetryPolicy{}))
}

// notices returns the median of some notices, in milliseconds.
func (s *noticeScene) notices(ctx context.Context) (float64, error) {
	var took []float64
	for range noticesEachRound {
		one, err := s.notice(ctx)
		if err != nil {
			return 0, err
		}
		took = append(took, one)
	}
	return quantile(took, 0.5), nil
}

// notice has the agent of a new group report one, and returns how many
// milliseconds the create call took to come.
func (s *noticeScene) notice(ctx context.Context) (took float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.n++
	group := fmt.Sprintf("spot-%d", s.n)
	agents, err := s.nursery.raise(ctx, s.w, group, 1)
	if err != nil {
		return 0, err
	}
	<-s.created
	residents, err := s.nursery.settle(ctx, s.w, agents, time.Hour)
	if err != nil {
		return 0, err
	}
	err = eventually(ctx, "a report", func() bool {
		h, _ := s.w.cache.Health(agents[0].id)
		return h.Count > 0
	})
	if err != nil {
		return 0, err
	}
	err = s.slowly(func() error {
		began := time.Now()
		residents[0].warn(&nstancev1.TerminationNotice{Action: "terminate"})
		select {
		case at := <-s.created:
			took = milliseconds(at.Sub(began))
			return nil
		case <-time.After(time.Minute):
			return fmt.Errorf("group %s: no create call after a notice", group)
		}
	})
	return took, err
}
