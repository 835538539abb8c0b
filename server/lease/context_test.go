package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
)

func TestCheckWithoutLeadership(t *testing.T) {
	if err := lease.Check(t.Context()); !errors.Is(err, lease.ErrNotLeader) {
		t.Errorf("check: %v", err)
	}
	if term, ok := lease.Term(t.Context()); ok {
		t.Errorf("term %d", term)
	}
}

func TestAlwaysLeadsUntilItsContextEnds(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	ctx := lease.Always(parent, 3)
	derived, stop := context.WithTimeout(ctx, time.Hour)
	stop()
	if err := lease.Check(derived); err != nil || ctx.Err() != nil {
		t.Errorf("a cancelled derived context: %v, %v", err, ctx.Err())
	}
	if term, ok := lease.Term(derived); !ok || term != 3 {
		t.Errorf("term %d, %t", term, ok)
	}
	cancel()
	if err := lease.Check(derived); !errors.Is(err, lease.ErrNotLeader) || ctx.Err() != context.Canceled {
		t.Errorf("after the end: %v, %v", err, ctx.Err())
	}
}

func TestS2_AHandOverIsPermittedUntilTheLeaseRunsOut(t *testing.T) {
	if err := lease.CheckHandOver(t.Context()); !errors.Is(err, lease.ErrNotLeader) {
		t.Errorf("without leadership: %v", err)
	}
	parent, cancel := context.WithCancel(t.Context())
	ctx := lease.Always(parent, 3)
	if err := lease.CheckHandOver(ctx); err != nil {
		t.Errorf("while it leads: %v", err)
	}
	cancel()
	if err := lease.CheckHandOver(context.WithoutCancel(ctx)); err != nil {
		t.Errorf("as its process stops: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	ok := lease.Options{ID: "a"}
	for name, edit := range map[string]func(*lease.Options){
		"no id":          func(o *lease.Options) { o.ID = "" },
		"short lease":    func(o *lease.Options) { o.Lease = 4 * time.Second },
		"broken seconds": func(o *lease.Options) { o.Lease = 5500 * time.Millisecond },
		"slow renewal":   func(o *lease.Options) { o.Renew = 6 * time.Second },
		"slow poll":      func(o *lease.Options) { o.Poll = 2 * time.Second },
	} {
		o := ok
		edit(&o)
		if _, err := lease.New(memory.New(memory.Options{}), lockKey, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := lease.New(memory.New(memory.Options{}), "../lock", ok); err == nil {
		t.Error("a bad key: accepted")
	}
	if _, err := lease.New(memory.New(memory.Options{}), lockKey, ok); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// TestRealClock leads by the clock of this box, without a bubble.
func TestRealClock(t *testing.T) {
	acquired := make(chan error, 1)
	e, err := lease.New(memory.New(memory.Options{}), lockKey, lease.Options{
		ID: "a", Lease: lease.MinLease, Log: quiet,
		NothingStored: func(context.Context) (bool, error) { return true, nil },
		OnAcquire:     func(ctx context.Context, _ uint64) { acquired <- lease.Check(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	if err := <-acquired; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
