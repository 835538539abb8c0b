package hosts

import (
	"context"
	"fmt"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/power"
	"nstance.dev/server/retry"
)

// Run reads the stored operations, as soon as it is called, goes on with those that are not
// over, and deletes those that were over for long, until ctx ends. The instances of the shard
// must be known by then.
func (o *Operations) Run(ctx context.Context) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, longestRetry) {
		err := o.load(ctx)
		if err == nil {
			break
		}
		if o.opts.Over(err) || ctx.Err() != nil {
			return nil
		}
		o.opts.Log.WarnContext(ctx, "reading operations will be repeated", "retry_in", pause, "error", err)
		if retry.Wait(ctx, pause) != nil {
			return nil
		}
	}
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			o.sweep(ctx)
		}
	}
}

// run carries an operation out to its end, or to that of the term.
func (o *Operations) run(op *operation) {
	if !o.settle(op) {
		return
	}
	var sight power.Sight
	var offers []driver.PowerAction
	for {
		rec := op.record()
		in, there := o.opts.Cache.Instance(rec.InstanceID)
		v := power.View{Leaving: !there || in.State.Leaving() || in.State == fleet.Deleted}
		if !v.Leaving {
			sight = o.look(rec, in, sight)
			if offers == nil {
				offers = o.offers(in)
			}
			v.Sight, v.Offers = sight, offers
			v.Heard, v.Booted = o.agent(in)
		}
		now := layout.At(o.opts.Now()).Time
		over, err := o.step(op, in, power.Next(op.decision(in.Hold, now), v, now))
		switch {
		case over:
			o.over(op)
			return
		case err != nil && (o.opts.Over(err) || o.ctx.Err() != nil):
			return
		case err != nil:
			o.opts.Log.WarnContext(o.ctx, "operation will be tried again", "operation", rec.ID, "instance", rec.InstanceID, "retry_in", lookAgain, "error", err)
		}
		timer := time.NewTimer(lookAgain)
		select {
		case <-o.ctx.Done():
			timer.Stop()
			return
		case <-op.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// decision is the operation as decisions see it, where its instance has this hold.
func (op *operation) decision(hold fleet.Hold, now time.Time) power.Operation {
	op.mu.Lock()
	defer op.mu.Unlock()
	barred := op.barred
	if barred == (power.Bar{}) && (hold.Reason != fleet.HoldPower || !hold.InForce(now)) {
		barred = power.Bar{Reason: power.NoHold, Message: "the instance is no longer on hold for power, and nothing was sent"}
	}
	return power.Operation{
		Name: power.Name(op.rec.Name), Hard: op.rec.Params["mode"] == "hard", Marks: entriesOf(op.rec.Marks),
		Deadline: op.rec.Deadline.Time, Barred: barred,
	}
}

// step makes a mark durable, and then sends what it announces. It reports whether the operation
// is over.
func (o *Operations) step(op *operation, in cache.Instance, s power.Step) (over bool, err error) {
	now := layout.At(o.opts.Now())
	next := op.record()
	if s.Mark != "" {
		next.Marks = marksOf(power.Set(entriesOf(next.Marks), s.Mark, s.Send, now.Time))
	}
	if s.State != "" {
		next.State, next.Reason, next.Message, next.EndedAt = string(s.State), s.Reason, s.Message, now
	}
	if s.Mark != "" || s.State != "" {
		if err := o.write(op, next); err != nil {
			return false, err
		}
		o.opts.Log.InfoContext(o.ctx, "operation goes on", "operation", next.ID, "name", next.Name, "instance", next.InstanceID, "tenant", next.Tenant,
			"mark", string(s.Mark), "sends", string(s.Send), "state", next.State, "reason", s.Reason, "message", s.Message)
	}
	if s.State != "" {
		o.opts.Metrics.operationEnded(next.Name, next.State)
		return true, nil
	}
	if s.Send == "" {
		return false, nil
	}
	err = o.opts.Provider.Power(o.ctx, in.Group, refOf(in), s.Send)
	if err == nil {
		taken := op.record()
		taken.Marks = marksOf(power.Accept(entriesOf(taken.Marks), s.Mark, layout.At(o.opts.Now()).Time))
		return false, o.write(op, taken)
	}
	switch driver.ClassOf(err) {
	case driver.Unsupported:
		return o.step(op, in, power.Step{State: power.Failed, Reason: power.Unsupported, Message: fmt.Sprintf("power %s: %v", s.Send, err)})
	case driver.Invalid:
		return o.step(op, in, power.Step{State: power.Failed, Reason: power.Refused, Message: fmt.Sprintf("power %s: %v", s.Send, err)})
	default:
		return false, fmt.Errorf("power %s: %w", s.Send, err) // it may have arrived: its effect is waited for
	}
}

func refOf(in cache.Instance) driver.Ref {
	return driver.Ref{InstanceID: in.ID, ProviderID: in.ProviderID}
}

// look asks the provider for the machine. What does not answer changes nothing.
func (o *Operations) look(rec layout.OperationRecord, in cache.Instance, before power.Sight) power.Sight {
	asked := o.opts.Now()
	vm, err := o.opts.Provider.Get(o.ctx, refOf(in))
	if err != nil {
		if !o.opts.Over(err) && o.ctx.Err() == nil {
			o.opts.Log.WarnContext(o.ctx, "machine of an operation not seen", "operation", rec.ID, "instance", in.ID, "error", err)
		}
		return before
	}
	o.opts.Observed(vm, asked)
	return before.Saw(vm.Status, asked)
}

// offers are what the machine can be asked for; nil: that is not known.
func (o *Operations) offers(in cache.Instance) []driver.PowerAction {
	if !o.opts.Provider.SwitchesPower() {
		return []driver.PowerAction{}
	}
	offers, err := o.opts.Provider.PowerActions(o.ctx, refOf(in))
	if err != nil {
		if !o.opts.Over(err) && o.ctx.Err() == nil {
			o.opts.Log.WarnContext(o.ctx, "power actions not known", "instance", in.ID, "error", err)
		}
		return nil
	}
	return append([]driver.PowerAction{}, offers...)
}

// agent is when the agent of an instance last reported, and when its system began by that.
func (o *Operations) agent(in cache.Instance) (heard, booted time.Time) {
	h, ok := o.opts.Cache.Health(in.ID)
	if !ok || h.ReceivedAt.IsZero() {
		return time.Time{}, time.Time{}
	}
	if up, err := time.ParseDuration(h.Uptime); err == nil {
		booted = h.ReceivedAt.Add(-up)
	}
	return h.ReceivedAt, booted
}
