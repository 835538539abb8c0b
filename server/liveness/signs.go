package liveness

import (
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// signs is what is known of one instance besides its row. Its methods take note of one thing
// each; what follows from all of them, [signs.evidence] hands to the judge.
type signs struct {
	running    time.Time // when the provider was first seen to show the machine running
	connected  bool
	single     bool
	lost       time.Time // when the stream broke without a goodbye
	lastReport time.Time
	heard      bool // of by this leader
	reported   bool // to this leader
	notice     fleet.Notice
	looked     time.Time
	presence   fleet.Presence
	said       string         // why the VM does not run, in the provider's words
	absent     *fleet.Absence // nil: no observation
	waiting    bool           // its create waits to be sent by this leader
	sent       time.Time      // when this leader last sent its create, or had the answer that it is made
	due        time.Time      // the valid entry in the heap
}

// absence is the run of observations that the VM is not there.
func (s *signs) absence() fleet.Absence {
	if s.absent == nil {
		return fleet.Absence{}
	}
	return *s.absent
}

// connect notes that the agent's stream is up. A leader that has not heard of the agent
// before counts its reports from here, not from the take-over (F32).
func (s *signs) connect(now time.Time) {
	s.connected, s.heard, s.lost, s.absent = true, true, time.Time{}, nil
	if s.lastReport.IsZero() {
		s.lastReport = now
	}
}

// disconnect notes that the stream ended; graceful: the agent said goodbye.
func (s *signs) disconnect(graceful bool, now time.Time) {
	s.connected = false
	if !graceful {
		s.lost = now
	}
	if s.single {
		s.lastReport = now
	}
}

// report notes a report, the only one of this agent if single. It says whether it is the
// first to this leader, and whether the instance was in good standing before.
func (s *signs) report(single bool, now time.Time) (first, settled bool) {
	first, settled = !s.reported, s.heard && !s.due.IsZero() && s.lost.IsZero()
	s.lastReport, s.heard, s.reported, s.single, s.lost = now, true, true, single, time.Time{}
	return first, settled
}

// give notes that the provider takes the VM back. Only the first notice is news, and one
// with an earlier deadline.
func (s *signs) give(notice fleet.Notice) (news bool) {
	if news = !s.notice.Given() || notice.Sooner(s.notice); news {
		s.notice = notice
	}
	return news
}

// create notes that the create waits to be sent, or is sent now.
func (s *signs) create(waiting bool, now time.Time) {
	if s.waiting = waiting; !waiting {
		s.sent = now
	}
}

// see notes what the provider showed of the machine when it was asked at the given time, and
// why the machine does not run, if it said so. An answer that was overtaken by a later one
// says nothing.
func (s *signs) see(power fleet.Power, said string, asked time.Time) {
	if asked.Before(s.looked) {
		return
	}
	s.looked, s.absent, s.presence, s.said = asked, nil, fleet.PresenceUp, ""
	if power == fleet.Down {
		s.presence, s.said = fleet.PresenceDown, said
	}
}

// miss notes that the provider did not show the machine when it was asked at the given time,
// and reports whether it counts as gone. An answer that was overtaken by one that shows the
// machine says nothing.
func (s *signs) miss(by fleet.Source, asked, sent time.Time, lag time.Duration) (gone bool) {
	if s.absent == nil && asked.Before(s.looked) {
		return false
	}
	s.looked = latest(s.looked, asked)
	absent := s.absence().Missed(by, asked, sent, lag)
	s.absent = &absent
	return absent.Confirmed()
}

// evidence is what the judgement of a row depends on, but for the brake on mass silence.
// Began is when the leader's term did.
func (s *signs) evidence(in cache.Instance, set Settings, began, now time.Time) fleet.Health {
	ev := fleet.Health{
		State: in.State, Power: in.Power, Verdict: in.Verdict, Created: in.Created, Lag: set.Lag,
		CreatingUntil: in.Created.Add(set.RequestTimeout + set.Lag),
		Registered:    !in.RegisteredAt.IsZero(),
		RegisterBy:    s.registerBy(in, set.RegistrationTimeout, now),
		Connected:     s.connected, Lost: s.lost, LastReport: s.lastReport,
		Interval: set.ReportInterval, Single: s.single,
		Hold: in.Hold, Seen: s.presence, Looked: s.looked, Absent: s.absence(), Said: s.said,
	}
	if ev.LastReport.IsZero() {
		ev.LastReport = latest(began, in.RegisteredAt)
	}
	if !s.heard {
		ev.NotBefore = began.Add(max(3*set.ReportInterval, time.Minute))
	}
	switch {
	case s.waiting:
		ev.CreatingUntil = time.Time{}
	case !s.sent.IsZero():
		ev.Created, ev.CreatingUntil = s.sent, s.sent.Add(set.RequestTimeout+set.Lag)
	}
	return ev
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

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
