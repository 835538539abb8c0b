package shard

import (
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// censusPause is the least time between two looks at the whole shard.
const censusPause = time.Second

// silences is what the brake on mass silence is decided from. The lock of health
// guards it.
type silences struct {
	brake    fleet.Silence
	suspects map[identity.ID]time.Time // when each fell silent
	changed  bool                      // since the last census
	counted  time.Time                 // when that was
	grace    time.Time                 // until then reports that were held up may still arrive
}

// suspended is until when nobody is found sick for missing reports.
func (s *silences) suspended() time.Time { return latest(s.brake.Until(), s.grace) }

// noteSilence keeps account of who is suspect. It goes by the row as it stands: a
// row may change between a verdict and its note, and whoever comes last is right.
func (h *health) noteSilence(id identity.ID, now time.Time) {
	h.mu.Lock()
	row, _ := h.r.cache.Instance(id)
	suspect := row.State == fleet.Suspect
	_, before := h.silences.suspects[id]
	if before != suspect {
		h.silences.changed = true
		if suspect {
			h.silences.suspects[id] = now
		} else {
			delete(h.silences.suspects, id)
		}
	}
	h.mu.Unlock()
	if before != suspect {
		h.poke()
	}
}

// weighSilence looks whether most agents fell silent at once, and says when to look
// again; zero: when one falls silent or comes back.
func (h *health) weighSilence(now time.Time) time.Time {
	h.mu.Lock()
	s := &h.silences
	before := s.brake
	switch {
	case before.Since.IsZero() && (!s.changed || len(s.suspects) == 0):
		h.mu.Unlock()
		return time.Time{}
	case now.Before(s.counted.Add(censusPause)):
		again := s.counted.Add(censusPause)
		h.mu.Unlock()
		return again
	}
	s.changed, s.counted = false, now
	h.mu.Unlock()

	after := before.Next(h.census(now), now)
	if after != before {
		h.brake(after, now)
	}
	return after.Until()
}

// census counts the registered instances of the shard, and those that are silent.
func (h *health) census(now time.Time) fleet.Census {
	c := fleet.Census{Registered: h.r.cache.Count(func(in *fleet.Instance) bool { return in.State.Registered() })}
	interval := h.r.wanted.config().Server.HealthCheckInterval.Std()
	fresh := now.Add(-interval - interval/10)
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, since := range h.silences.suspects {
		if row, ok := h.r.cache.Instance(id); !ok || row.State != fleet.Suspect {
			delete(h.silences.suspects, id) // it has been condemned, or has ended
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
func (h *health) brake(to fleet.Silence, now time.Time) {
	interval := h.r.wanted.config().Server.HealthCheckInterval.Std()
	h.mu.Lock()
	if to.Since.IsZero() && now.Before(h.silences.brake.Until()) {
		h.silences.grace = now.Add(interval + interval/10)
	}
	h.silences.brake = to
	suspects := make([]identity.ID, 0, len(h.silences.suspects))
	for id := range h.silences.suspects {
		suspects = append(suspects, id)
	}
	h.mu.Unlock()
	set(h.r.opts.Metrics.silence, to.Alarm() != "")
	if alarm := to.Alarm(); alarm != "" {
		h.r.log.Error("most agents fell silent at once", "silent", len(suspects), "reason", alarm)
	} else {
		h.r.log.Info("silent agents are judged again", "silent", len(suspects))
	}
	for _, id := range suspects {
		h.judge(id)
	}
	h.r.enqueueAll()
}

// silent says why nobody is found sick for missing reports; empty: everybody is judged.
func (h *health) silent() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silences.brake.Alarm()
}
