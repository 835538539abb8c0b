// Package socket is the paver's side of its conversation with the agent of its host, and with
// nstance-paver's own commands: a unix socket on which work comes in and reports go out, each
// message preceded by its length.
//
// Who may connect is checked by the kernel's word for who is at the other end: root, the paver's
// own user, and members of the socket's group. Errors and logs quote nothing of a message.
package socket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"nstance.dev/agent/hostlink"
	"nstance.dev/agent/hostlink/frame"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Path is where the socket is.
const Path = "/run/nstance/paver.sock"

const (
	helloTimeout = 5 * time.Second
	writeTimeout = 10 * time.Second
	reportEvery  = 30 * time.Second // a report is sent at least so often
	reportPause  = time.Second      // and at most so often
	mostPeers    = 8                // connections at once
)

// Paver takes work and says how it is.
type Paver interface {
	Take(ctx context.Context, w *nstancev1.MachineWork) error
	// Status is the last report, nil before the first, and a channel that is closed when there is a
	// newer one.
	Status() (*nstancev1.MachineStatus, <-chan struct{})
	// Logs are those that the agent is to pass on; nil: there are none. There is a newer report when there are newer ones.
	Logs() *nstancev1.MachineLogs
}

// Options are what a Server works with. Paver and Log are required.
type Options struct {
	Path    string // of the socket; [Path]
	Group   string // that may connect; empty, or unknown to the host: root alone
	Version string // of the paver's build
	Paver   Paver
	Log     *slog.Logger
	Now     func() time.Time // time.Now
}

// Listen makes the socket. One that another process has left is replaced; the paver's lock says
// that no other process listens.
func Listen(opts Options) (*Server, error) {
	if opts.Path == "" {
		opts.Path = Path
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Server{opts: opts, gid: -1}
	if opts.Group != "" {
		switch g, err := user.LookupGroup(opts.Group); {
		case err == nil:
			if s.gid, err = strconv.Atoi(g.Gid); err != nil {
				return nil, fmt.Errorf("group %s of the socket: %w", opts.Group, err)
			}
		case !errors.As(err, new(user.UnknownGroupError)):
			return nil, fmt.Errorf("group %s of the socket: %w", opts.Group, err)
		}
	}
	if err := os.Remove(opts.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: opts.Path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s.listener = listener
	mode := fs.FileMode(0o600)
	if s.gid >= 0 {
		mode = 0o660
		err = os.Chown(opts.Path, -1, s.gid)
	}
	if err := errors.Join(err, os.Chmod(opts.Path, mode)); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), listener.Close())
	}
	return s, nil
}

// Server serves the socket. Make one with [Listen].
type Server struct {
	opts     Options
	gid      int // of the group that may connect; -1: none
	listener *net.UnixListener
}

// Run serves connections until ctx ends. It is called once.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() }) // Accept says so
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(mostPeers + 1)
	g.Go(func() error {
		for {
			conn, err := s.listener.AcceptUnix()
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return fmt.Errorf("accept: %w", err)
			}
			if !g.TryGo(func() error { s.serve(ctx, conn); return nil }) {
				s.opts.Log.WarnContext(ctx, "connection refused", "reason", "there are too many")
				_ = conn.Close()
			}
		}
	})
	return g.Wait()
}

// serve has one conversation.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	if err := s.check(conn); err != nil {
		s.opts.Log.WarnContext(ctx, "connection refused", "reason", err)
		_ = conn.Close()
		return
	}
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // the end of it shows in reads and writes
	in := bufio.NewReader(conn)
	hello, err := s.greet(conn, in)
	if err == nil {
		s.opts.Log.DebugContext(ctx, "connected", "peer_version", fmt.Sprintf("%.64q", hello.GetVersion()))
		g.Go(func() error { return s.receive(ctx, in) })
		g.Go(func() error { return s.send(ctx, conn, slices.Contains(hello.GetCapabilities(), hostlink.Logs)) })
		err = g.Wait()
	}
	_ = conn.Close()
	s.opts.Log.DebugContext(ctx, "connection ended", "reason", err)
}

func (s *Server) greet(conn net.Conn, in io.Reader) (*nstancev1.HostlinkHello, error) {
	if err := conn.SetDeadline(s.opts.Now().Add(helloTimeout)); err != nil {
		return nil, err
	}
	var first nstancev1.AgentToPaver
	if err := frame.Read(in, &first); err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	if first.GetHello() == nil {
		return nil, errors.New("hello: it said something else first")
	}
	answer := &nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Hello{Hello: &nstancev1.HostlinkHello{
		Version: s.opts.Version, Capabilities: []string{hostlink.Prebuild},
	}}}
	if err := frame.Write(conn, answer); err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	return first.GetHello(), conn.SetDeadline(time.Time{})
}

// errClosed is why a conversation ends that the other side has ended.
var errClosed = errors.New("the other side closed the connection")

// receive takes work in.
func (s *Server) receive(ctx context.Context, in io.Reader) error {
	for {
		var m nstancev1.AgentToPaver
		switch err := frame.Read(in, &m); {
		case errors.Is(err, frame.ErrMalformed):
			s.opts.Log.WarnContext(ctx, "message ignored", "reason", err)
			continue
		case errors.Is(err, io.EOF):
			return errClosed
		case err != nil:
			return err
		}
		if w := m.GetWork(); w != nil {
			if err := s.opts.Paver.Take(ctx, w); err != nil {
				s.opts.Log.WarnContext(ctx, "work ignored", "reason", err)
			}
		}
	}
}

// send reports whenever there is news, and now and then. Logs are sent before the report that goes with them, once on a connection.
func (s *Server) send(ctx context.Context, conn net.Conn, takesLogs bool) error {
	var sent *nstancev1.MachineLogs
	for {
		status, changed := s.opts.Paver.Status()
		if status == nil { // an empty report would say that the host runs nothing
			if err := pause(ctx, changed, reportEvery); err != nil {
				return err
			}
			continue
		}
		if err := conn.SetWriteDeadline(s.opts.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if logs := s.opts.Paver.Logs(); takesLogs && logs != nil && logs != sent {
			if err := frame.Write(conn, &nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Logs{Logs: logs}}); err != nil {
				return err
			}
			sent = logs
		}
		if err := frame.Write(conn, &nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Status{Status: status}}); err != nil {
			return err
		}
		if err := pause(ctx, nil, reportPause); err != nil {
			return err
		}
		if err := pause(ctx, changed, reportEvery); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, news <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-news:
	case <-timer.C:
	}
	return nil
}

// check reports why the process at the other end may not connect.
func (s *Server) check(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return fmt.Errorf("find out who connects: %w", failed)
	case peer.Uid == 0 || int(peer.Uid) == os.Geteuid() || s.gid >= 0 && int(peer.Gid) == s.gid || s.member(peer.Uid):
		return nil
	}
	return fmt.Errorf("process %d of user %d is neither root nor in the group of the socket", peer.Pid, peer.Uid)
}

// member reports whether a user is in the socket's group beside its own.
func (s *Server) member(uid uint32) bool {
	if s.gid < 0 {
		return false
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	groups, err := u.GroupIds()
	return err == nil && slices.Contains(groups, strconv.Itoa(s.gid))
}
