package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/refusal"
	"nstance.dev/server/shard"
)

// network carries calls and streams between the parts of a world, and knows which
// directions are cut.
type network struct {
	w *world

	mu    sync.Mutex
	cuts  map[[2]string]time.Time // until when nothing passes from the first to the second
	whole time.Time               // when heal was called; zero: never
}

func newNetwork(w *world) *network { return &network{w: w, cuts: map[[2]string]time.Time{}} }

// sever cuts one direction for a while.
func (n *network) sever(from, to string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]string{from, to}] = time.Now().Add(d)
}

// heal ends every cut.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts, n.whole = map[[2]string]time.Time{}, time.Now()
}

// joined is since when nothing is cut any more between two ends that are not cut off from
// each other now. Zero: it never was.
func (n *network) joined(a, b string) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	since := n.whole
	for _, way := range [][2]string{{a, b}, {b, a}} {
		if end := n.cuts[way]; end.After(since) {
			since = end
		}
	}
	return since
}

// cut reports whether nothing passes from one end to another. A cut of all agents
// is one of each.
func (n *network) cut(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	return now.Before(n.cuts[[2]string{from, to}]) || now.Before(n.cuts[[2]string{all(from), all(to)}])
}

// all is the name of all ends of a kind: that of machines has a slash in its name.
func all(end string) string {
	if strings.Contains(end, "/") {
		return theAgents
	}
	return end
}

// delay is how long the next message of a kind takes.
func (n *network) delay(what string) time.Duration {
	nth := n.w.weather.number(what)
	d := n.w.dice.between(200*time.Microsecond, 3*time.Millisecond, what, nth)
	if n.w.weather.hits(netSlow, what, nth) {
		d += n.w.dice.between(0, 5*time.Second, what, nth, "slow")
	}
	return d
}

// errUnknown says that a call may or may not have been carried out.
var errUnknown = errors.New("no answer")

// call makes one call of a client to the shard's leader, if the process leads. An
// error that matches errUnknown leaves open whether it was carried out.
func call[T any](w *world, from string, p *process, what string, do func(context.Context, *shard.Term) (T, error)) (T, error) {
	var none T
	what = from + " " + what + " " + p.box.name
	nth := w.weather.number(what)
	w.event("call %d: %s", nth, what)
	if err := pause(w.ctx, w.net.delay(what+" call")); err != nil {
		return none, err
	}
	if w.net.cut(from, p.box.name) || w.weather.hits(netLost, what, nth) {
		return none, errors.Join(errUnknown, pause(w.ctx, patience))
	}
	v, err := served(w, p, do)
	if errors.Is(err, errUnknown) {
		return none, err
	}
	if err := pause(w.ctx, w.net.delay(what+" answer")); err != nil {
		return none, err
	}
	if w.net.cut(p.box.name, from) || w.weather.hits(netMute, what, nth) {
		return none, errors.Join(errUnknown, pause(w.ctx, patience))
	}
	return v, err
}

// callTime is how long a client waits for an answer.
const callTime = 30 * time.Second

// served carries a call out at the process, which may be killed or stopped in the
// middle of it.
func served[T any](w *world, p *process, do func(context.Context, *shard.Term) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := context.WithTimeout(w.ctx, callTime)
	defer cancel()
	answered := make(chan answer, 1)
	w.calls.Go(func() {
		var a answer
		if a.err = p.may(ctx); a.err == nil {
			var term *shard.Term
			if term, a.err = p.shard.Term(); a.err == nil {
				a.v, a.err = do(ctx, term)
			}
		}
		if p.may(ctx) == nil {
			answered <- a
		}
	})
	select {
	case a := <-answered:
		if !isRefusal(a.err) {
			a.err = errors.Join(errUnknown, a.err)
		}
		return a.v, a.err
	case <-p.killed:
	case <-ctx.Done():
	}
	var none T
	return none, errUnknown
}

// isRefusal reports whether an answer is a definite one.
func isRefusal(err error) bool {
	var refused *refusal.Error
	return err == nil || errors.As(err, &refused) && refused.Code != refusal.Unavailable
}

func refusedWith(err error, code refusal.Code) bool {
	var refused *refusal.Error
	return errors.As(err, &refused) && refused.Code == code
}

// flow is one direction of a stream: messages arrive in order, each with a delay
// of its own. What meets a cut is lost, and all after it, as on a connection whose
// peer does not answer any more.
type flow[T any] struct {
	w        *world
	from, to string
	what     string
	ready    chan struct{} // has room for one

	mu      sync.Mutex
	queue   []T
	last    time.Time // when the last message arrives
	n       int
	stalled bool
	ended   bool // nothing comes after the queue
}

func newFlow[T any](w *world, from, to, what string) *flow[T] {
	return &flow[T]{w: w, from: from, to: to, what: what, ready: make(chan struct{}, 1)}
}

// send passes a message on, or the end of the flow.
func (f *flow[T]) send(v T, end bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.w.event("message %d: %s", f.n, f.what)
	at := time.Now().Add(f.w.net.delay(f.what))
	if !at.After(f.last) {
		at = f.last.Add(1)
	}
	f.last = at
	time.AfterFunc(time.Until(at), func() { f.arrive(v, end) })
}

func (f *flow[T]) arrive(v T, end bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stalled = f.stalled || f.w.net.cut(f.from, f.to); f.stalled {
		return
	}
	if end {
		f.ended = true
	} else {
		f.queue = append(f.queue, v)
	}
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *flow[T]) recv(ctx context.Context) (T, error) {
	for {
		if v, err, ok := f.take(); ok {
			return v, err
		}
		select {
		case <-f.ready:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (f *flow[T]) take() (v T, err error, ok bool) { //nolint:revive // the error is a value of the flow
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.queue) > 0:
		v, f.queue = f.queue[0], f.queue[1:]
		return v, nil, true
	case f.ended:
		return v, io.EOF, true
	default:
		return v, nil, false
	}
}

// stream is the stream of one agent with one process. Each side learns of its end
// for itself: from a keepalive, which both send.
type stream struct {
	w    *world
	m    *machine
	p    *process
	up   *flow[*nstancev1.AgentMessage]
	down *flow[*nstancev1.ServerMessage]

	server, agent       context.Context //nolint:containedctx // one for each side of a connection
	endServer, endAgent context.CancelFunc
}

// keepalive is how often a side asks for a sign of life; one that misses two is
// taken to be gone.
const keepalive = 10 * time.Second

func newStream(ctx context.Context, w *world, m *machine, p *process) *stream {
	nth := w.weather.number("stream " + m.name)
	what := fmt.Sprintf("%s stream %d", m.name, nth)
	s := &stream{
		w: w, m: m, p: p,
		up:   newFlow[*nstancev1.AgentMessage](w, m.end(), p.box.name, what+" up"),
		down: newFlow[*nstancev1.ServerMessage](w, p.box.name, m.end(), what+" down"),
	}
	s.server, s.endServer = context.WithCancel(w.ctx)
	s.agent, s.endAgent = context.WithCancel(ctx)
	w.calls.Go(func() { s.watch(what) })
	return s
}

// watch is the keepalive of both sides. A machine that loses its power says
// nothing; a process that is killed has its connections reset. The agent finds out
// also where the server has ended the stream, and the word of that was lost.
func (s *stream) watch(what string) {
	missed := 0
	if pause(s.w.ctx, s.w.dice.between(0, keepalive, what, "keepalive")) != nil {
		return
	}
	for s.server.Err() == nil || s.agent.Err() == nil {
		gone := s.agent.Err() != nil
		open := !s.w.net.cut(s.up.from, s.up.to) && !s.w.net.cut(s.down.from, s.down.to)
		if missed++; open && !gone && !s.p.stuck() {
			missed = 0
		}
		if missed > 2 {
			s.w.weather.note("half-open")
			s.endAgent()
			if !s.p.stuck() {
				s.endServer()
			}
		}
		if open && s.server.Err() != nil {
			s.endAgent() // what it sends now is refused: nobody holds that connection
		}
		select {
		case <-s.p.killed:
			s.end()
		case <-time.After(keepalive):
		}
	}
}

func (s *stream) end() {
	s.endServer()
	s.endAgent()
}

// Context is the server's side, as are Recv and Send.
func (s *stream) Context() context.Context { return s.server }

// Recv is what arrives at the server.
func (s *stream) Recv() (*nstancev1.AgentMessage, error) {
	msg, err := s.up.recv(s.server)
	if err == nil {
		err = s.p.may(s.server, s.up.what)
	}
	return msg, err
}

// Send is what the server says.
func (s *stream) Send(msg *nstancev1.ServerMessage) error {
	if err := s.p.may(s.server, s.down.what); err != nil {
		return err
	}
	s.down.send(msg, false)
	return nil
}
