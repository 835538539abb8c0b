package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/operatorapi"
)

// P11: changes of groups, where storage takes one write a second of an object.
//
// Ours: so many callers change one group each, and again as soon as the change is
// answered, which it is once it is durable; the answers per second.
//
// Floor: what a write for each change would allow: one a second.
//
// Goal: 200 times the floor, and the 99th of a hundred answers within 2.5 s.
const (
	changers      = 800
	changingFor   = 6 * time.Second
	changesMostly = 2500 * time.Millisecond
)

func measureChanges(ctx context.Context, env Env) ([]Row, error) {
	best := Row{
		Name: "group changes, 1 write/s", Unit: "1/s", Floor: 1, Against: "a write for each change",
		Goal: AtLeast(200),
	}
	slowest := math.Inf(1)
	for range env.Rounds {
		took, err := changeGroups(ctx)
		if err != nil {
			return nil, err
		}
		best.Ours = max(best.Ours, float64(len(took))/changingFor.Seconds())
		slowest = min(slowest, quantile(took, 0.99))
	}
	best.Name = fmt.Sprintf("%s (p99 %.2f s)", best.Name, slowest)
	if slowest > changesMostly.Seconds() {
		best.Broken = fmt.Sprintf("p99 is above %v", changesMostly)
	}
	return []Row{best}, nil
}

// onceASecond is a store that takes one write per second and object.
func onceASecond() memory.Faults {
	var mu sync.Mutex
	last := map[string]time.Time{}
	return func(c memory.Call) memory.Fault {
		if c.Op != memory.OpPut {
			return memory.Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last[c.Key]) < time.Second {
			return memory.Fault{Before: objectstore.ErrThrottled}
		}
		last[c.Key] = time.Now()
		return memory.Fault{}
	}
}

// changeGroups returns how many seconds each change took that was answered in time.
func changeGroups(ctx context.Context) (took []float64, err error) {
	w, err := newWorld(ctx, drivertest.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.store.SetFaults(onceASecond())
	until := time.Now().Add(changingFor)
	var mu sync.Mutex
	var g errgroup.Group
	for caller := range changers {
		g.Go(func() error {
			for n := 0; time.Now().Before(until); n++ {
				began := time.Now()
				if err := w.setVar(ctx, fmt.Sprintf("g%d", caller), fmt.Sprint(n)); err != nil {
					return err
				}
				if time.Now().Before(until) {
					mu.Lock()
					took = append(took, time.Since(began).Seconds())
					mu.Unlock()
				}
			}
			return nil
		})
	}
	return took, g.Wait()
}

// setVar changes a group without instances.
func (w *world) setVar(ctx context.Context, group, value string) error {
	template := "plain"
	_, err := operatorapi.Of(w.term).UpsertGroup(ctx, tenantName, &nstancev1.UpsertGroupRequest{
		Key: group, Config: &nstancev1.GroupConfig{
			Template: &template, Vars: &nstancev1.StringMap{Values: map[string]string{"x": value}},
		},
	})
	return err
}
