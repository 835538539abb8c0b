package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"nstance.dev/agent/link"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const (
	// welcomeTimeout is the patience with a server that takes the stream and says nothing.
	welcomeTimeout = 10 * time.Second
	// goodbyeTimeout is how long the agent waits for the answer to its goodbye.
	goodbyeTimeout = 2 * time.Second
	// lookAgain bounds how long the loop sleeps, because moments are on the wall clock and
	// timers are not: a clock that was set, or a machine that was suspended, is noticed.
	lookAgain = 5 * time.Minute
)

var (
	errReopen    = errors.New("the certificate was renewed")
	errNoWelcome = fmt.Errorf("no welcome within %v", welcomeTimeout)
	errServerEnd = errors.New("the server ended the stream")
)

type client = grpc.BidiStreamingClient[nstancev1.AgentMessage, nstancev1.ServerMessage]

// stream is one stream, from the dial to its end.
type stream struct {
	session  *Session
	rpc      client
	arrivals chan arrival

	opened   time.Time
	welcomed time.Time // zero: not yet
	term     int64     // of the leader that welcomed last
	reports  reports
	cluster  bindings
	machine  machineStatus
	reopen   time.Time // when to open a new one; zero: not planned
	request  int       // number of the last submission of keys
}

// arrival is one result of receiving.
type arrival struct {
	message *nstancev1.ServerMessage
	err     error
}

// once opens a stream and serves it to its end. What was staged and not committed by then
// is discarded: the next stream brings it again.
func (s *Session) once(ctx context.Context) ending {
	addr, err := s.Book.Next()
	if err != nil {
		return ending{err: err}
	}
	// A copy: the connection may look at it when a renewal has replaced the identity.
	dialer, certificate := s.Dialer, s.Identity.Certificate
	dialer.ServerName, dialer.Certificate = s.Identity.ServerName(), &certificate
	conn, err := dialer.Dial(addr)
	if err != nil {
		return ending{err: err}
	}
	end := s.serve(ctx, conn)
	_ = conn.Close() // nothing waits on it any more
	if end.err != nil && !errors.Is(end.err, errReopen) {
		end.err = fmt.Errorf("stream to %s: %w", addr, end.err)
	}
	if err := s.Files.Discard(); err != nil {
		s.log.ErrorContext(ctx, "staged files were not discarded", "error", err)
	}
	return end
}

// serve runs one stream over conn. The stream outlives ctx by the time of a goodbye.
func (s *Session) serve(ctx context.Context, conn *grpc.ClientConn) ending {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	abort := context.AfterFunc(ctx, cancel) // while there is no stream to say goodbye on
	rpc, err := nstancev1.NewAgentServiceClient(conn).Connect(streamCtx)
	if !abort() {
		return ending{err: context.Cause(ctx)}
	}
	if err != nil {
		return ending{err: err}
	}
	defer limit(ctx, goodbyeTimeout, cancel)()

	st := &stream{
		session: s, rpc: rpc, arrivals: make(chan arrival),
		opened: s.Now(), reports: reports{setting: s.Report},
	}
	var receiver sync.WaitGroup
	receiver.Go(func() { st.receive(streamCtx) })
	err = st.run(ctx)
	cancel()
	receiver.Wait()
	return ending{err: err, leader: link.Leader(rpc.Trailer()), welcomed: st.welcomed}
}

// limit calls cancel when ctx has been over for d, so that a send which the server does not
// take cannot hold up the end. The returned function calls it off.
func limit(ctx context.Context, d time.Duration, cancel context.CancelFunc) (release func()) {
	var timer *time.Timer
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		timer = time.AfterFunc(d, cancel)
		close(set)
	})
	return func() {
		if !stop() {
			<-set
			timer.Stop()
		}
	}
}

// receive hands over what arrives, and the error that ends it, until ctx ends.
func (st *stream) receive(ctx context.Context) {
	defer close(st.arrivals)
	for {
		message, err := st.rpc.Recv()
		select {
		case st.arrivals <- arrival{message, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// run is the loop of a stream: an event, then everything that has become due.
func (st *stream) run(ctx context.Context) error {
	if err := st.hello(ctx); err != nil {
		return st.reason(err)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	news, host := st.session.news(), st.session.hostNews()
	for {
		timer.Reset(st.next().Sub(st.session.Now()))
		select {
		case <-ctx.Done():
			return st.goodbye(context.Cause(ctx))
		case a, open := <-st.arrivals:
			if !open || a.err != nil {
				return ended(a.err)
			}
			if err := st.handle(ctx, a.message); err != nil {
				return st.reason(err)
			}
		case <-news:
			news = nil
			st.reports.announce(st.session.Now())
		case <-host:
			if !st.welcomed.IsZero() {
				st.machine.hurry(st.session.Now())
			}
		case <-timer.C:
		}
		if err := st.act(ctx); errors.Is(err, errReopen) {
			return st.goodbye(err)
		} else if err != nil {
			return st.reason(err)
		}
	}
}

// next is the moment at which something becomes due.
func (st *stream) next() time.Time {
	if st.welcomed.IsZero() {
		return st.opened.Add(welcomeTimeout)
	}
	return earliest(st.session.Now().Add(lookAgain), st.reports.due, st.session.renewal.due, st.reopen, st.cluster.due, st.machine.due)
}

// act does what is due. Before the welcome that is only to lose patience.
func (st *stream) act(ctx context.Context) error {
	now := st.session.Now()
	switch {
	case st.welcomed.IsZero() && !now.Before(st.opened.Add(welcomeTimeout)):
		return errNoWelcome
	case st.welcomed.IsZero():
		return nil
	case !st.reopen.IsZero() && !now.Before(st.reopen):
		return errReopen
	}
	if st.reports.isDue(now) {
		if err := st.report(ctx, now); err != nil {
			return err
		}
	}
	if st.cluster.isDue(now) {
		if err := st.watchBinding(ctx, now); err != nil {
			return err
		}
	}
	if st.machine.isDue(now) {
		if err := st.watchHost(ctx, now); err != nil {
			return err
		}
	}
	if !now.Before(st.session.renewal.due) {
		return st.renew(now)
	}
	return nil
}

func (st *stream) send(m *nstancev1.AgentMessage) error {
	if err := st.rpc.Send(m); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// reason returns why sending failed: gRPC says io.EOF there, and the status comes with what
// is received.
func (st *stream) reason(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	for a := range st.arrivals {
		if a.err != nil {
			return ended(a.err)
		}
	}
	return err
}

// ended returns why nothing more is received. The error is nil where the agent itself had
// given the stream up.
func ended(err error) error {
	switch {
	case err == nil:
		return context.Canceled
	case errors.Is(err, io.EOF):
		return errServerEnd
	default:
		return err
	}
}

// goodbye half-closes the stream and waits for the server's answer, so that it has seen
// the goodbye before the connection closes. It returns why.
func (st *stream) goodbye(why error) error {
	if err := st.rpc.CloseSend(); err != nil {
		return why
	}
	timeout := time.NewTimer(goodbyeTimeout)
	defer timeout.Stop()
	for {
		select {
		case a, open := <-st.arrivals:
			if !open || a.err != nil {
				return why
			}
		case <-timeout.C:
			return why
		}
	}
}
