package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// RetryPolicy bounds the repetition of a call that may pass later. Zero fields
// take the defaults.
type RetryPolicy struct {
	Attempts    int           // calls in all, the first included; 5
	Pause       time.Duration // before the second call, jittered, then doubling; 50ms
	MaxPause    time.Duration // the longest pause; 500ms
	CallTimeout time.Duration // of one call; no limit but the context's

	// Jitter places each pause between half and one and a half of its length:
	// uniform from 0 to below 1; rand.Float64.
	Jitter func() float64

	// Permit is asked right before each call, repetitions included: an error of
	// it ends the matter, and what may have happened until then stands. nil:
	// every call is permitted as long as the context lasts.
	Permit func(context.Context) error
}

// permit reports why no call may be made any more.
func (p RetryPolicy) permit(ctx context.Context) error {
	if p.Permit != nil {
		if err := p.Permit(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Attempts <= 0 {
		p.Attempts = 5
	}
	if p.Pause <= 0 {
		p.Pause = 50 * time.Millisecond
	}
	if p.MaxPause <= 0 {
		p.MaxPause = 500 * time.Millisecond
	}
	if p.Jitter == nil {
		p.Jitter = rand.Float64
	}
	return p
}

// Put writes data under the condition that key has etag, or is absent where
// etag is "", and returns the new etag.
//
// Conflicts, throttling and unknown outcomes are retried as policy says. Where
// the store refuses the condition, the object is read again: if it is byte for
// byte what this call tried to write, an earlier try had succeeded (or another
// writer wished the same) and its etag is adopted. Anything else is a real loss
// and the error matches ErrPrecondition. An error that matches ErrUnavailable
// leaves the outcome unknown: the write may still take effect later.
func Put(ctx context.Context, s Store, key string, data []byte, etag string, policy RetryPolicy) (string, error) {
	return retry(ctx, policy, func(ctx context.Context) (string, error) {
		written, err := put(ctx, s, key, data, etag)
		if !errors.Is(err, ErrPrecondition) {
			return written, err
		}
		stored, readErr := s.Get(ctx, key)
		switch {
		case readErr == nil && bytes.Equal(stored.Data, data):
			return stored.ETag, nil
		case readErr == nil, errors.Is(readErr, ErrNotFound):
			return "", err
		default:
			return "", fmt.Errorf("put %s: the condition was refused and reading why went wrong: %w", key, readErr)
		}
	})
}

func put(ctx context.Context, s Store, key string, data []byte, etag string) (string, error) {
	if etag == "" {
		return s.PutIfAbsent(ctx, key, data)
	}
	return s.PutIfMatch(ctx, key, data, etag)
}

// Delete removes the version of key that has etag, with the retries of [Put].
// Where the object turns out to be gone after a try with unknown outcome, that
// try is taken to have removed it; gone at the first try is ErrNotFound.
func Delete(ctx context.Context, s Store, key, etag string, policy RetryPolicy) error {
	maybeDone := false
	_, err := retry(ctx, policy, func(ctx context.Context) (string, error) {
		err := s.DeleteIfMatch(ctx, key, etag)
		if maybeDone && errors.Is(err, ErrNotFound) {
			return "", nil
		}
		maybeDone = maybeDone || errors.Is(err, ErrUnavailable)
		return "", err
	})
	return err
}

// retry repeats call while its error is Retryable and the policy lasts. It
// returns the last error of call, joined with the context's if that ended.
func retry(ctx context.Context, policy RetryPolicy, call func(context.Context) (string, error)) (string, error) {
	policy = policy.withDefaults()
	pauses := policy.pauses()
	var last error
	unknown := false // some try may have taken effect
	operation := func() (string, error) {
		if err := policy.permit(ctx); err != nil {
			last = err
			return "", backoff.Permanent(err)
		}
		callCtx, cancel := ctx, context.CancelFunc(func() {})
		if policy.CallTimeout > 0 {
			callCtx, cancel = context.WithTimeout(ctx, policy.CallTimeout)
		}
		defer cancel()
		var result string
		result, last = call(callCtx)
		timedOut := ctx.Err() == nil && errors.Is(last, context.DeadlineExceeded)
		unknown = unknown || timedOut || errors.Is(last, ErrUnavailable)
		if last != nil && !Retryable(last) && !timedOut {
			return "", backoff.Permanent(last)
		}
		return result, last
	}
	result, err := backoff.Retry(ctx, operation, backoff.WithBackOff(pauses),
		backoff.WithMaxTries(uint(policy.Attempts)), backoff.WithMaxElapsedTime(0))
	if err == nil {
		return result, nil
	}
	return "", outcome(ctx, last, unknown)
}

// pauses are those between the calls.
func (p RetryPolicy) pauses() backoff.BackOff {
	doubling := backoff.NewExponentialBackOff()
	doubling.InitialInterval = p.Pause
	doubling.MaxInterval = p.MaxPause
	doubling.Multiplier = 2
	doubling.RandomizationFactor = 0
	return jittered{doubling, p.Jitter}
}

// jittered moves the pauses of another back-off about.
type jittered struct {
	backoff.BackOff
	jitter func() float64
}

// NextBackOff implements backoff.BackOff.
func (j jittered) NextBackOff() time.Duration {
	next := j.BackOff.NextBackOff()
	if next == backoff.Stop {
		return next
	}
	return time.Duration((0.5 + j.jitter()) * float64(next))
}

// outcome completes the last error of a call that was repeated in vain: with
// the end of the context, and with the doubt an earlier try has left.
func outcome(ctx context.Context, last error, unknown bool) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(last, ended) {
		last = errors.Join(last, ended)
	}
	decided := errors.Is(last, ErrPrecondition) || errors.Is(last, ErrNotFound)
	if unknown && !decided && !errors.Is(last, ErrUnavailable) {
		return fmt.Errorf("%w; before that: %w", last, ErrUnavailable)
	}
	return last
}

// ListAll yields every object below prefix in the order of List, page by page.
// It ends after the first error, which it yields with a zero Info; a listing
// that ended so is incomplete and proves no absence.
func ListAll(ctx context.Context, s Store, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		token := ""
		for {
			page, err := s.List(ctx, prefix, token, 0)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, info := range page.Objects {
				if !yield(info, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			token = page.Next
		}
	}
}
