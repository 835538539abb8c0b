package wait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// ErrFailed is matched by errors of [Until] and [Each] about a goal that cannot be
// reached any more.
var ErrFailed = errors.New("the condition can no longer be met")

// TimeoutError says what was missing when the time was over.
type TimeoutError struct {
	After   time.Duration
	Missing string
	Err     error // the last failure to look; may be nil
}

// Error names the missing parts.
func (e *TimeoutError) Error() string {
	switch {
	case e.Err != nil && e.Missing != "":
		return fmt.Sprintf("not done after %v: %s; and now: %v", e.After, e.Missing, e.Err)
	case e.Err != nil:
		return fmt.Sprintf("not done after %v: %v", e.After, e.Err)
	}
	return fmt.Sprintf("not done after %v: %s", e.After, e.Missing)
}

// Unwrap returns the failure to look.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Client is the part of the operator API that waiting needs.
type Client interface {
	ListGroups(ctx context.Context, in *emptypb.Empty, opts ...grpc.CallOption) (*nstancev1.ListGroupsResponse, error)
	ListInstances(ctx context.Context, in *nstancev1.ListInstancesRequest, opts ...grpc.CallOption) (*nstancev1.ListInstancesResponse, error)
	WatchInstances(ctx context.Context, in *nstancev1.WatchInstancesRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[nstancev1.InstanceEvent], error)
}

// Options are the settings of [Until] and [Each]; zero fields take the defaults.
type Options struct {
	Timeout time.Duration // in all; 10m
	Poll    time.Duration // the longest time between two looks; 1s
	Gap     time.Duration // the shortest, however many events come; 100ms
	Report  func(string)  // told what is missing after each look; may be nil
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	if o.Gap <= 0 {
		o.Gap = 100 * time.Millisecond
	}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	return o
}

// Until returns nil once the goal is reached. It returns a [*TimeoutError] when
// the time is over, an error that matches [ErrFailed] when waiting is of no use,
// and the server's error where that is final.
func Until(ctx context.Context, client Client, goal Goal, opts Options) error {
	return Each(ctx, client, []Goal{goal}, opts)[0]
}

// Each waits for several goals at once, and returns what [Until] would return
// for each of them, in their order. What ends all waits, such as the caller, is
// one error for all that were open. Without goals it asks for nothing.
func Each(ctx context.Context, client Client, goals []Goal, opts Options) []error {
	if len(goals) == 0 {
		return nil
	}
	opts = opts.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	events := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		follow(ctx, client, events, opts.Poll)
	}()
	defer func() { cancel(); <-done }()

	all := newWaits(goals, opts.Timeout)
	for {
		state, err := Observe(ctx, client)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return all.end(ctx.Err())
		case err == nil:
			missing := all.judge(state)
			if missing == "" {
				return all.errs
			}
			opts.Report(missing)
		case passing(err):
			all.unanswered(err)
			opts.Report("no answer, trying again")
		case ctx.Err() == nil:
			return all.end(err)
		}
		if !pause(ctx, events, opts) {
			if errors.Is(ctx.Err(), context.Canceled) {
				return all.end(ctx.Err())
			}
			return all.timeout()
		}
	}
}

// waits are goals, and what has become of them. One that is open has neither been
// reached nor failed.
type waits struct {
	goals    []Goal
	open     []int // indices into goals, ascending
	timeouts []*TimeoutError
	errs     []error // of goals that are not open; nil: reached
}

func newWaits(goals []Goal, after time.Duration) *waits {
	all := &waits{goals: goals, errs: make([]error, len(goals))}
	for i := range goals {
		all.open = append(all.open, i)
		all.timeouts = append(all.timeouts, &TimeoutError{After: after})
	}
	return all
}

// judge looks at what is open, and returns what the first of it lacks; "" if nothing is open any more.
func (w *waits) judge(state State) string {
	var open []int
	for _, i := range w.open {
		verdict := Settled(w.goals[i], state)
		switch {
		case verdict.Done:
		case verdict.Failed:
			w.errs[i] = fmt.Errorf("%w: %s", ErrFailed, verdict.Missing)
		default:
			w.timeouts[i].Missing, w.timeouts[i].Err = verdict.Missing, nil
			open = append(open, i)
		}
	}
	w.open = open
	if len(open) == 0 {
		return ""
	}
	return w.timeouts[open[0]].Missing
}

// unanswered remembers that the last look has failed.
func (w *waits) unanswered(err error) {
	for _, i := range w.open {
		w.timeouts[i].Err = err
	}
}

// end gives all that is open the same error.
func (w *waits) end(err error) []error {
	for _, i := range w.open {
		w.errs[i] = err
	}
	return w.errs
}

// timeout gives all that is open the error that says what is missing.
func (w *waits) timeout() []error {
	for _, i := range w.open {
		w.errs[i] = w.timeouts[i]
	}
	return w.errs
}

// passing reports whether a failure to look says nothing about the next one.
func passing(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return true
	}
	return false
}

// pause waits for the next look, and reports whether there is one.
func pause(ctx context.Context, events <-chan struct{}, opts Options) bool {
	gap := time.NewTimer(opts.Gap)
	defer gap.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-gap.C:
	}
	poll := time.NewTimer(max(0, opts.Poll-opts.Gap))
	defer poll.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-events:
	case <-poll.C:
	}
	return true
}

// Observe lists all groups and instances.
func Observe(ctx context.Context, client Client) (State, error) {
	groups, err := client.ListGroups(ctx, &emptypb.Empty{})
	if err != nil {
		return State{}, fmt.Errorf("list groups: %w", err)
	}
	instances, complete, err := ListInstances(ctx, client)
	if err != nil {
		return State{}, err
	}
	return State{Groups: groups.GetGroups(), Instances: instances, Complete: complete}, nil
}

// Lister is the part of the operator API that [ListInstances] needs.
type Lister interface {
	ListInstances(ctx context.Context, in *nstancev1.ListInstancesRequest, opts ...grpc.CallOption) (*nstancev1.ListInstancesResponse, error)
}

// ListInstances returns the instances of all pages, and whether the server knew
// all of them while it answered.
func ListInstances(ctx context.Context, client Lister) (all []*nstancev1.InstanceStatus, complete bool, err error) {
	complete = true
	request := &nstancev1.ListInstancesRequest{PageSize: 1000}
	for {
		page, err := client.ListInstances(ctx, request)
		if err != nil {
			return nil, false, fmt.Errorf("list instances: %w", err)
		}
		all = append(all, page.GetInstances()...)
		complete = complete && page.GetComplete()
		if page.GetNextPageToken() == "" {
			return all, complete, nil
		}
		request = &nstancev1.ListInstancesRequest{PageSize: 1000, PageToken: page.GetNextPageToken()}
	}
}

// follow signals every event until ctx ends. Where there is no stream, the
// steady pace of looking remains.
func follow(ctx context.Context, client Client, events chan<- struct{}, retry time.Duration) {
	for ctx.Err() == nil {
		stream, err := client.WatchInstances(ctx, &nstancev1.WatchInstancesRequest{})
		for err == nil {
			if _, err = stream.Recv(); err == nil {
				select {
				case events <- struct{}{}:
				default:
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}
