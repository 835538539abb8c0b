package provisioning

import (
	"context"
	"errors"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/provider"
	"nstance.dev/server/retry"
	"nstance.dev/server/traces"
)

// send makes one create call whose turn it is, and deals with its outcome.
func (l *Launcher) send(ctx context.Context, it *attempt) {
	if event := l.givenUp(ctx, it); event != 0 {
		defer l.opts.Instances.PendingRemovals.Done(it.group, it.ID)
		l.proceed(ctx, it, event, nil)
		return
	}
	if l.opts.Groups.Paused(it.group, l.opts.Now()).By != "" {
		l.proceed(ctx, it, fleet.AttemptEventPaused, nil)
		return
	}
	it.on(fleet.AttemptEventTurn)
	m, took, err := l.call(ctx, it)
	event := l.outcome(err)
	if event == fleet.AttemptEventMade {
		l.opts.Metrics.created(took)
		l.accepted(ctx, it, m)
	}
	l.proceed(ctx, it, event, err)
}

// givenUp decides whether a create is not sent (any more), and notes that its instance is
// to end before anybody else decides about the group.
func (l *Launcher) givenUp(ctx context.Context, it *attempt) (event fleet.AttemptEvent) {
	if it.State.MayExist() {
		return 0 // no plan has to wait for that
	}
	err := l.opts.Instances.PendingRemovals.Decide(ctx, it.group, func() {
		now := l.opts.Now()
		members := func() []fleet.Instance { return l.opts.Liveness.Heard(l.opts.Instances.Of(it.group)) }
		event = it.GivenUp(l.opts.Groups.Group(it.group), members, l.backoffs.hopeless(it.group, now), now)
		if event != 0 {
			l.opts.Instances.PendingRemovals.Begin(it.group, it.ID, fleet.ReasonAbandoned)
		}
	})
	if err != nil {
		return 0
	}
	return event
}

// call makes the create call.
func (l *Launcher) call(ctx context.Context, it *attempt) (driver.Machine, time.Duration, error) {
	it.sent++
	l.opts.Liveness.CreateSent(it.ID)
	started := l.opts.Now()
	traced, span := l.opts.Traces.Start(traces.Below(ctx, it.trace), "provider.create", it.group, traces.Instance(it.ID))
	m, err := l.opts.Provider.Create(traced, it.request)
	traces.End(span, err)
	return m, l.opts.Now().Sub(started), err
}

// outcome is what the answer to a create call means.
func (l *Launcher) outcome(err error) fleet.AttemptEvent {
	switch kind := driver.ClassOf(err); {
	case err == nil:
		return fleet.AttemptEventMade
	case l.opts.Over(err):
		return fleet.AttemptEventTermOver
	case kind == driver.Throttled:
		return fleet.AttemptEventThrottled
	case kind == driver.Ambiguous:
		return fleet.AttemptEventUnclear
	case kind == driver.Capacity:
		return fleet.AttemptEventNoCapacity
	default:
		return fleet.AttemptEventProviderRefused
	}
}

// proceed brings an attempt on by an event, tells whom it concerns, and does what its new
// state wants.
func (l *Launcher) proceed(ctx context.Context, it *attempt, event fleet.AttemptEvent, err error) {
	why := it.on(event)
	l.tell(it, event, err)
	switch it.State {
	case fleet.AttemptQueued, fleet.AttemptUnclear:
		l.again(ctx, it, event.Pause(it.sent, wish(err)))
	case fleet.AttemptWithdrawn:
		l.opts.Log.InfoContext(ctx, "create given up", "tenant", it.group.Tenant, "group", it.group.Name, "instance", it.ID, "reason", why)
		it.claim.Dropped()
		l.withdraw(ctx, it)
	case fleet.AttemptAbandoned:
		it.claim.Accepted()
		l.abandon(ctx, it, why)
	default: // nothing is left to be done
	}
}

// tell says what an event means for the group of an attempt.
func (l *Launcher) tell(it *attempt, event fleet.AttemptEvent, err error) {
	switch event {
	case fleet.AttemptEventThrottled:
		l.backoffs.throttled(it.group, l.opts.Now(), err)
		l.opts.Wake(it.group)               // to say so
		l.opts.Liveness.CreateQueued(it.ID) // nothing was made, and it is not missing before it is asked for again
		l.report(it.group, it.ID, driver.Throttled, err)
	case fleet.AttemptEventUnclear:
		l.report(it.group, it.ID, driver.Ambiguous, err)
	case fleet.AttemptEventNoCapacity:
		it.claim.Refused(l.opts.Now())
		l.report(it.group, it.ID, driver.Capacity, err)
		l.refused(it, driver.Capacity)
	case fleet.AttemptEventProviderRefused:
		l.refused(it, driver.ClassOf(err))
		if it.Bought { // who buys looks for something else, and the group does not wait
			l.report(it.group, it.ID, driver.ClassOf(err), err)
			return
		}
		l.backOff(it.group, it.ID, driver.ClassOf(err), err)
	case fleet.AttemptEventPaused:
		if it.OnDemand && it.State == fleet.AttemptWithdrawn { // nobody decides about it anew
			l.opts.Failed(it.group, it.ID, "paused", "it was not made, for its group was paused; ask for it again")
		}
	default: // it is of no news
	}
}

// refused tells who has bought a machine that the provider does not make it.
func (l *Launcher) refused(it *attempt, class driver.ErrorClass) {
	if it.refused != nil {
		it.refused(class)
	}
}

// wish is the pause that a provider asks for before the same call, within bounds.
func wish(err error) time.Duration {
	if e := (*driver.Error)(nil); errors.As(err, &e) {
		return min(e.RetryAfter, provider.ThrottlePause)
	}
	return 0
}

// again queues the same call after a pause, for as long as somebody wants it.
func (l *Launcher) again(ctx context.Context, it *attempt, after time.Duration) {
	l.opts.Go(func(context.Context) {
		if retry.Wait(ctx, after) == nil {
			l.enqueue(it)
		}
	})
}

// accepted notes that the provider has taken the create. The agent may have
// registered in the meantime.
func (l *Launcher) accepted(ctx context.Context, it *attempt, m driver.Machine) {
	l.backoffs.reset(it.group)
	it.claim.Accepted()
	l.opts.Liveness.CreateAccepted(it.ID)
	l.opts.Liveness.Observe(m, l.opts.Now())
	_, err := l.opts.Instances.Change(ctx, it.ID, func(rec *layout.InstanceRecord) error {
		rec.ProviderID = m.ProviderID
		if rec.LaunchedAt.IsZero() {
			rec.LaunchedAt = layout.At(l.opts.Now())
		}
		FillAddresses(rec, m)
		return nil
	})
	if err != nil && !l.opts.Over(err) {
		// The listing finds the machine by its instance id, so nothing is lost.
		l.opts.Log.WarnContext(ctx, "provider id not recorded", "instance", it.ID, "error", err)
	}
	l.opts.Wake(it.group)
}
