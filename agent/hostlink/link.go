package hostlink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"nstance.dev/agent/hostlink/frame"
	"nstance.dev/agent/link"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Capability is what the agent says in hello while it knows a paver.
const Capability = "machine/v1"

// Prebuild is what a paver says in its hello that prepares machines in the background.
const Prebuild = "prebuild"

// Logs is what an agent says in its hello to the paver that passes logs on.
const Logs = "logs"

const (
	helloTimeout = 5 * time.Second  // for the paver's first message
	writeTimeout = 10 * time.Second // for one message to the paver
	firstPause   = time.Second      // before the next attempt to connect
	longestPause = 30 * time.Second
)

// Options are what a [Link] works with. Socket and Log are required.
type Options struct {
	Socket  string // path of the socket that the paver listens on
	Version string // of the agent's build
	Log     *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Dial connects to the socket and says whether its owner is to be believed; nil: it does
	// so for a unix socket.
	Dial func(ctx context.Context, path string) (net.Conn, error)
}

// Link is the connection to the paver of the host. It is safe for concurrent use.
type Link struct {
	opts Options
	news chan struct{} // has room for one: something has changed for the server
	push chan struct{} // has room for one: something has changed for the paver

	mu     sync.Mutex
	able   bool // a paver is connected
	status *nstancev1.MachineStatus
	logs   *nstancev1.MachineLogs // to be passed on; nil: there are none
	held   held
}

// New returns a link that is not connected; see [Link.Run].
func New(opts Options) *Link {
	if opts.Dial == nil {
		opts.Dial = dial
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Link{opts: opts, news: make(chan struct{}, 1), push: make(chan struct{}, 1)}
}

// Able reports whether a paver is connected.
func (l *Link) Able() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.able
}

// Status is the last report of the paver; nil: it has not reported. It must not be changed.
func (l *Link) Status() *nstancev1.MachineStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Logs are what the paver has the server store; nil: nothing. They must not be changed.
func (l *Link) Logs() *nstancev1.MachineLogs {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs
}

// News gets a value when what Able, Status or Logs return has changed. It has one reader.
func (l *Link) News() <-chan struct{} { return l.news }

// Deliver passes work on to the paver, now or when it is connected. What is in force is kept.
// It does not wait, and the work must not be changed afterwards.
func (l *Link) Deliver(w *nstancev1.MachineWork) {
	l.mu.Lock()
	taken := l.held.take(w)
	if s := w.GetLogsStored(); s != nil && s.GetOperationId() == l.logs.GetOperationId() {
		l.logs = nil
	}
	l.mu.Unlock()
	if !taken {
		l.opts.Log.Debug("work for another machine or of an unknown kind was ignored")
		return
	}
	signal(l.push)
}

// Run keeps the connection until ctx ends, and returns the reason of that.
func (l *Link) Run(ctx context.Context) error {
	pause := firstPause
	for {
		greeted, err := l.once(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if greeted {
			l.opts.Log.WarnContext(ctx, "connection to the paver ended", "error", err, "retry_in", firstPause.String())
			pause = firstPause
		} else {
			l.opts.Log.DebugContext(ctx, "no paver", "socket", l.opts.Socket, "error", err, "retry_in", pause.String())
		}
		if err := link.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

// once makes one connection and serves it to its end. It reports whether a paver was there.
func (l *Link) once(ctx context.Context) (greeted bool, err error) {
	conn, err := l.opts.Dial(ctx, l.opts.Socket)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // the end of it shows in reads and writes
	defer conn.Close()
	in := bufio.NewReader(conn)
	hello, err := l.greet(conn, in)
	if err != nil {
		return false, err
	}
	l.opts.Log.InfoContext(ctx, "connected to the paver", "paver_version", printable(hello.GetVersion()))
	l.setAble(true)
	defer l.setAble(false)
	prebuilds := slices.Contains(hello.GetCapabilities(), Prebuild)
	var reader sync.WaitGroup
	reader.Go(func() { cancel(l.receive(in, prebuilds)) })
	err = l.send(ctx, conn)
	cancel(err)
	_ = conn.Close() // the reader sees it
	reader.Wait()
	return true, err
}

// greet exchanges the first messages.
func (l *Link) greet(conn net.Conn, in io.Reader) (*nstancev1.HostlinkHello, error) {
	if err := conn.SetDeadline(l.opts.Now().Add(helloTimeout)); err != nil {
		return nil, err
	}
	err := frame.Write(conn, &nstancev1.AgentToPaver{Message: &nstancev1.AgentToPaver_Hello{Hello: &nstancev1.HostlinkHello{
		Version: l.opts.Version, Capabilities: []string{Logs},
	}}})
	if err != nil {
		return nil, fmt.Errorf("greet the paver: %w", err)
	}
	var first nstancev1.PaverToAgent
	if err := frame.Read(in, &first); err != nil {
		return nil, fmt.Errorf("hello of the paver: %w", err)
	}
	if first.GetHello() == nil {
		return nil, errors.New("hello of the paver: it said something else first")
	}
	return first.GetHello(), conn.SetDeadline(time.Time{})
}

// receive takes what the paver reports until the connection ends. That the paver prepares machines is
// said here and not by itself: an agent that does not relay that must not have it said of its host.
func (l *Link) receive(in io.Reader, prebuilds bool) error {
	for {
		var m nstancev1.PaverToAgent
		switch err := frame.Read(in, &m); {
		case errors.Is(err, frame.ErrMalformed):
			l.opts.Log.Warn("message of the paver was ignored", "error", err)
			continue
		case errors.Is(err, io.EOF):
			return errors.New("the paver closed the connection")
		case err != nil:
			return err
		}
		if logs := m.GetLogs(); logs != nil {
			l.mu.Lock()
			l.logs = logs
			l.mu.Unlock()
			signal(l.news)
		}
		if status := m.GetStatus(); status != nil {
			status.Prebuilds = prebuilds
			l.mu.Lock()
			l.status = status
			l.held.reported(status)
			l.mu.Unlock()
			signal(l.news)
		}
	}
}

// send passes on what is in force, and what comes, until ctx ends. It returns why.
func (l *Link) send(ctx context.Context, conn net.Conn) error {
	var t told
	for {
		l.mu.Lock()
		work, then := l.held.next(t)
		l.mu.Unlock()
		if work == nil {
			select {
			case <-l.push:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := conn.SetWriteDeadline(l.opts.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if err := frame.Write(conn, &nstancev1.AgentToPaver{Message: &nstancev1.AgentToPaver_Work{Work: work}}); err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		t = then
	}
}

// setAble notes whether a paver is connected. What one has reported is not the report of
// the next.
func (l *Link) setAble(able bool) {
	l.mu.Lock()
	l.able, l.status, l.logs = able, nil, nil
	l.mu.Unlock()
	signal(l.news)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// dial connects to a unix socket whose owner is to be believed.
func dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn.(*net.UnixConn)); err != nil { //nolint:forcetypeassert // of a dial to a unix socket
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), conn.Close())
	}
	return conn, nil
}

// printable cuts the paver's version down to what may stand in a log.
func printable(s string) string { return fmt.Sprintf("%.64q", s) }
