package agents

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/refusal"
)

// helloTimeout is how long an agent may take to say who it is (S22).
const helloTimeout = 10 * time.Second

// Conn is the server's side of one agent's connection. Send and Recv may be
// called at the same time, each by one goroutine.
type Conn interface {
	Send(*nstancev1.ServerMessage) error
	Recv() (*nstancev1.AgentMessage, error)
	Context() context.Context
}

// handler is what a stream needs of whoever serves it.
type handler interface {
	// handle deals with one message. An error ends the stream. Calls for one stream follow
	// each other.
	handle(s *stream, msg *nstancev1.AgentMessage) error
	// leads reports whether this server leads at this moment.
	leads() bool
	// room says that there is room in the queue again, where there was none.
	room(id identity.ID)
	// streamEnded says that a stream that was attached has ended, and why; nil: with a goodbye.
	streamEnded(s *stream, why error)
}

// stream is one agent's connection. While nothing happens it costs two goroutines with
// small stacks: the one of the call, and one that waits for a message. One that sends
// exists only while there is something to send.
type stream struct {
	id      identity.ID
	serial  string // of the certificate that opened the stream
	expires time.Time
	conn    Conn
	heard   heard // of the receiving goroutine

	offers offers

	serving atomic.Pointer[serving] // changes while mu is held

	entry sync.Mutex // held while the stream is attached or detached
	owner handler    // who has attached it; nil: nobody yet

	mu    sync.Mutex
	queue outbox
	limit *time.Timer // ends the stream: until hello, then with the certificate
	ended bool
	why   error
	done  chan struct{} // closed when ended
}

// offers is what the agent of a stream says that its machine can do, and what it said of that.
type offers struct {
	clusters membership
	machines builder
}

// heard is what an agent has said so far.
type heard struct {
	pace    pace
	greeted bool                  // hello was received
	count   int64                 // of its last report
	hash    unique.Handle[string] // of its last report: one text for all agents of a group
}

// serving says who serves a stream. It does not change; a stream gets another one.
type serving struct {
	by    *handler      // nil: nobody, the stream is parked
	ready chan struct{} // closed when messages may be handed to by, or another serving is there
}

func newStream(peer *identity.Peer, conn Conn, pace pace) *stream {
	s := &stream{
		id: peer.ID, serial: peer.Serial, expires: peer.NotAfter, conn: conn, heard: heard{pace: pace}, done: make(chan struct{}),
	}
	s.serving.Store(&serving{ready: make(chan struct{})})
	return s
}

// serve gives the stream to a handler, which may say something on it from now on. It is
// handed messages once the result is called.
func (s *stream) serve(by *handler) (unpark func()) {
	now := &serving{by: by, ready: make(chan struct{})}
	s.mu.Lock()
	before := s.serving.Swap(now)
	s.mu.Unlock()
	return func() {
		close(now.ready)
		if before.by == nil {
			close(before.ready)
		}
	}
}

// park keeps what the agent says from being acted on, and drops what was to be
// sent: it follows from the state and is derived again. A stream that has ended is
// not parked.
func (s *stream) park() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.serving.Store(&serving{ready: make(chan struct{})})
	s.queue.clear()
	return true
}

// hand hands one message of the agent to whoever serves the stream, once somebody does.
func (s *stream) hand(msg *nstancev1.AgentMessage) error {
	for {
		now := s.serving.Load()
		select {
		case <-now.ready:
		case <-s.done:
			return context.Canceled // nobody is told any more
		case <-s.conn.Context().Done():
			return s.conn.Context().Err()
		}
		if now.by != nil && s.serving.Load() == now {
			return (*now.by).handle(s, msg)
		}
	}
}

// receive takes one message of the agent, who half-closes in the end, and leaves the
// next one to another goroutine: what this one did has made its stack grow, and it
// may be long until there is more to do.
func (s *stream) receive() {
	msg, err := s.conn.Recv()
	if errors.Is(err, io.EOF) {
		s.finish(nil)
		return
	}
	if err == nil {
		err = s.awaitTurn(msg)
	}
	if err == nil {
		err = s.hand(msg)
	}
	if err != nil {
		s.finish(err)
		return
	}
	go s.receive()
}

// checkOwner refuses a message that speaks of another instance (S11).
func (s *stream) checkOwner(id string) error {
	if id != s.id.String() {
		return refusal.New(refusal.PermissionDenied, "FOREIGN_INSTANCE", "instance_id differs from the certificate's")
	}
	return nil
}

// awaitTurn waits until a message may be dealt with. It returns why the stream has ended
// if it ends before.
func (s *stream) awaitTurn(msg *nstancev1.AgentMessage) error {
	d := s.heard.pace.delay(msg)
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.done:
		return context.Canceled // nobody is told any more
	case <-s.conn.Context().Done():
		return s.conn.Context().Err()
	}
}

// end says why the stream came to its end, and tells its owner.
func (s *stream) end() error {
	s.mu.Lock()
	why := s.why
	s.mu.Unlock()
	s.entry.Lock()
	defer s.entry.Unlock()
	if s.owner != nil {
		s.owner.streamEnded(s, why)
	}
	return why
}

var (
	errNotLeader = &refusal.Error{Code: refusal.Unavailable, Reason: "NOT_LEADER", Message: "not shard leader"}
	errTermOver  = &refusal.Error{Code: refusal.Unavailable, Reason: "NOT_LEADER", Message: "this server no longer leads the shard"}
)

var errNoHello = refusal.New(refusal.DeadlineExceeded, "NO_HELLO", "no hello within %v", helloTimeout)

// endAfter lets the stream end after a while, for a reason, unless it is called
// again before.
func (s *stream) endAfter(d time.Duration, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit != nil {
		s.limit.Stop()
	}
	if !s.ended {
		s.limit = time.AfterFunc(d, func() { s.finish(why) })
	}
}

// finish ends the stream, once.
func (s *stream) finish(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.why = true, why
	s.queue.clear()
	if s.limit != nil {
		s.limit.Stop()
	}
	close(s.done)
}

// over reports whether the stream has ended.
func (s *stream) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// line is a stream as one handler of it speaks on it: nothing is taken from a handler that
// does not serve the stream (any more). Lines of the same two are equal.
type line struct {
	s  *stream
	by *handler
}

// Offer queues a message for the agent, and reports whether there was room. One
// that does not fit is not kept.
func (l line) Offer(msg *nstancev1.ServerMessage) bool {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.serving.Load().by != l.by {
		return false
	}
	fits, begin := s.queue.put(msg)
	if begin {
		go s.send()
	}
	return fits
}

// Room is how many more messages fit if they are small.
func (l line) Room() int {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.serving.Load().by != l.by {
		return 0
	}
	return s.queue.room()
}

// send sends what is queued, in order, and ends when nothing is left. Who was told that
// there is no room is woken then.
func (s *stream) send() {
	for {
		msg, by, starved := s.next()
		switch {
		case msg == nil:
			if starved {
				(*by).room(s.id)
			}
			return
		case !(*by).leads():
			continue // its term is over, and what it had to say with it
		}
		if err := s.conn.Send(msg); err != nil {
			s.finish(err)
			return
		}
	}
}

// next takes a message from the queue, and says who wants it sent; see [outbox.take].
func (s *stream) next() (msg *nstancev1.ServerMessage, by *handler, starved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	msg, starved = s.queue.take()
	by = s.serving.Load().by
	return msg, by, starved && !s.ended && by != nil
}
