package instances

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// oversized are the groups that had more instances than they should when their leader took over.
// A condemnation that the last leader chose for their size may be on its way still.
type oversized struct {
	mu     sync.Mutex
	groups map[fleet.GroupID]bool
}

// NoteOversized notes the groups that have more of rows than are desired, at a take-over.
func (s *Store) NoteOversized(rows []cache.Instance, desired func(fleet.GroupID) int) {
	counts := map[fleet.GroupID]int{}
	for i := range rows {
		if in := &rows[i]; !in.OnDemand && (in.State.Live() || in.State.Sick()) {
			counts[in.Group]++
		}
	}
	groups := map[fleet.GroupID]bool{}
	for group, n := range counts {
		if n > desired(group) {
			groups[group] = true
		}
	}
	s.oversized.mu.Lock()
	defer s.oversized.mu.Unlock()
	s.oversized.groups = groups
}

// NeedsFence reports whether a group has to be fenced before what is planned is done: for
// its size some are to go that the last leader may not have chosen (S6).
func (s *Store) NeedsFence(group fleet.GroupID, planned []fleet.Action) bool {
	s.oversized.mu.Lock()
	defer s.oversized.mu.Unlock()
	return s.oversized.groups[group] && slices.ContainsFunc(planned, func(action fleet.Action) bool {
		a, condemns := action.(fleet.Condemn)
		return condemns && a.Reason == fleet.ReasonScaleDown
	})
}

// Fence writes the records of a group's instances again that a former leader wrote last.
// Then nothing lands on them any more that was sent on the condition of an older version,
// and what has landed before is known, and is carried out by the next plan.
func (s *Store) Fence(ctx context.Context, group fleet.GroupID, ins []fleet.Instance) error {
	var g errgroup.Group
	g.SetLimit(writesAtOnce)
	errs := make([]error, len(ins))
	for i, in := range ins {
		if rec, ok := s.Record(in.ID); !ok || rec.Term == s.opts.Term {
			continue
		}
		g.Go(func() error {
			_, err := s.Change(ctx, in.ID, func(*layout.InstanceRecord) error { return nil })
			if !errors.Is(err, objectstore.ErrNotFound) {
				errs[i] = err
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	err := errors.Join(errs...)
	if err == nil {
		s.oversized.mu.Lock()
		defer s.oversized.mu.Unlock()
		delete(s.oversized.groups, group)
	}
	return err
}

// writesAtOnce bounds the records that are fenced in parallel.
const writesAtOnce = 32
