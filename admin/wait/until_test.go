package wait_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// server answers with its state, and tells watchers of each change.
type server struct {
	mu      sync.Mutex
	state   wait.State
	err     error
	looks   int
	changes chan struct{} // nil: there are no streams
}

func (s *server) set(state wait.State, err error) {
	s.mu.Lock()
	s.state, s.err = state, err
	s.mu.Unlock()
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

func (s *server) ListGroups(context.Context, *emptypb.Empty, ...grpc.CallOption) (*nstancev1.ListGroupsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return &nstancev1.ListGroupsResponse{Groups: s.state.Groups}, s.err
}

func (s *server) ListInstances(context.Context, *nstancev1.ListInstancesRequest, ...grpc.CallOption) (*nstancev1.ListInstancesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &nstancev1.ListInstancesResponse{Instances: s.state.Instances, Complete: s.state.Complete}, s.err
}

func (s *server) WatchInstances(ctx context.Context, _ *nstancev1.WatchInstancesRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[nstancev1.InstanceEvent], error) {
	if s.changes == nil {
		return nil, status.Error(codes.Unavailable, "no streams")
	}
	return &events{ctx: ctx, changes: s.changes}, nil
}

type events struct {
	grpc.ClientStream
	ctx     context.Context // a gRPC stream carries the one that it was opened with
	changes chan struct{}
}

func (e *events) Recv() (*nstancev1.InstanceEvent, error) {
	select {
	case <-e.ctx.Done():
		return nil, e.ctx.Err()
	case <-e.changes:
		return &nstancev1.InstanceEvent{}, nil
	}
}

func TestUntilEndsSoonAfterTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{state: state(1), changes: make(chan struct{})}
		start := time.Now()
		go func() {
			time.Sleep(3300 * time.Millisecond)
			s.set(state(1, "a running"), nil)
		}()
		if err := wait.Until(t.Context(), s, wait.Goal{Group: "web"}, wait.Options{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 3300*time.Millisecond || took > 3400*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestUntilNeedsNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{state: state(1)}
		start := time.Now()
		go func() {
			time.Sleep(3300 * time.Millisecond)
			s.set(state(1, "a running"), nil)
		}()
		if err := wait.Until(t.Context(), s, wait.Goal{Group: "web"}, wait.Options{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 4400*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestUntilIsNotHurriedByManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{state: state(1), changes: make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		var events sync.WaitGroup
		events.Go(func() {
			for ctx.Err() == nil {
				s.set(state(1), nil)
				time.Sleep(time.Millisecond)
			}
		})
		_ = wait.Until(ctx, s, wait.Goal{Group: "web"}, wait.Options{})
		cancel()
		events.Wait()
		if s.looks > 11 {
			t.Errorf("%d looks within a second", s.looks)
		}
	})
}

func TestUntilTellsWhatWasMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{state: state(2, "a running", "b pending")}
		var reports []string
		err := wait.Until(t.Context(), s, wait.Goal{Group: "web"}, wait.Options{
			Timeout: 5 * time.Second,
			Report:  func(text string) { reports = append(reports, text) },
		})
		timeout, ok := errors.AsType[*wait.TimeoutError](err)
		if !ok || timeout.Error() != "not done after 5s: group web: 1 of 2 running, 1 pending" {
			t.Errorf("error is %v", err)
		}
		if len(reports) == 0 || !slices.Contains(reports, timeout.Missing) {
			t.Errorf("reports are %q", reports)
		}
	})
}

func TestUntilOutlivesAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{err: status.Error(codes.Unavailable, "not shard leader")}
		go func() {
			time.Sleep(20 * time.Second)
			s.set(state(1, "a running"), nil)
		}()
		if err := wait.Until(t.Context(), s, wait.Goal{Group: "web"}, wait.Options{}); err != nil {
			t.Error(err)
		}
	})
}

func TestUntilEndsEarly(t *testing.T) {
	for name, test := range map[string]struct {
		server *server
		goal   wait.Goal
		check  func(error) bool
	}{
		"when it cannot come any more": {
			&server{state: state(noGroup, "od terminated")}, wait.Goal{Running: []string{"od"}},
			func(err error) bool {
				return errors.Is(err, wait.ErrFailed) && strings.Contains(err.Error(), "od is terminated")
			},
		},
		"when the server refuses": {
			&server{err: status.Error(codes.PermissionDenied, "no")}, wait.Goal{Group: "web"},
			func(err error) bool { return status.Code(err) == codes.PermissionDenied },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				if err := wait.Until(t.Context(), test.server, test.goal, wait.Options{}); !test.check(err) {
					t.Errorf("error is %v", err)
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestEachSaysOfEveryGoalWhatBecameOfIt: what is reached late or never takes nothing from the others.
func TestEachSaysOfEveryGoalWhatBecameOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here := func(id, status string) *nstancev1.InstanceStatus {
			return &nstancev1.InstanceStatus{InstanceId: id, Status: status}
		}
		s := &server{state: wait.State{Complete: true, Instances: []*nstancev1.InstanceStatus{here("stays", "draining"), here("goes", "draining"), here("failed", "terminated")}}}
		go func() {
			time.Sleep(time.Minute)
			s.set(wait.State{Complete: true, Instances: []*nstancev1.InstanceStatus{here("stays", "draining"), here("failed", "terminated")}}, nil)
		}()
		var reports []string
		errs := wait.Each(t.Context(), s, []wait.Goal{{Gone: []string{"stays"}}, {Gone: []string{"goes"}}, {Running: []string{"failed"}}, {Gone: []string{"never was"}}},
			wait.Options{Timeout: 2 * time.Minute, Report: func(text string) { reports = append(reports, text) }})
		var late *wait.TimeoutError
		if !errors.As(errs[0], &late) || late.Missing != "instance stays is draining" || late.After != 2*time.Minute {
			t.Errorf("the one that stays: %v", errs[0])
		}
		if errs[1] != nil || !errors.Is(errs[2], wait.ErrFailed) || errs[3] != nil {
			t.Errorf("the others: %v", errs[1:])
		}
		if reports = slices.Compact(reports); !slices.Equal(reports, []string{"instance stays is draining"}) {
			t.Errorf("reports: %q", reports)
		}
	})
}

func TestUntilEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		err := wait.Until(ctx, &server{state: state(1)}, wait.Goal{Group: "web"}, wait.Options{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	})
}
