package drivertest

import (
	"context"
	"fmt"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// atOnce is how many calls the test of many machines has under way.
const atOnce = 8

// manyMachines checks that of more machines than a page of the cloud has each is listed once, before and after half of
// them have ended.
func (s *suite) manyMachines() {
	refs := make([]driver.Ref, s.Many)
	requests := make([]driver.CreateRequest, s.Many)
	for i := range requests {
		requests[i] = s.request(testOwner)
	}
	s.each(s.Many, func(i int) error {
		m, err := s.Create(s.t.Context(), requests[i])
		refs[i] = driver.Ref{InstanceID: requests[i].InstanceID, ProviderID: m.ProviderID}
		return err
	})
	s.eventually("each machine is listed once", func(ctx context.Context) string { return s.listedOnce(ctx, refs) })
	gone, left := refs[:s.Many/2], refs[s.Many/2:]
	s.each(len(gone), func(i int) error { return s.Delete(s.t.Context(), gone[i]) })
	s.eventually("those that are left are listed once, and no others", func(ctx context.Context) string { return s.listedOnce(ctx, left) })
}

// each does something for every number below n, some of them at once.
func (s *suite) each(n int, do func(i int) error) {
	s.t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for first := range atOnce {
		wg.Go(func() {
			for i := first; i < n; i += atOnce {
				errs[i] = do(i)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			s.t.Fatalf("call no. %d: %v", i, err)
		}
	}
}

// listedOnce says what is wrong with a list that is to have certain machines; "": nothing. Those that have ended may
// show.
func (s *suite) listedOnce(ctx context.Context, want []driver.Ref) string {
	list, err := s.List(ctx, testOwner)
	if err != nil {
		s.t.Fatalf("list: %v", err)
	}
	seen := map[identity.ID]int{}
	for _, m := range list {
		if seen[m.InstanceID]++; seen[m.InstanceID] > 1 {
			s.t.Fatalf("%s is listed twice", m.InstanceID)
		}
		if m.Status == driver.Deleted {
			delete(seen, m.InstanceID)
		}
	}
	for _, ref := range want {
		if seen[ref.InstanceID] == 0 {
			return fmt.Sprintf("%s is not listed, among %d of %d", ref.InstanceID, len(seen), len(want))
		}
	}
	if len(seen) != len(want) {
		return fmt.Sprintf("%d are listed of %d", len(seen), len(want))
	}
	return ""
}
