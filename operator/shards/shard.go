package shards

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Shard is one shard and the connection to it. It is safe for concurrent use.
type Shard struct {
	name  string
	opts  Options
	slots chan struct{} // a token for each call in flight
	keys  keyedLock
	// reconnect asks for a new connection.
	reconnect chan struct{}

	reportMu   sync.Mutex  // held while a status is replaced and reported, so that reports are in order
	graceTimer *time.Timer // fires when time alone changes the status; nil: it does not
	closed     bool        // nothing is reported any more

	mu         sync.Mutex
	target     Target
	status     Status
	session    *session // nil: not connected
	leaderHint string   // where a server has said that the leader is
}

func newShard(target Target, opts Options) *Shard {
	s := &Shard{
		name: target.Shard, opts: opts, target: target, status: NewStatus(opts.Now(), opts.Grace),
		slots: make(chan struct{}, maxCalls), reconnect: make(chan struct{}, 1),
	}
	s.opts.Log = opts.Log.With("shard", s.name)
	return s
}

// Name returns the shard's id.
func (s *Shard) Name() string { return s.name }

// Status returns what is known of the connection.
func (s *Shard) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// run keeps the shard connected until ctx ends. A connection is replaced only by one that
// has proved itself, so a new address or certificate costs no time without streams.
func (s *Shard) run(ctx context.Context) {
	s.observe(Tick{}) // sets the timer
	defer s.close()
	for failures := 0; ctx.Err() == nil; {
		next, err := s.connect(ctx)
		if ctx.Err() != nil {
			if next != nil {
				_ = next.cc.Close()
			}
			return
		}
		var class Class
		began := s.opts.Now()
		if err != nil {
			class, _ = Classify(err)
			s.connectFailed(class, err)
		} else {
			s.useSession(ctx, next)
			select {
			case <-ctx.Done():
				return
			case <-s.reconnect:
				continue
			case <-next.done:
				s.replace(nil)
				class = s.Status().Reason.class()
			}
		}
		if s.opts.Now().Sub(began) >= healthy {
			failures = 0
		}
		failures++
		timer := time.NewTimer(Pause(class, failures, s.opts.Random()))
		select {
		case <-ctx.Done():
		case <-s.reconnect:
			failures = 0
		case <-timer.C:
		}
		timer.Stop()
	}
}

// connectFailed records that a connection failed. One that works is kept unless the new one
// was refused: then what the configuration says is not so, and nothing more is to be done there.
func (s *Shard) connectFailed(class Class, err error) {
	s.opts.Log.Warn("connection failed", "class", string(class), "error", err)
	event, ok := eventOf(class, err).(Failed)
	if !ok {
		event = Failed{Reason: ReasonUnreachable, Message: words(err)}
	}
	if event.Reason == ReasonUnreachable && s.current() != nil {
		return
	}
	s.replace(nil)
	s.observe(event)
}

// useSession goes over to a connection: calls first, then the streams.
func (s *Shard) useSession(ctx context.Context, next *session) {
	s.replace(next)
	s.opts.Log.Info("connected", "address", next.address, "term", next.term())
	s.observe(Connected{Address: next.address, Version: next.info.GetVersion(), Term: next.term(), Missing: unnamed(next.info), ConfigDigest: next.info.GetConfigDigest()})
	if next.info == nil {
		s.observe(Lacks{methodGetServerInfo.name})
	}
	s.start(ctx, next)
}

// replace takes a session in, and ends the one before.
func (s *Shard) replace(next *session) {
	s.mu.Lock()
	old := s.session
	s.session = next
	s.mu.Unlock()
	if old != nil {
		old.stop()
	}
}

// close ends everything at once.
func (s *Shard) close() {
	s.mu.Lock()
	live := s.session
	s.session = nil
	s.mu.Unlock()
	if live != nil {
		_ = live.cc.Close()
		live.stop()
	}
	s.reportMu.Lock()
	defer s.reportMu.Unlock()
	s.closed = true
	if s.graceTimer != nil {
		s.graceTimer.Stop()
	}
}

// observe lets an event count, whatever the connection.
func (s *Shard) observe(e Event) { s.applyEvent(e, func() bool { return true }) }

// applySessionEvent lets an event count that came over a session. One that the shard has left,
// or that nobody listens to any more, says nothing about the shard: its answers do not make it
// Ready, and its end does not harm the session after it.
func (s *Shard) applySessionEvent(c *session, e Event) {
	s.applyEvent(e, func() bool { return s.session == c && !c.ended() })
}

// applyFinalEvent is applySessionEvent for the last time: the session ends with the event, so
// that no answer which is on its way makes it look alive.
func (s *Shard) applyFinalEvent(c *session, e Event) {
	s.applyEvent(e, func() bool {
		counts := s.session == c && !c.ended()
		c.end()
		return counts
	})
}

// applyEvent lets an event count if it still does, which is asked under mu. A shard that becomes
// unreachable is left: what it says later is believed over a new connection only.
func (s *Shard) applyEvent(e Event, counts func() bool) {
	s.reportMu.Lock()
	defer s.reportMu.Unlock()
	now := s.opts.Now()
	s.mu.Lock()
	if s.closed || !counts() {
		s.mu.Unlock()
		return
	}
	before := s.status
	after := before.Next(e, now)
	s.status = after
	live := s.session
	s.mu.Unlock()
	s.schedule(after.Due(), now)
	if !after.differs(before) {
		return
	}
	s.opts.Log.Debug("state changed", "state", string(after.State), "reason", string(after.Reason))
	s.opts.Sink.StateChanged(s.name, after)
	if after.State == Unreachable && live != nil {
		live.end()
	}
}

// schedule sets the timer for the moment at which time alone changes the status.
func (s *Shard) schedule(due, now time.Time) {
	if s.graceTimer != nil {
		s.graceTimer.Stop()
		s.graceTimer = nil
	}
	if !due.IsZero() {
		s.graceTimer = time.AfterFunc(max(due.Sub(now), 0), func() { s.observe(Tick{}) })
	}
}

// current returns the session that calls go over, nil if there is none that lives.
func (s *Shard) current() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil || s.session.ended() {
		return nil
	}
	return s.session
}

// unconnected says why there is no connection.
func (s *Shard) unconnected() error {
	st := s.Status()
	if st.Message == "" {
		return errNotConnected
	}
	return status.Errorf(codes.Unavailable, "not connected: %s", st.Message)
}

// move gives the shard other addresses; it connects again if they differ.
func (s *Shard) move(target Target) {
	s.mu.Lock()
	same := slices.Equal(s.target.Addresses, target.Addresses)
	s.target = target
	s.mu.Unlock()
	if !same {
		s.redial()
	}
}

// redial asks for a new connection.
func (s *Shard) redial() {
	select {
	case s.reconnect <- struct{}{}:
	default:
	}
}

// point notes where the leader is said to be, if not "".
func (s *Shard) point(leader string) {
	if leader == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaderHint = leader
}

// addresses returns where to look for the leader, the likeliest place first. What a server
// has said about it is used once.
func (s *Shard) addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var queue []string
	if s.leaderHint != "" {
		queue = append(queue, s.leaderHint)
		s.leaderHint = ""
	}
	if slices.Contains(s.target.Addresses, s.status.Address) {
		queue = append(queue, s.status.Address)
	}
	return append(queue, s.target.Addresses...)
}
