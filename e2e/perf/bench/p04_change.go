package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/server/driver/drivertest"
)

// P4: one changed group in a large shard.
//
// Ours: the time from an UpsertGroup that makes a group of a hundred one larger
// to the create call that the provider receives, in a shard of 100,000 instances:
// a thousand such groups, all in the group file. Store and provider answer at once,
// so what counts is what the server does.
//
// Floor: the same in a shard of 1,000 instances.
//
// Goal: 1.3 times the floor. Each round changes many groups, each once.
const (
	largeShard      = 100_000
	smallShard      = 1_000
	changesEachTurn = 50
)

func measureChange(ctx context.Context, env Env) (rows []Row, err error) {
	var shards []*changingShard
	defer func() {
		for _, s := range shards {
			err = errors.Join(err, s.w.close())
		}
	}()
	for _, size := range []int{smallShard, largeShard} {
		s, err := newChangingShard(ctx, size)
		if err != nil {
			return nil, err
		}
		shards = append(shards, s)
	}
	least, err := interleave(ctx, shortRounds*env.Rounds, shards[0].change, shards[1].change)
	if err != nil {
		return nil, err
	}
	return []Row{{
		Name: "a change in 100,000 instances", Unit: "ms", Ours: 1e3 * least[1], Floor: 1e3 * least[0],
		Against: "the same in 1,000 instances", Goal: AtMost(1.3),
	}}, nil
}

// changingShard is a shard whose groups grow one after the other.
type changingShard struct {
	w       *world
	groups  int
	next    int
	sizes   map[string]int
	created chan struct{}
}

func newChangingShard(ctx context.Context, instances int) (*changingShard, error) {
	s := &changingShard{created: make(chan struct{}, 1), sizes: map[string]int{}}
	watch := make(chan struct{}) // closed once the archive is made
	a, err := newArchive(ctx, instances, drivertest.Options{OnCall: func(c drivertest.Call) {
		select {
		case <-watch:
			if c.Op == drivertest.OpCreate {
				s.created <- struct{}{}
			}
		default:
		}
	}})
	if err != nil {
		return nil, err
	}
	close(watch)
	s.groups = a.groups
	if s.w, _, err = a.begin(ctx, 2, nil); err != nil {
		return nil, err
	}
	// It ends what it does after a take-over.
	return s, errors.Join(s.w.cache.Flush(ctx), pause(ctx, settling))
}

// change returns the seconds of one change.
func (s *changingShard) change(ctx context.Context) (float64, error) {
	started := time.Now()
	for range changesEachTurn {
		group := groupName(s.next % s.groups)
		s.next++
		if s.sizes[group] == 0 {
			s.sizes[group] = groupSize
		}
		s.sizes[group]++
		if err := s.w.scale(ctx, group, s.sizes[group]); err != nil {
			return 0, err
		}
		select {
		case <-s.created:
		case <-time.After(time.Minute):
			return 0, fmt.Errorf("group %s: no create call", group)
		}
	}
	return time.Since(started).Seconds() / changesEachTurn, nil
}
