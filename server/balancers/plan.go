package balancers

import (
	"maps"
	"slices"
	"time"

	"nstance.dev/server/driver"
)

// Phase is how far a machine is in its life, as far as load balancers care.
type Phase int

// The phases.
const (
	Gone    Phase = iota // unknown, or its VM is gone: nothing can be done for it
	Waiting              // its agent has not reported to this leader, or it is sick
	Serving              // it may take traffic
	Leaving              // it is being removed
)

// Machine is one machine as it should be.
type Machine struct {
	Ref   driver.Ref
	Phase Phase
	Keys  []string // of the load balancers that its group names
}

// State is what is known of a membership.
type State int

// The states.
const (
	Unknown State = iota // nothing was heard of it
	In
	Out
)

// Member is what is known of one machine behind one load balancer.
type Member struct {
	State    State
	Since    time.Time // of the state
	Failures int       // of calls in a row
	Retry    time.Time // when the next call may be made; zero: at once
	Error    string    // of the last call; empty: it succeeded
}

// Op is what is to be done.
type Op string

// The operations.
const (
	Register   Op = "register"
	Deregister Op = "deregister"
)

// Step is one call that brings a membership to what it should be.
type Step struct {
	Key string
	Op  Op
	Why string
}

// Plan returns what has to be done for a machine now, in the order of the keys,
// and when there will be more to do by time alone (zero: not by itself). The plan
// for a machine that is where it belongs is empty.
func Plan(m Machine, known map[string]Member, now time.Time) (steps []Step, next time.Time) {
	keys := slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.Keys, slices.Collect(maps.Keys(known))))))
	for _, key := range keys {
		step := decide(m, key, known[key].State)
		if step.Op == "" {
			continue
		}
		if retry := known[key].Retry; now.Before(retry) {
			if next.IsZero() || retry.Before(next) {
				next = retry
			}
			continue
		}
		steps = append(steps, step)
	}
	return steps, next
}

// decide says what one membership needs; the zero Step is nothing.
func decide(m Machine, key string, state State) Step {
	named := slices.Contains(m.Keys, key)
	switch {
	case m.Phase == Serving && named && state != In:
		return Step{key, Register, "it serves, and its group names the load balancer"}
	case m.Phase == Serving && !named && state == In:
		return Step{key, Deregister, "its group does not name the load balancer"}
	case m.Phase == Leaving && state == In:
		return Step{key, Deregister, "it is being removed"}
	case m.Phase == Leaving && state == Unknown && named:
		return Step{key, Deregister, "it is being removed, and may be a member"}
	}
	return Step{}
}

// Pauses after calls that failed, doubling.
const (
	firstRetry   = 5 * time.Second
	longestRetry = 5 * time.Minute
)

// After is what is known of a membership when a call for it has ended. A machine
// that does not exist is not a member.
func After(m Member, op Op, err error, now time.Time) Member {
	switch {
	case err == nil && op == Register:
		return Member{State: In, Since: now}
	case err == nil, op == Deregister && driver.IsNotFound(err):
		return Member{State: Out, Since: now}
	}
	m.Retry = now.Add(min(firstRetry<<min(m.Failures, 10), longestRetry))
	m.Failures++
	m.Error = err.Error()
	return m
}

// Listed is what is known of a membership when the load balancer was listed, asked
// at the given time. What happened later, or so short before that the provider may
// not show it yet, is known better.
func Listed(m Member, member bool, asked time.Time, lag time.Duration) Member {
	state := Out
	if member {
		state = In
	}
	if m.State == state || m.State != Unknown && m.Since.After(asked.Add(-lag)) {
		return m
	}
	return Member{State: state, Since: asked}
}
