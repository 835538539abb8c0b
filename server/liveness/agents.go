package liveness

import (
	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// Connected notes that an agent's stream is up.
func (m *Monitor) Connected(id identity.ID) {
	now := m.opts.Now()
	m.change(id, func(s *signs) { s.connect(now) })
}

// Disconnected notes the end of an agent's stream. Unless the agent said goodbye, the
// provider is asked at once. A stream may end after its instance, which was forgotten then.
func (m *Monitor) Disconnected(id identity.ID, graceful bool) {
	m.mu.Lock()
	if s := m.signs[id]; s != nil {
		s.disconnect(graceful, m.opts.Now())
	}
	m.mu.Unlock()
	m.Judge(id)
	if row, ok := m.opts.Instances.Known(id); ok && !graceful && row.State.Leaving() {
		m.AskSoon(id) // it is not judged any more, and its drain may be over
	}
}

// Reported notes an accepted report; single: the agent sends no other, and is judged by its
// stream. It is the hot path: an instance in good standing costs a look-up and nothing else.
func (m *Monitor) Reported(id identity.ID, single bool) {
	m.mu.Lock()
	first, settled := m.of(id).report(single, m.opts.Now())
	m.mu.Unlock()
	if row, ok := m.opts.Cache.Instance(id); !settled || !ok || row.State != fleet.Running {
		m.Judge(id)
	}
	if row, ok := m.opts.Instances.Known(id); first && ok {
		m.opts.Changed(Change{Event: FirstReport, Instance: row})
	}
}

// HasReported reports whether this leader has had a report of the instance.
func (m *Monitor) HasReported(id identity.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.signs[id]
	return s != nil && s.reported
}

// Registered notes that an agent has registered.
func (m *Monitor) Registered(id identity.ID) {
	now := m.opts.Now()
	m.change(id, func(s *signs) { s.lastReport = now })
}

// Notice takes note that the provider takes the VM back. An agent repeats the notice in each
// report; only the first one is told, and one with an earlier deadline (F34).
func (m *Monitor) Notice(id identity.ID, notice fleet.Notice) {
	m.mu.Lock()
	news := m.of(id).give(notice)
	m.mu.Unlock()
	row, ok := m.opts.Instances.Known(id)
	if !news || !ok {
		return
	}
	m.opts.Log.Warn("the provider takes a machine back", "instance", id, "tenant", row.Group.Tenant, "group", row.Group.Name,
		"action", notice.Action, "deadline", notice.Deadline)
	m.opts.Changed(Change{Event: Noticed, Instance: row})
}

// Heard adds to instances, in place, what this leader heard of their agents, and whether
// it has asked for their VMs yet; it returns them. It is lost with the leader: the agents
// tell it again, and any that is pending may have been asked for. One of which FoundSick is
// being told is shown as it was before: [Options.Changed] follows.
func (m *Monitor) Heard(ins []fleet.Instance) []fleet.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range ins {
		m.unannounced.hide(&ins[i])
		if s := m.signs[ins[i].ID]; s != nil {
			ins[i].Reported, ins[i].Notice, ins[i].Said = s.reported, s.notice, s.said
			if ins[i].State == fleet.Pending && s.waiting && s.sent.IsZero() {
				ins[i].Power = fleet.Unasked
			}
		}
	}
	return ins
}
