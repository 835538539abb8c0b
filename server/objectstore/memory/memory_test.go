package memory_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/objectstore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) objectstore.Store { return memory.New(memory.Options{}) })
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name    string
		fault   memory.Fault
		want    error
		applied bool // at once
		later   bool // after a second
		took    time.Duration
	}{
		{name: "nothing", applied: true, later: true},
		{name: "a conflict", fault: memory.Fault{Before: objectstore.ErrConflict}, want: objectstore.ErrConflict},
		{name: "a lost answer", fault: memory.Fault{After: objectstore.ErrUnavailable}, want: objectstore.ErrUnavailable, applied: true, later: true},
		{name: "a slow call", fault: memory.Fault{Latency: time.Second}, applied: true, later: true, took: time.Second},
		{name: "slower than the caller", fault: memory.Fault{Latency: time.Hour}, want: objectstore.ErrUnavailable, took: time.Minute},
		{name: "an answer slower than the caller", fault: memory.Fault{Linger: time.Hour}, want: context.DeadlineExceeded, applied: true, later: true, took: time.Minute},
		{name: "a late effect", fault: memory.Fault{Late: time.Second}, want: objectstore.ErrUnavailable, later: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(memory.Options{Faults: func(c memory.Call) memory.Fault {
					if c.N == 1 {
						return tt.fault
					}
					return memory.Fault{}
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := s.PutIfAbsent(ctx, "k", []byte("x"))
				if !errors.Is(err, tt.want) || time.Since(start) != tt.took {
					t.Errorf("put: %v after %v, want %v after %v", err, time.Since(start), tt.want, tt.took)
				}
				if _, err := s.Get(t.Context(), "k"); (err == nil) != tt.applied {
					t.Errorf("at once: %v, want applied %t", err, tt.applied)
				}
				time.Sleep(time.Second + 1)
				if _, err := s.Get(t.Context(), "k"); (err == nil) != tt.later {
					t.Errorf("later: %v, want applied %t", err, tt.later)
				}
			})
		})
	}
}

func TestDown(t *testing.T) {
	s := memory.New(memory.Options{})
	s.Down(true)
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("down: %v", err)
	}
	s.Down(false)
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("up again: %v", err)
	}
	if s.Calls() != 2 {
		t.Errorf("%d calls, want 2", s.Calls())
	}
}

func TestWritesAreSeenInOrder(t *testing.T) {
	var log []string
	s := memory.New(memory.Options{OnWrite: func(w memory.Write) {
		log = append(log, w.Key+"="+string(w.Data)+map[bool]string{true: "deleted"}[w.Deleted])
	}})
	etag, _ := s.PutIfAbsent(t.Context(), "a", []byte("1"))
	_, _ = s.PutIfAbsent(t.Context(), "a", []byte("refused"))
	etag, _ = s.PutIfMatch(t.Context(), "a", []byte("2"), etag)
	_ = s.DeleteIfMatch(t.Context(), "a", etag)
	if want := []string{"a=1", "a=2", "a=deleted"}; !slices.Equal(log, want) {
		t.Errorf("accepted %q, want %q", log, want)
	}
}
