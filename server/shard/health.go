package shard

import (
	"strings"
	"sync"
	"time"
	"unicode"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// health collects the signs of life of every instance and has them judged: when
// one changes, and when time alone may change the verdict.
type health struct {
	r *Reign

	mu    sync.Mutex
	signs map[identity.ID]*signs
	due   dueHeap
	asks  map[identity.ID]struct{} // to ask the provider about
	wake  chan struct{}            // due or asks changed; has room for one

	began    time.Time // of the reign
	silences silences
}

// signs is what is known of one instance besides its row.
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

func newHealth(r *Reign) *health {
	return &health{
		r: r, signs: map[identity.ID]*signs{}, asks: map[identity.ID]struct{}{}, wake: make(chan struct{}, 1),
		silences: silences{suspects: map[identity.ID]time.Time{}},
	}
}

// begin starts the clock: nobody is late because of the change of leader.
func (h *health) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = h.r.now()
}

// takeOver starts the clock anew once everything is known, however long that has
// taken, and has everybody judged.
func (h *health) takeOver() {
	h.begin()
	for _, in := range h.r.cache.All() {
		h.judge(in.ID)
	}
}

func (h *health) of(id identity.ID) *signs {
	s := h.signs[id]
	if s == nil {
		s = &signs{}
		h.signs[id] = s
	}
	return s
}

func (h *health) forget(id identity.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.signs, id)
	delete(h.asks, id)
}

// connected notes that an agent's stream is up. A leader that has not heard of
// the agent before counts its reports from here, not from the take-over (F32).
func (h *health) connected(id identity.ID) {
	now := h.r.now()
	h.change(id, func(s *signs) {
		s.connected, s.heard, s.lost, s.absent = true, true, time.Time{}, nil
		if s.lastReport.IsZero() {
			s.lastReport = now
		}
	})
}

// disconnected notes the end of the stream. Unless the agent said goodbye, the
// provider is asked at once.
func (h *health) disconnected(id identity.ID, graceful bool) {
	now := h.r.now()
	h.change(id, func(s *signs) {
		s.connected = false
		if !graceful {
			s.lost = now
		}
		if s.single {
			s.lastReport = now
		}
	})
	if row, ok := h.r.instances.Known(id); ok && !graceful && row.State.Leaving() {
		h.askSoon(id) // it is not judged any more, and its drain may be over
	}
}

// reported notes an accepted report. It is the hot path: an instance in good
// standing costs a look-up and nothing else.
func (h *health) reported(id identity.ID, single bool) {
	h.mu.Lock()
	s := h.of(id)
	settled, first := s.heard && !s.due.IsZero() && s.lost.IsZero(), !s.reported
	s.lastReport, s.heard, s.reported, s.single, s.lost = h.r.now(), true, true, single, time.Time{}
	h.mu.Unlock()
	if first {
		h.firstReport(id)
	}
	if row, ok := h.r.cache.Instance(id); !settled || !ok || row.State != fleet.Running {
		h.judge(id)
	}
	if first {
		h.r.balancers.Touch(id)
	}
}

// hasReported reports whether this leader has had a report of the instance.
func (h *health) hasReported(id identity.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.signs[id]
	return s != nil && s.reported
}

// registered notes that an agent has registered.
func (h *health) registered(id identity.ID) {
	h.change(id, func(s *signs) { s.lastReport = h.r.now() })
}

// creating notes that a create waits to be sent, or is sent now.
func (h *health) creating(id identity.ID, waiting bool) {
	now := h.r.now()
	h.change(id, func(s *signs) {
		if s.waiting = waiting; !waiting {
			s.sent = now
		}
	})
}

// created notes that the provider says that it has made the machine. Whoever lacked it
// before has looked too early, whenever the answer came.
func (h *health) created(id identity.ID) {
	now := h.r.now()
	h.change(id, func(s *signs) {
		s.waiting, s.sent, s.absent = false, now, nil
	})
}

// sent is when the instance's create was last sent, or answered; the creation of its
// record where this leader has done neither.
func (h *health) sent(in cache.Instance) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.signs[in.ID]; s != nil && !s.sent.IsZero() {
		return s.sent
	}
	return in.Created
}

// seen notes what the provider showed of a machine when it was asked at the
// given time, and why the machine does not run, if it said so. An answer that was
// overtaken by a later one says nothing.
func (h *health) seen(row cache.Instance, said string, asked time.Time) {
	h.change(row.ID, func(s *signs) {
		if asked.Before(s.looked) {
			return
		}
		s.looked, s.absent, s.presence, s.said = asked, nil, fleet.PresenceUp, ""
		if row.Power == fleet.Down {
			s.presence, s.said = fleet.PresenceDown, providerWords(said)
		}
	})
}

// ended notes why the provider ended a machine that it still remembers.
func (h *health) ended(id identity.ID, said string) {
	if said == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(id).said = providerWords(said)
}

// providerWords bounds what a provider says of a machine: text of one line.
func providerWords(text string) string {
	const most = 512
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// said is why the VM of an instance does not run, in the provider's words.
func (h *health) said(id identity.ID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.signs[id]; s != nil {
		return s.said
	}
	return ""
}

// missing notes that the provider does not show a machine, as it was when it was asked
// at the given time: the answer may have taken longer than the machine took to be made.
// An answer that was overtaken by one that shows the machine says nothing.
func (h *health) missing(id identity.ID, by fleet.Source, asked time.Time) {
	row, ok := h.r.instances.Known(id)
	if !ok {
		return
	}
	sent, gone := h.sent(row), false
	h.change(id, func(s *signs) {
		if s.absent == nil && asked.Before(s.looked) {
			return
		}
		s.looked = latest(s.looked, asked)
		absent := s.absence().Missed(by, asked, sent, h.r.opts.Driver.Lag())
		s.absent, gone = &absent, absent.Confirmed()
	})
	if gone && row.State.Leaving() {
		h.noteGone(id)
	}
}

// noteGone notes that the VM of an instance that is leaving is not there any
// more: nothing is left to drain. Whoever deletes it finds out by itself.
func (h *health) noteGone(id identity.ID) {
	row, err := h.r.instances.Note(id, func(in *cache.Instance) error {
		in.Power = fleet.Gone
		return nil
	})
	if err == nil {
		h.r.Enqueue(row.Group)
	}
}

func (h *health) change(id identity.ID, edit func(*signs)) {
	h.mu.Lock()
	edit(h.of(id))
	h.mu.Unlock()
	h.judge(id)
}
