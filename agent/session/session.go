package session

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/status"

	"nstance.dev/agent/cluster/handover"
	"nstance.dev/agent/credentials"
	"nstance.dev/agent/files"
	"nstance.dev/agent/hostlink"
	"nstance.dev/agent/interruption"
	"nstance.dev/agent/keys"
	"nstance.dev/agent/link"
	"nstance.dev/agent/report"
	"nstance.dev/agent/settings"
)

// heldFor is how long a stream must have lived for its end to count as the first failure.
// Two machines with one identity push each other out sooner than that; they slow down
// instead of starting afresh each time.
const heldFor = 10 * time.Second

// Options are what a [Session] is made of. Required are all up to Collector, and Report; Cluster, Host, Interruption, Now and Random may be nil.
type Options struct {
	// Version is that of this build.
	Version string
	// Credentials keeps certificate and configuration hash; Identity is what it holds now.
	Credentials *credentials.Dir
	Identity    credentials.Identity
	// Book has the addresses of the agent service.
	Book *link.Book
	// Dialer connects to them. The session sets server name and certificate.
	Dialer link.Dialer
	// Keys, Files and Collector do what the server asks for.
	Keys      *keys.Store
	Files     *files.Store
	Collector *report.Collector
	// Cluster hands over what makes the machine join a cluster; nil: it joins none.
	Cluster *handover.Handover
	// Host passes on what the server says of the host's node machine; nil: nothing is.
	Host *hostlink.Link
	// Interruption knows whether the cloud has announced the machine's end; nil: it never
	// does.
	Interruption *interruption.Watcher
	// Report says when to report.
	Report settings.Report
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Random returns numbers in [0, 1); nil: rand.Float64.
	Random func() float64
}

// Session is the agent's side of its conversation with the shard.
type Session struct {
	Options
	log      *slog.Logger
	renewal  renewal
	unknown  int  // messages of a kind that this agent does not know
	idleHost bool // the server has said that the instance has no node machine
}

// New returns a session, which starts nothing.
func New(o Options, log *slog.Logger) *Session {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Session{Options: o, log: log, renewal: renewal{due: o.Identity.RenewAt()}}
}

// Run keeps a stream open until ctx ends, says goodbye and returns the reason of ctx.
func (s *Session) Run(ctx context.Context) error {
	w := watch{lost: s.Now()}
	for {
		if err := s.waitWhileExpired(ctx); err != nil {
			return err
		}
		end := s.once(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !end.welcomed.IsZero() {
			s.Book.Worked()
		}
		if errors.Is(end.err, errReopen) {
			w = watch{lost: s.Now()}
			continue
		}
		if again := s.Book.Failed(end.leader); again && end.welcomed.IsZero() {
			s.log.InfoContext(ctx, "no stream to the server; trying another", "error", end.err)
			continue
		}
		pause := w.next(end, s.Now(), s.Random())
		s.log.WarnContext(ctx, "no stream to the server", "error", end.err, "code", status.Code(end.err).String(), "retry_in", pause.String())
		if err := link.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// waitWhileExpired holds a machine still whose certificate has ended: no server lets it in,
// and the shard replaces it. It looks again each minute, because the clock may have been wrong.
func (s *Session) waitWhileExpired(ctx context.Context) error {
	for told := false; s.Identity.Expired(s.Now()); told = true {
		if !told {
			s.log.ErrorContext(ctx, "certificate has expired; waiting to be replaced",
				"expired_at", s.Identity.Peer.NotAfter, "clock", s.Now())
		}
		if err := link.Sleep(ctx, time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// ending says how a stream ended.
type ending struct {
	err      error
	leader   string    // address that the server named as the leader's
	welcomed time.Time // zero: the stream was never welcome
}

// watch counts failures and the time without a stream.
type watch struct {
	failures int
	lost     time.Time // since when there has been no stream
}

// next records the end of a stream and returns the pause before the next attempt.
func (w *watch) next(end ending, now time.Time, random float64) time.Duration {
	if !end.welcomed.IsZero() {
		w.lost = now
		if now.Sub(end.welcomed) >= heldFor {
			w.failures = 0
		}
	}
	w.failures++
	return link.Reconnect(w.failures, now.Sub(w.lost), random)
}
