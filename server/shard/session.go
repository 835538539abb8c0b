package shard

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unique"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/refusal"
)

// Bounds of one agent's stream (S22). What does not fit in the queue is not
// sent: it follows from the state and is derived again later.
const (
	helloTimeout  = 10 * time.Second
	queueMessages = 16
	queueBytes    = 8 << 20
)

// AgentStream is the server's side of one agent's stream. Send and Recv may be
// called at the same time, each by one goroutine.
type AgentStream interface {
	Send(*nstancev1.ServerMessage) error
	Recv() (*nstancev1.AgentMessage, error)
	Context() context.Context
}

// session is one agent's stream. While nothing happens it costs two goroutines with
// small stacks: the one of the call, and one that waits for a message. One that sends
// exists only while there is something to send.
type session struct {
	r       *Reign // changes while serving, entry and mu are held: each of them is enough to read it
	id      identity.ID
	serial  string // of the certificate that opened the stream
	expires time.Time
	stream  AgentStream
	greeted bool                  // hello was received; of the receiving goroutine
	process string                // boot id of the agent's process
	count   int64                 // of its last report
	hash    unique.Handle[string] // of its last report: one text for all agents of a group

	pace    pace       // of what the agent says; of the receiving goroutine
	serving sync.Mutex // held while a message is dealt with
	entry   sync.Mutex // held while the stream is entered among the sessions, or taken out

	mu      sync.Mutex
	queue   []*nstancev1.ServerMessage
	bytes   int
	sending bool
	starved bool          // something did not fit since the queue was last empty
	limit   *time.Timer   // ends the stream: until hello, then with the certificate
	parked  chan struct{} // closed when a reign takes the stream on; nil: one has it
	ended   bool
	why     error
	done    chan struct{} // closed when ended
}

// AdmitAgent reports whether a certificate's owner may open a stream: its
// instance is one of this shard and tenant, exists, and holds this certificate
// or the one before, with the key of its record. Any other certificate of an instance
// that lives is a sign of theft.
func (r *Reign) AdmitAgent(peer identity.Peer) error {
	row, ok := r.cache.Instance(peer.ID)
	switch {
	case peer.Cluster != r.opts.Cluster || peer.Shard != r.opts.Shard, !ok, row.Group.Tenant != peer.Tenant:
		return refusal.New(refusal.PermissionDenied, "UNKNOWN_INSTANCE", "the instance is not one of this shard")
	case !r.wanted.config().HasTenant(peer.Tenant):
		return refusal.New(refusal.PermissionDenied, "UNKNOWN_TENANT", "the tenant is not configured")
	case !row.DeletedAt.IsZero():
		return errDeleted
	case !recordedKey(row, peer):
		r.alarm(row, alarmForeignKey)
		return refusal.New(refusal.PermissionDenied, "CERTIFICATE_SUPERSEDED", "the certificate is not the instance's")
	case !r.ownsCertificate(row, peer):
		r.alarm(row, alarmSuperseded)
		return refusal.New(refusal.PermissionDenied, "CERTIFICATE_SUPERSEDED", "the certificate is not the instance's")
	}
	return nil
}

// Connect serves one agent's stream until it ends. Nil means that the agent has
// said goodbye. Nobody changes peer meanwhile.
//
// The goroutine of the call does nothing but wait until then: a stack that has
// grown hardly ever shrinks, and this one is kept for as long as the agent stays.
func (r *Reign) Connect(peer *identity.Peer, stream AgentStream) error {
	s := &session{r: r, id: peer.ID, serial: peer.Serial, expires: peer.NotAfter, stream: stream, done: make(chan struct{})}
	s.pace = newPace(r.wanted.config().Server.HealthCheckInterval.Std(), r.opts.Unpaced)
	go s.begin(peer)
	<-s.done
	return s.end()
}

// begin admits the agent and waits for what it has to say.
func (s *session) begin(peer *identity.Peer) {
	if err := s.r.AdmitAgent(*peer); err != nil {
		s.finish(err)
		return
	}
	s.endAfter(helloTimeout, errNoHello)
	go s.receive()
}

// end takes note of the end of the stream, and says why it came.
func (s *session) end() error {
	s.mu.Lock()
	why := s.why
	s.mu.Unlock()
	s.entry.Lock()
	defer s.entry.Unlock()
	s.r.parking.remove(s)
	if s.r.sessions.close(s) && s.r.ctx.Err() == nil {
		s.r.health.disconnected(s.id, why == nil)
		s.r.log.Info("agent disconnected", "instance", s.id, "graceful", why == nil)
	}
	return why
}

var (
	errNoHello = refusal.New(refusal.DeadlineExceeded, "NO_HELLO", "no hello within %v", helloTimeout)
	errExpired = refusal.New(refusal.Unauthenticated, "CERTIFICATE_EXPIRED", "the certificate has expired")
)

// endAfter lets the stream end after a while, for a reason, unless it is called
// again before.
func (s *session) endAfter(d time.Duration, why error) {
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
func (s *session) finish(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.why, s.queue = true, why, nil
	if s.limit != nil {
		s.limit.Stop()
	}
	close(s.done)
}

// over reports whether the stream has ended.
func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// receive takes one message of the agent, who half-closes in the end, and leaves the
// next one to another goroutine: what this one did has made its stack grow, and it
// may be long until there is more to do.
func (s *session) receive() {
	msg, err := s.stream.Recv()
	if errors.Is(err, io.EOF) {
		s.finish(nil)
		return
	}
	if err == nil {
		err = s.awaitTurn(msg)
	}
	if err == nil {
		err = s.attend(msg)
	}
	if err != nil {
		s.finish(err)
		return
	}
	go s.receive()
}

// handleSafely ends the stream where handling its message panics: one agent's
// message must not end the server.
func (s *session) handleSafely(msg *nstancev1.AgentMessage) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.r.log.Error("message of an agent panicked", "instance", s.id, "panic", p, "stack", string(debug.Stack()))
			err = refusal.New(refusal.Internal, "INTERNAL", "internal error")
		}
	}()
	return s.handle(msg)
}

// handle acts on one message. Members that this server does not know are left
// alone, for agents may be newer.
func (s *session) handle(msg *nstancev1.AgentMessage) error {
	hello := msg.GetHello()
	switch {
	case !s.greeted && hello == nil:
		return refusal.New(refusal.FailedPrecondition, "HELLO_EXPECTED", "the first message must be hello")
	case s.greeted && hello != nil:
		return refusal.New(refusal.FailedPrecondition, "SECOND_HELLO", "hello came twice")
	case hello != nil:
		return s.greet(hello)
	}
	switch m := msg.Message.(type) {
	case *nstancev1.AgentMessage_Report:
		return s.report(m.Report)
	case *nstancev1.AgentMessage_PublicKeys:
		return s.storeKeys(m.PublicKeys)
	case *nstancev1.AgentMessage_Renew:
		// Storage may take its time. The stream's end is known at once all the same.
		ctx := s.stream.Context()
		defer context.AfterFunc(ctx, func() { s.finish(ctx.Err()) })()
		return s.renew(m.Renew)
	}
	return nil
}

// checkOwner refuses a message that speaks of another instance (S11).
func (s *session) checkOwner(id string) error {
	if id != s.id.String() {
		return refusal.New(refusal.PermissionDenied, "FOREIGN_INSTANCE", "instance_id differs from the certificate's")
	}
	return nil
}

func (s *session) greet(hello *nstancev1.Hello) error {
	if err := s.checkOwner(hello.InstanceId); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	s.endAfter(s.expires.Sub(s.r.now()), errExpired)
	s.greeted, s.process = true, hello.BootId
	s.r.log.Info("agent connected", "instance", s.id, "agent_version", printable(hello.AgentVersion))
	s.introduce()
	return nil
}

// introduce tells the agent who leads and what is wanted of it.
func (s *session) introduce() {
	s.Offer(s.r.welcome())
	s.r.files.Greet(s.id, s)
}

// enter makes this the stream of its instance, unless either has ended since the
// stream was admitted: then nobody would take it out again (S13).
func (s *session) enter() error {
	s.entry.Lock()
	defer s.entry.Unlock()
	select {
	case <-s.done:
		return context.Canceled // nobody is told any more
	default:
	}
	if err := s.r.sessions.open(s); err != nil {
		return err
	}
	if _, ok := s.r.instances.Known(s.id); !ok {
		s.r.sessions.close(s)
		return errDeleted
	}
	s.r.health.connected(s.id)
	return nil
}

// welcome tells an agent what holds for it.
func (r *Reign) welcome() *nstancev1.ServerMessage {
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Welcome{Welcome: &nstancev1.Welcome{
		ServerVersion: r.opts.Version, Shard: r.opts.Shard, Term: int64(r.term),
		ReportInterval: durationpb.New(r.wanted.config().Server.HealthCheckInterval.Std()),
	}}}
}

// report takes a health report: the path that all agents are on all the time.
func (s *session) report(rep *nstancev1.HealthReport) error {
	if err := s.checkOwner(rep.InstanceId); err != nil {
		return err
	}
	if rep.Count != 0 && rep.Count <= s.count {
		return nil // it was sent before one that has arrived
	}
	s.count = rep.Count
	metrics, err := proto.Marshal(rep.Metrics)
	if err != nil {
		return refusal.New(refusal.InvalidArgument, "INVALID_REPORT", "metrics: they are not valid")
	}
	s.r.opts.Metrics.reports.Inc()
	s.hash = unique.Make(rep.ConfigHash)
	rep.ConfigHash = s.hash.Value()
	heard, notice := cache.Health{
		ReceivedAt: s.r.now(), Count: rep.Count, AgentVersion: printable(rep.Version), Uptime: printable(rep.Uptime),
		ConfigHash: printable(rep.ConfigHash), Metrics: metrics, Connected: true,
	}, noticeOf(rep.TerminationNotice)
	s.r.cache.UpdateHealth(s.id, func(h *cache.Health) {
		keepNotice(&heard, *h, notice)
		*h = heard
	})
	if notice.Given() {
		s.r.health.noticed(s.id, notice)
	}
	s.r.health.reported(s.id, rep.Count == 0)
	s.r.files.Heard(s.id, rep)
	return nil
}

// printable cuts text of an agent down to what may stand in a log or a status.
func printable(s string) string {
	const most = 64
	return strings.Map(func(c rune) rune { // no copy of what is clean, as it nearly always is
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s[:min(len(s), most)])
}

// Offer queues a message for the agent, and reports whether there was room. One
// that does not fit is not kept.
func (s *session) Offer(msg *nstancev1.ServerMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := proto.Size(msg)
	if s.ended || s.parked != nil {
		return false
	}
	if len(s.queue) >= queueMessages || s.bytes+size > queueBytes {
		s.starved = true
		return false
	}
	s.queue = append(s.queue, msg)
	s.bytes += size
	if !s.sending {
		s.sending = true
		go s.drain()
	}
	return true
}

// Room is how many more messages fit if they are small.
func (s *session) Room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.parked != nil {
		return 0
	}
	room := queueMessages - len(s.queue)
	s.starved = s.starved || room == 0
	return room
}

// drain sends what is queued, in order, and ends when nothing is left.
func (s *session) drain() {
	for {
		msg := s.next()
		if msg == nil {
			return
		}
		if !s.proves() {
			continue // the reign is over, and what it had to say with it
		}
		if err := s.stream.Send(msg); err != nil {
			s.finish(err)
			return
		}
	}
}

// next takes a message from the queue; nil: nothing is left. Who was told that
// there is no room is woken then.
func (s *session) next() *nstancev1.ServerMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.queue) == 0 {
		if s.starved && !s.ended {
			s.r.files.Wake(s.id)
		}
		s.sending, s.starved, s.queue, s.bytes = false, false, nil, 0
		return nil
	}
	msg := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.bytes -= proto.Size(msg)
	return msg
}
