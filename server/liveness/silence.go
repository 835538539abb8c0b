package liveness

import (
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// censusPause is the least time between two looks at the whole shard.
const censusPause = time.Second

// silences is what the brake on mass silence is decided from. The monitor's lock guards it.
type silences struct {
	brake    fleet.Silence
	suspects map[identity.ID]time.Time // when each fell silent
	changed  bool                      // since the last census
	counted  time.Time                 // when that was
	grace    time.Time                 // until then reports that were held up may still arrive
}

// suspended is until when nobody is found sick for missing reports.
func (s *silences) suspended() time.Time { return latest(s.brake.Until(), s.grace) }

// note takes an instance in among the suspects, or out. It reports whether that is news.
func (s *silences) note(id identity.ID, suspect bool, now time.Time) bool {
	if _, before := s.suspects[id]; before == suspect {
		return false
	}
	s.changed = true
	if suspect {
		s.suspects[id] = now
	} else {
		delete(s.suspects, id)
	}
	return true
}

// next is when to look at the whole shard: now, or later; zero: when one falls silent or
// comes back.
func (s *silences) next(now time.Time) time.Time {
	if s.brake.Since.IsZero() && (!s.changed || len(s.suspects) == 0) {
		return time.Time{}
	}
	return latest(now, s.counted.Add(censusPause))
}

// set puts the brake on or off. Taken off before its time, reports that were held up have an
// interval to arrive.
func (s *silences) set(to fleet.Silence, interval time.Duration, now time.Time) {
	if to.Since.IsZero() && now.Before(s.brake.Until()) {
		s.grace = now.Add(interval + interval/10)
	}
	s.brake = to
}

// noteSilence keeps account of who is suspect. It goes by the row as it stands: a
// row may change between a verdict and its note, and whoever comes last is right.
func (m *Monitor) noteSilence(id identity.ID, now time.Time) {
	m.mu.Lock()
	row, _ := m.opts.Cache.Instance(id)
	news := m.silences.note(id, row.State == fleet.Suspect, now)
	m.mu.Unlock()
	if news {
		m.poke()
	}
}

// weighSilence looks whether most agents fell silent at once, and says when to look
// again; zero: when one falls silent or comes back.
func (m *Monitor) weighSilence(now time.Time) time.Time {
	m.mu.Lock()
	s := &m.silences
	if at := s.next(now); !at.Equal(now) {
		m.mu.Unlock()
		return at
	}
	before := s.brake
	s.changed, s.counted = false, now
	m.mu.Unlock()

	after := before.Next(m.census(now), now)
	if after != before {
		m.brake(after, now)
	}
	return after.Until()
}

// census counts the registered instances of the shard, and those that are silent. Those on hold
// are silent on purpose, and say nothing about the others.
func (m *Monitor) census(now time.Time) fleet.Census {
	c := fleet.Census{Registered: m.opts.Cache.Count(func(in *fleet.Instance) bool { return in.State.Registered() && !in.Hold.InForce(now) })}
	interval := m.opts.Settings().ReportInterval
	fresh := now.Add(-interval - interval/10)
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, since := range m.silences.suspects {
		row, ok := m.opts.Cache.Instance(id)
		if !ok || row.State != fleet.Suspect {
			delete(m.silences.suspects, id) // it has been condemned, or has ended
			continue
		}
		if row.Hold.InForce(now) {
			continue
		}
		c.Silent++
		if !since.Before(fresh) {
			c.Fresh++
		}
	}
	return c
}

// brake puts the brake on or off. Off, whoever is silent is judged again: at once if
// it has been on for too long, else when those that are still on their way back had
// an interval to report.
func (m *Monitor) brake(to fleet.Silence, now time.Time) {
	interval := m.opts.Settings().ReportInterval
	m.mu.Lock()
	m.silences.set(to, interval, now)
	suspects := make([]identity.ID, 0, len(m.silences.suspects))
	for id := range m.silences.suspects {
		suspects = append(suspects, id)
	}
	m.mu.Unlock()
	if alarm := to.Alarm(); alarm != "" {
		m.opts.Log.Error("most agents fell silent at once", "silent", len(suspects), "reason", alarm)
	} else {
		m.opts.Log.Info("silent agents are judged again", "silent", len(suspects))
	}
	for _, id := range suspects {
		m.Judge(id)
	}
	m.opts.Changed(Change{Event: Silenced})
}

// Silence says why nobody is found sick for missing reports; empty: everybody is judged.
func (m *Monitor) Silence() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silences.brake.Alarm()
}
