package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/operatorapi"
	"nstance.dev/server/power"
	"nstance.dev/server/shard"
)

// hold asks for a hold, and reports whether it stands. Whoever asked may have been told
// nothing, so a hold may stand where this says no.
func (w *world) hold(id identity.ID, reason fleet.HoldReason, span time.Duration) bool {
	m := w.machine(id)
	until := time.Now().Add(span)
	_, err := ask(w, "hold "+m.name, nil, func(ctx context.Context, r *shard.Term) (*nstancev1.Hold, error) {
		return operatorapi.Of(r).SetHold(ctx, m.group.tenant, &nstancev1.SetHoldRequest{InstanceId: id.String(), Reason: string(reason), Until: timestamppb.New(until)})
	})
	w.told(err, "%s is on hold: %s", m.name, reason)
	return err == nil
}

// unhold asks for the end of a hold until somebody has answered.
func (w *world) unhold(id identity.ID) {
	m := w.machine(id)
	_, err := ask(w, "unhold "+m.name, nil, func(ctx context.Context, r *shard.Term) (struct{}, error) {
		return struct{}{}, operatorapi.Of(r).ClearHold(ctx, m.group.tenant, &nstancev1.ClearHoldRequest{InstanceId: id.String()})
	})
	w.told(err, "%s is not on hold any more", m.name)
}

// away is work at a machine by hand: it is put on hold, switched off, and on again after a
// while. Somebody who has forgotten it leaves it off and on hold, for ever.
func (w *world) away(id identity.ID, span time.Duration, forgotten bool) {
	if !w.hold(id, fleet.HoldPower, 2*span) {
		return
	}
	w.strike(id, "is switched off", func() { w.cloud.SetStatus(id, driver.Stopped) })
	if forgotten || pause(w.ctx, span) != nil {
		return
	}
	if vm, there := w.cloud.Machine(id); there && vm.Status == driver.Stopped {
		w.strike(id, "is switched on", func() { w.cloud.SetStatus(id, driver.Running) })
	}
	w.unhold(id)
}

// cycles is what a power cycle of one machine has sent.
type cycles struct {
	name      string // of the operation
	offs, ons int    // of the machine
	over      bool   // it is not looked at any more
}

// cycle has a machine switched off and on by the servers, and looks at how that ends.
func (w *world) cycle(id identity.ID) {
	m := w.machine(id)
	if !w.hold(id, fleet.HoldPower, time.Hour) {
		return
	}
	w.mu.Lock()
	w.cycles++
	of := &cycles{name: fmt.Sprintf("cycle-%d", w.cycles)}
	w.cycled[id] = of
	w.mu.Unlock()
	do := func(ctx context.Context, r *shard.Term) (*nstancev1.OperationStatus, error) {
		return operatorapi.Of(r).StartOperation(ctx, m.group.tenant, &nstancev1.StartOperationRequest{
			Id: of.name, InstanceId: id.String(), Name: string(power.Cycle),
		})
	}
	defer func() {
		w.mu.Lock()
		of.over = true
		w.mu.Unlock()
	}()
	for w.ctx.Err() == nil {
		op, err := ask(w, "cycle "+m.name, nil, do) // the same id is the same operation, so this asks how it is
		w.event("%s: %s: %v, %v", of.name, m.name, op.GetState(), err)
		switch {
		case err != nil: // refused, or nobody answers for long: the hold ends by itself
			w.told(err, "%s is cycled", m.name)
			return
		case op.GetState() == nstancev1.OperationState_OPERATION_STATE_COMPLETE:
			w.checkCycle(id, m.name, of)
			w.logf("%s was switched off and on", m.name)
			w.unhold(id)
			return
		case op.GetState() == nstancev1.OperationState_OPERATION_STATE_FAILED:
			w.logf("%s was not switched off and on: %s", m.name, op.GetReason())
			w.unhold(id)
			return
		}
		_ = pause(w.ctx, 5*time.Second)
	}
}

// checkCycle checks that a cycle that is complete has happened, and once (M85). Of a machine that
// somebody else has switched too that cannot be told.
func (w *world) checkCycle(id identity.ID, name string, of *cycles) {
	w.mu.Lock()
	offs, ons, alone := of.offs, of.ons, !w.struck[id]
	w.mu.Unlock()
	if alone && w.cloudOf(id) && (offs != 1 || ons != 1) {
		w.violate("M85", "a power cycle of %s is complete, which went off %d times and on %d times", name, offs, ons)
	}
}

// cloudOf reports whether a machine is there.
func (w *world) cloudOf(id identity.ID) bool {
	_, there := w.cloud.Machine(id)
	return there
}

// Power implements [driver.Powerer].
func (c cloudLink) Power(ctx context.Context, ref driver.Ref, action driver.PowerAction) error {
	w := c.by.box.w
	_, err := cloudCall(ctx, c, drivertest.OpPower, ref.InstanceID, func(ctx context.Context) (struct{}, error) {
		w.checkPower(c.by, ref.InstanceID, action)
		return struct{}{}, drivertest.Switches{Of: c.Cloud}.Power(ctx, ref, action)
	})
	return err
}

// PowerActions implements [driver.Powerer].
func (c cloudLink) PowerActions(ctx context.Context, ref driver.Ref) ([]driver.PowerAction, error) {
	return cloudCall(ctx, c, drivertest.OpPowerActions, ref.InstanceID, func(ctx context.Context) ([]driver.PowerAction, error) {
		return drivertest.Switches{Of: c.Cloud}.PowerActions(ctx, ref)
	})
}

// switched counts what has become of a machine that is cycled: twice is once too many (M85).
func (w *world) switched(id identity.ID, to driver.Status) {
	w.mu.Lock()
	of := w.cycled[id]
	if of == nil || of.over || w.struck[id] {
		w.mu.Unlock()
		return
	}
	switch to {
	case driver.Running:
		of.ons++
	case driver.Stopped:
		of.offs++
	default:
		w.struck[id] = true // it has failed by itself
	}
	twice := of.offs > 1 || of.ons > 1
	w.mu.Unlock()
	if twice {
		w.violate("M85", "a power cycle of %s has switched it off or on twice", w.nameOf(id))
	}
}

// checkPower looks at every call that switches a machine, as it is sent: its leader may act
// (S2), and its instance is on hold and stays.
func (w *world) checkPower(p *process, id identity.ID, action driver.PowerAction) {
	name := w.nameOf(id)
	w.checkLease(p, fmt.Sprintf("power %s of %s", action, name))
	rec := w.truth.record(id)
	switch {
	case rec == nil || rec.Hold == nil:
		w.violate("M84", "power %s of %s, which is not on hold", action, name)
	case rec.Deletion != nil && action == driver.PowerOn:
		w.logf("%s is switched on while it is condemned", name) // its leader may not have heard of that
	}
}

// longestHold is what the configuration and the servers allow.
var longestHold = map[string]time.Duration{"rollout": 24 * time.Hour, "reboot": 15 * time.Minute, "repave": 45 * time.Minute, "power": 24 * time.Hour}

// GenerateHolds makes the plan of a seed as [Generate] does, with holds and power cycles beside
// all else that happens.
func GenerateHolds(seed uint64, mode string) Plan {
	p := Generate(seed, mode)
	p.Settings["hosts"] = "yes"
	d := dice{seed}
	length := p.duration("length")
	for verb, perMinute := range map[string]float64{"hold": 0.4, "unhold": 0.2, "away": 0.4, "forget": 0.1, "cycle": 0.5} {
		for i := range int(perMinute*length.Minutes() + d.unit("how many", verb)) {
			at := d.between(30*time.Second, length, verb, i)
			args := []string{choose(d, []string{"web", "web", "db", "b.api"}, verb, i, "group"), strconv.Itoa(d.below(100, verb, i, "number"))}
			span := d.between(time.Minute, 4*time.Minute, verb, i, "span").Round(time.Millisecond).String()
			switch verb {
			case "hold":
				args = append(args, string(choose(d, fleet.HoldReasons(), verb, i, "reason")), span)
			case "away", "forget":
				args = append(args, span)
			}
			p.Events = append(p.Events, Event{at, verb, args})
		}
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Verb, b.Verb)) })
	return p
}

// checkHold looks at every version of a record: a hold ends (M85), and what is on hold is not
// condemned for what it is on hold for (M84).
func (w *world) checkHold(name string, rec *record, condemned bool) {
	h := rec.Hold
	if h == nil {
		return
	}
	if h.Until.Sub(h.Since.Time) > longestHold[h.Reason] {
		w.violate("M85", "%s is on hold (%s) for %v", name, h.Reason, h.Until.Sub(h.Since.Time))
	}
	w.mu.Lock()
	skew := w.skew
	w.mu.Unlock()
	if !condemned || !time.Now().Add(2*skew).Before(h.Until.Time) {
		return
	}
	switch fleet.Reason(rec.Deletion.Reason) {
	case fleet.ReasonUnhealthy:
		if h.Reason == string(fleet.HoldRollout) {
			return // it excuses nothing
		}
		fallthrough
	case fleet.ReasonConfigDrift, fleet.ReasonExpired:
		if !rec.OnDemand || fleet.Reason(rec.Deletion.Reason) != fleet.ReasonExpired {
			w.violate("M84", "%s is condemned as %s, and is on hold (%s) for %v more", name, rec.Deletion.Reason, h.Reason, time.Until(h.Until.Time))
		}
	}
}
