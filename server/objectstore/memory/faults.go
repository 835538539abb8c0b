package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/server/objectstore"
)

// Op is the kind of a call.
type Op string

// The kinds of calls; OpPut stands for both ways to write.
const (
	OpGet    Op = "get"
	OpPut    Op = "put"
	OpDelete Op = "delete"
	OpList   Op = "list"
)

// Call is a call about to be made. N counts the store's calls from 1; Data is
// what a put writes, and not to be changed; Key is the prefix of a list.
type Call struct {
	N    int
	Op   Op
	Key  string
	Data []byte
}

// Faults decides what goes wrong with a call. It is asked about one call at a
// time, inside the store, which it must not call.
type Faults func(Call) Fault

// Fault is what goes wrong with one call; the zero value is nothing. Pauses end
// with the caller's context.
type Fault struct {
	Latency time.Duration // before the call takes effect, beside Options.Latency
	Before  error         // returned, and the call takes no effect: a 409, 412, 429, 503
	After   error         // returned after the call took effect: a lost answer is ErrUnavailable
	Linger  time.Duration // between the effect and the answer

	// Late makes the call fail with ErrUnavailable at once, and a write take its
	// effect, if its condition then holds, this much later.
	Late time.Duration
}

// SetFaults replaces the faults; nil ends them.
func (s *Store) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Down makes every later call fail with ErrUnavailable and without effect, until
// Down(false).
func (s *Store) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Calls returns how many calls were made so far.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// call carries out one call with its faults: effect runs once, under mu.
func (s *Store) call(ctx context.Context, c Call, effect func() error) error {
	if err := validate(c); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", c.Op, c.Key, err)
	}
	if err := s.faulty(ctx, c.Op, s.next(c), effect); err != nil {
		return fmt.Errorf("%s %s: %w", c.Op, c.Key, err)
	}
	return nil
}

func validate(c Call) error {
	if c.Op == OpList {
		return objectstore.ValidatePrefix(c.Key)
	}
	return objectstore.ValidateKey(c.Key)
}

// next numbers a call and asks what goes wrong with it.
func (s *Store) next(c Call) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	c.N = s.calls
	switch {
	case s.down:
		return Fault{Before: objectstore.ErrUnavailable}
	case s.faults == nil:
		return Fault{}
	default:
		return s.faults(c)
	}
}

func (s *Store) faulty(ctx context.Context, op Op, f Fault, effect func() error) error {
	locked := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return effect()
	}
	if err := sleep(ctx, s.opts.Latency+f.Latency); err != nil {
		return err
	}
	if f.Before != nil {
		return f.Before
	}
	if f.Late > 0 {
		if op == OpPut || op == OpDelete {
			time.AfterFunc(f.Late, func() { _ = locked() }) // nobody is left to tell
		}
		return objectstore.ErrUnavailable
	}
	err := locked()
	if slept := sleep(ctx, f.Linger); slept != nil {
		return slept
	}
	if f.After != nil {
		return f.After
	}
	return err
}

// sleep waits like a slow network: who gives up does not learn the outcome.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.Join(objectstore.ErrUnavailable, ctx.Err())
	}
}
