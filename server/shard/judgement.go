package shard

import (
	"errors"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// judge has one instance judged now and acts on the verdict: the state, the
// group, a question to the provider, and the time of the next judgement. One
// that is leaving is not judged any more.
func (h *health) judge(id identity.ID) {
	for {
		row, ok := h.r.instances.Known(id)
		if !ok || row.State.Leaving() {
			return
		}
		now := h.r.now()
		h.noteSilence(id, now)
		verdict := fleet.Judge(h.evidence(row), now)
		h.schedule(id, verdict)
		if verdict.Event == 0 && verdict.Power == row.Power {
			return
		}
		after, err := h.r.instances.Note(id, func(in *cache.Instance) error {
			if err := sentence(in, row.State, verdict, now); err != nil {
				return err
			}
			if verdict.Event == fleet.EventFoundSick && !row.State.Sick() && cameToNothing(*in, now) {
				h.r.breakers.failed(in.Instance, verdict.Why, now) // before anybody plans with the new state
			}
			return nil
		})
		if errors.Is(err, errMoved) {
			continue // judged on what no longer holds
		}
		if err == nil && after.State != row.State {
			h.noteSilence(id, now)
			h.announce(after, verdict)
		}
		return
	}
}

// errMoved says that the row changed while it was judged.
var errMoved = errors.New("instance changed meanwhile")

// sentence carries a verdict into a row that is still in the judged state.
func sentence(in *cache.Instance, judged fleet.State, v fleet.Verdict, now time.Time) error {
	if in.State != judged {
		return errMoved
	}
	in.Power = v.Power
	if v.Event == 0 {
		return nil
	}
	state, err := in.State.On(v.Event)
	if err != nil {
		return err
	}
	in.State, in.Verdict = state, v.Reason
	switch v.Event {
	case fleet.EventFoundSick:
		in.UnhealthyAt = now
	case fleet.EventReported:
		in.UnhealthyAt = time.Time{} // it is well again
	}
	return nil
}

func (h *health) announce(row cache.Instance, v fleet.Verdict) {
	h.r.log.Info("health changed", "instance", row.ID, "tenant", row.Group.Tenant, "group", row.Group.Name,
		"state", row.State, "reason", v.Why)
	if v.Event == fleet.EventReported {
		h.r.events.instance(h.r.cache, row.ID, "running")
		h.r.balancers.Touch(row.ID)
	}
	if v.Event == fleet.EventFoundSick {
		h.r.reportFailedLaunch(row, h.said(row.ID))
	}
	if v.Event == fleet.EventFoundSick && cameToNothing(row, h.r.now()) {
		h.r.reportNothing(row)
	}
	h.r.Enqueue(row.Group)
}

// cameToNothing reports whether an instance that was found sick had a VM, and that
// was of no use to anybody.
func cameToNothing(in cache.Instance, now time.Time) bool {
	return in.ProviderID != "" && fleet.CameToNothing(in.Instance, now)
}

// evidence is everything that the judgement of a row depends on.
func (h *health) evidence(in cache.Instance) fleet.Health {
	server := h.r.wanted.config().Server
	lag := h.r.opts.Driver.Lag()
	interval := server.HealthCheckInterval.Std()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of(in.ID)
	ev := fleet.Health{
		State: in.State, Power: in.Power, Verdict: in.Verdict, Created: in.Created, Lag: lag,
		CreatingUntil: in.Created.Add(server.RequestTimeout.Std() + lag),
		Registered:    !in.RegisteredAt.IsZero(),
		RegisterBy:    s.registerBy(in, server.GarbageCollection.RegistrationTimeout.Std(), h.r.now()),
		Connected:     s.connected, Lost: s.lost, LastReport: s.lastReport,
		Interval: interval, Single: s.single, Suspended: h.silences.suspended(), Doubted: h.silences.suspects[in.ID],
		Seen: s.presence, Looked: s.looked, Absent: s.absence(), Said: s.said,
	}
	if ev.LastReport.IsZero() {
		ev.LastReport = latest(h.began, in.RegisteredAt)
	}
	if !s.heard {
		ev.NotBefore = h.began.Add(max(3*interval, time.Minute))
	}
	switch {
	case s.waiting:
		ev.CreatingUntil = time.Time{}
	case !s.sent.IsZero():
		ev.Created, ev.CreatingUntil = s.sent, s.sent.Add(server.RequestTimeout.Std()+lag)
	}
	return ev
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// registerBy is until when the agent of an instance may register: for a while from when
// the provider was first seen to show the machine running, and never longer than its nonce
// lives.
func (s *signs) registerBy(in cache.Instance, timeout time.Duration, now time.Time) time.Time {
	if s.running.IsZero() && in.ProviderStatus == string(driver.Running) {
		s.running = now
	}
	by := in.NonceExpires
	if end := s.running.Add(timeout); !s.running.IsZero() && end.Before(by) {
		by = end
	}
	return by.Add(identity.NonceLeeway)
}
