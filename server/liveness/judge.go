package liveness

import (
	"errors"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// Judge has one instance judged now and acts on the verdict: the state, a question to the
// provider, and the time of the next judgement. One that is leaving is not judged any more.
func (m *Monitor) Judge(id identity.ID) {
	for {
		row, ok := m.opts.Instances.Known(id)
		if !ok || row.State.Leaving() {
			return
		}
		now := m.opts.Now()
		m.noteSilence(id, now)
		verdict := fleet.Judge(m.evidence(row), now)
		m.schedule(id, verdict)
		if verdict.Event == 0 && verdict.Power == row.Power {
			return
		}
		after, err := m.note(row, verdict, now)
		if errors.Is(err, errMoved) {
			continue // judged on what no longer holds
		}
		if err == nil && after.State != row.State {
			m.noteSilence(id, now)
			m.announce(after, verdict)
		}
		return
	}
}

// note notes a verdict in the row that was judged, and has it told that the instance was found
// sick before any plan is made from that.
func (m *Monitor) note(row cache.Instance, v fleet.Verdict, now time.Time) (cache.Instance, error) {
	apply := func(in *cache.Instance) error { return applyVerdict(in, row.State, v, now) }
	if v.Event != fleet.EventFoundSick || row.State.Sick() {
		return m.opts.Instances.Note(row.ID, apply)
	}
	if !m.unannounced.begin(row) {
		return row, errMoved
	}
	after, err := m.opts.Instances.Note(row.ID, apply)
	if err == nil {
		m.opts.FoundSick(after, v.Why, now)
	}
	m.unannounced.end(row.ID, err == nil)
	return after, err
}

// errMoved says that the row changed while it was judged.
var errMoved = errors.New("instance changed meanwhile")

// applyVerdict updates a row, unless its state changed since it was judged.
func applyVerdict(in *cache.Instance, judged fleet.State, v fleet.Verdict, now time.Time) error {
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

func (m *Monitor) announce(row cache.Instance, v fleet.Verdict) {
	m.opts.Log.Info("health changed", "instance", row.ID, "tenant", row.Group.Tenant, "group", row.Group.Name,
		"state", row.State, "reason", v.Why)
	switch v.Event {
	case fleet.EventMissed:
		m.opts.Changed(Change{Event: Late, Instance: row})
	case fleet.EventReported:
		m.opts.Changed(Change{Event: Well, Instance: row})
	case fleet.EventFoundSick:
		m.opts.Changed(Change{Event: Sick, Instance: row, Said: m.said(row.ID)})
	}
}

// said is why the VM of an instance does not run, in the provider's words.
func (m *Monitor) said(id identity.ID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.signs[id]; s != nil {
		return s.said
	}
	return ""
}

// evidence is everything that the judgement of a row depends on.
func (m *Monitor) evidence(in cache.Instance) fleet.Health {
	set, now := m.opts.Settings(), m.opts.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	ev := m.of(in.ID).evidence(in, set, m.began, now)
	ev.Suspended, ev.Doubted = m.silences.suspended(), m.silences.suspects[in.ID]
	return ev
}
