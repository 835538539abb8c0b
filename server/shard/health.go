package shard

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// registrationLeeway is added to a nonce's time: the clocks' difference that
// its verification allows.
const registrationLeeway = 30 * time.Second

// health collects the signs of life of every instance and has them judged: when
// one changes, and when time alone may change the verdict.
type health struct {
	r *Reign

	mu    sync.Mutex
	signs map[identity.ID]*signs
	due   dueHeap
	asks  map[identity.ID]struct{} // to ask the provider about
	wake  chan struct{}            // due or asks changed; has room for one

	began time.Time // of the reign
}

// signs is what is known of one instance besides its row.
type signs struct {
	connected  bool
	single     bool
	lost       time.Time // when the stream broke without a goodbye
	lastReport time.Time
	heard      bool // of by this leader
	looked     time.Time
	presence   fleet.Presence
	absent     fleet.Absence
	waiting    bool      // its create waits to be sent by this leader
	sent       time.Time // when this leader last sent its create
	due        time.Time // the valid entry in the heap
}

func newHealth(r *Reign) *health {
	return &health{r: r, signs: map[identity.ID]*signs{}, asks: map[identity.ID]struct{}{}, wake: make(chan struct{}, 1)}
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
		s.connected, s.heard, s.lost, s.absent = true, true, time.Time{}, fleet.Absence{}
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
	if row, ok := h.r.known(id); ok && !graceful && row.State.Leaving() {
		h.askSoon(id) // it is not judged any more, and its drain may be over
	}
}

// reported notes an accepted report. It is the hot path: an instance in good
// standing costs a look-up and nothing else.
func (h *health) reported(id identity.ID, single bool) {
	h.mu.Lock()
	s := h.of(id)
	settled := s.heard && !s.due.IsZero() && s.lost.IsZero()
	s.lastReport, s.heard, s.single, s.lost = h.r.now(), true, single, time.Time{}
	h.mu.Unlock()
	if row, ok := h.r.cache.Instance(id); !settled || !ok || row.State != fleet.Running {
		h.judge(id)
	}
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

// asked is when the instance's VM was last asked for; the creation of its record
// where this leader has not asked.
func (h *health) asked(in cache.Instance) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.signs[in.ID]; s != nil && !s.sent.IsZero() {
		return s.sent
	}
	return in.Created
}

// seen notes what the provider showed of a machine when it was asked at the
// given time. An answer that was overtaken by a later one says nothing.
func (h *health) seen(row cache.Instance, asked time.Time) {
	h.change(row.ID, func(s *signs) {
		if asked.Before(s.looked) {
			return
		}
		s.looked, s.absent, s.presence = asked, fleet.Absence{}, fleet.PresenceUp
		if row.Power == fleet.Down {
			s.presence = fleet.PresenceDown
		}
	})
}

// missing notes that the provider does not show a machine.
func (h *health) missing(id identity.ID, by fleet.Source) {
	row, ok := h.r.known(id)
	if !ok {
		return
	}
	now, asked, gone := h.r.now(), h.asked(row), false
	h.change(id, func(s *signs) {
		s.looked = now
		s.absent = s.absent.Missed(by, now, asked, h.r.opts.Driver.Lag())
		gone = s.absent.Confirmed()
	})
	if gone && row.State.Leaving() {
		h.noteGone(id)
	}
}

// noteGone notes that the VM of an instance that is leaving is not there any
// more: nothing is left to drain. Whoever deletes it finds out by itself.
func (h *health) noteGone(id identity.ID) {
	row, err := h.r.cache.Update(id, func(in *cache.Instance) error {
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

// judge has one instance judged now and acts on the verdict: the state, the
// group, a question to the provider, and the time of the next judgement. One
// that is leaving is not judged any more.
func (h *health) judge(id identity.ID) {
	for {
		row, ok := h.r.known(id)
		if !ok || row.State.Leaving() {
			return
		}
		now := h.r.now()
		verdict := fleet.Judge(h.evidence(row), now)
		h.schedule(id, verdict)
		if verdict.Event == 0 && verdict.Power == row.Power {
			return
		}
		after, err := h.r.cache.Update(id, func(in *cache.Instance) error {
			if err := sentence(in, row.State, verdict, now); err != nil {
				return err
			}
			if verdict.Event == fleet.EventFoundSick && !row.State.Sick() && neverJoined(*in) {
				h.r.breakers.failed(in.Group) // before anybody plans with the new state
			}
			return nil
		})
		if errors.Is(err, errMoved) {
			continue // judged on what no longer holds
		}
		if err == nil && after.State != row.State {
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
	}
	if v.Event == fleet.EventFoundSick && neverJoined(row) {
		h.r.reportCrashLoop(row)
	}
	h.r.Enqueue(row.Group)
}

// neverJoined reports whether an instance of a group had a VM that has not
// registered.
func neverJoined(in cache.Instance) bool {
	return !in.OnDemand && in.ProviderID != "" && in.RegisteredAt.IsZero()
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
		RegisterBy:    in.NonceExpires.Add(registrationLeeway),
		Connected:     s.connected, Lost: s.lost, LastReport: s.lastReport,
		Interval: interval, Single: s.single,
		Seen: s.presence, Looked: s.looked, Absent: s.absent,
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

// schedule notes when the instance is to be judged again, and whether the
// provider is to be asked.
func (h *health) schedule(id identity.ID, v fleet.Verdict) {
	h.mu.Lock()
	s := h.signs[id]
	if s == nil {
		h.mu.Unlock()
		return
	}
	if v.AskProvider {
		h.asks[id] = struct{}{}
	}
	earlierThanBefore := !v.Next.IsZero() && (s.due.IsZero() || v.Next.Before(s.due))
	if earlierThanBefore {
		s.due = v.Next
		heap.Push(&h.due, dueAt{v.Next, id})
	}
	h.mu.Unlock()
	if v.AskProvider || earlierThanBefore {
		h.poke()
	}
}

func (h *health) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run judges what falls due and asks the provider, until ctx ends.
func (h *health) run(ctx context.Context) {
	for {
		ids, next := h.ripe(h.r.now())
		for _, id := range ids {
			h.judge(id)
		}
		if asks := h.takeAsks(); len(asks) > 0 {
			h.ask(ctx, asks)
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-h.wake:
			timer.Stop()
		}
	}
}

// ripe takes the instances that are due, and says how long until the next.
func (h *health) ripe(now time.Time) ([]identity.ID, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []identity.ID
	for len(h.due) > 0 && !h.due[0].at.After(now) {
		d := heap.Pop(&h.due).(dueAt)
		if s := h.signs[d.id]; s != nil && s.due.Equal(d.at) {
			s.due = time.Time{}
			ids = append(ids, d.id)
		}
	}
	if len(h.due) == 0 {
		return ids, time.Hour
	}
	return ids, max(h.due[0].at.Sub(now), time.Millisecond)
}

// dueAt is one entry of the heap; it is valid while the signs name its time.
type dueAt struct {
	at time.Time
	id identity.ID
}

type dueHeap []dueAt

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dueHeap) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueHeap) Push(x any)        { *d = append(*d, x.(dueAt)) }
func (d *dueHeap) Pop() any {
	old := *d
	last := old[len(old)-1]
	*d = old[:len(old)-1]
	return last
}
