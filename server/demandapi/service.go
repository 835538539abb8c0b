package demandapi

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/protos/rollup"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/refusal"
)

// Version is the version of the contract that is spoken.
const Version = "v1alpha1"

// How long an operator may be silent before its hello, and leave one message unread.
const (
	helloTimeout = 10 * time.Second
	sendTimeout  = 30 * time.Second
)

// Why sessions end, or do not begin.
var (
	errNoGroup  = refusal.New(refusal.FailedPrecondition, "NO_DEMAND_GROUP", "no group of this shard is of mode demand")
	errWaits    = refusal.New(refusal.Unavailable, "DEMAND_MODE_NOT_READY", "the provider has not listed its machine types to this leader yet; try again")
	errNoHello  = refusal.New(refusal.InvalidArgument, "NO_HELLO", "the first message must be hello, and only the first")
	errSilent   = refusal.New(refusal.DeadlineExceeded, "NO_HELLO", "no hello within %s", helloTimeout)
	errReplaced = refusal.New(refusal.Aborted, "SESSION_REPLACED", "the cluster has opened another session")
	errSlow     = refusal.New(refusal.ResourceExhausted, "SESSION_TOO_SLOW", "the operator does not read; connect again for a new snapshot")
	errRevoked  = refusal.New(refusal.PermissionDenied, "UNKNOWN_OPERATOR", "the operator is no longer registered")
	errTermOver = refusal.New(refusal.Unavailable, "TERM_ENDED", "this server no longer leads the shard")
)

// Caller is who opens a session. It has been let in: its role, cluster and tenant are those of its
// certificate.
type Caller struct {
	identity.Peer
	// Link is the loop of the shard; nil: no group is of demand mode, or, with Waits, the mode has not begun yet.
	Link  demandloop.Link
	Waits bool
}

// Options are what a [Service] works with. All are required.
type Options struct {
	Caller func(context.Context) Caller
	// Attend returns what is closed once the record of an operator is deleted, which it follows
	// until ctx ends.
	Attend  func(ctx context.Context, id identity.ID) <-chan struct{}
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time
}

// Service serves sessions. It is safe for concurrent use; [New] makes one.
type Service struct {
	demandpb.UnimplementedShardServiceServer
	opts Options

	mu       sync.Mutex
	sessions map[string]*session // by tenant, that the loop has
}

// New returns the service.
func New(opts Options) *Service { return &Service{opts: opts, sessions: map[string]*session{}} }

// Session implements [demandpb.ShardServiceServer].
func (s *Service) Session(stream demandpb.ShardService_SessionServer) error {
	caller := s.opts.Caller(stream.Context())
	switch {
	case caller.Link == nil && caller.Waits:
		return errWaits
	case caller.Link == nil:
		return errNoGroup
	}
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	one := &session{
		service: s, stream: stream, caller: caller, end: end, joiner: rollup.NewJoiner(caller.Cluster), lane: newLane(),
		log: s.opts.Log.With("tenant", caller.Tenant, "operator", caller.ID),
	}
	one.outbox = newOutbox(func(kind string) { s.opts.Metrics.dropped.WithLabelValues(kind).Inc() })
	expiry := time.AfterFunc(caller.NotAfter.Sub(s.opts.Now()), func() { end(refusal.ErrCertificateExpired) })
	defer expiry.Stop()

	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				s.opts.Log.ErrorContext(ctx, "session panicked", "panic", r)
				done <- refusal.ErrInternal
			}
		}()
		done <- one.run(ctx)
	}()
	var err error
	select {
	case err = <-done:
		if err == nil || ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.opts.Attend(ctx, caller.ID):
		err = errRevoked
	case <-caller.Link.Done():
		err = errTermOver
	}
	end(err)
	one.closed(err)
	return err
}

// begin checks the first message of a session.
func (s *Service) begin(caller Caller, hello *demandpb.Hello) error {
	switch {
	case hello == nil:
		return errNoHello
	case hello.GetClusterId() != caller.Cluster || hello.GetTenant() != caller.Tenant:
		s.opts.Metrics.identities.Inc()
		s.opts.Log.Warn("session refused: hello does not agree with the certificate", "tenant", caller.Tenant, "operator", caller.ID)
		return refusal.New(refusal.PermissionDenied, "WRONG_IDENTITY", "cluster_id and tenant must be %q and %q, those of the certificate", caller.Cluster, caller.Tenant)
	case hello.GetProtocolVersion() != Version:
		return refusal.New(refusal.FailedPrecondition, "PROTOCOL_VERSION", "protocol_version: this server speaks %s", Version)
	case len(hello.GetOperatorInstance()) > longestName:
		return refusal.New(refusal.InvalidArgument, "INVALID_HELLO", "operator_instance: must be at most %d characters", longestName)
	}
	return nil
}

// connect makes a session that of its cluster, and ends the one that is in its place.
func (s *Service) connect(ctx context.Context, one *session, hello *demandpb.Hello) (demandloop.Snapshot, error) {
	able := func(name string) bool { return slices.Contains(hello.GetCapabilities(), name) }
	snapshot, err := one.caller.Link.Connect(ctx, one.caller.Tenant, demandloop.Hello{
		Instance: hello.GetOperatorInstance(), NodeReports: able("node-reports"), RefuseReclaim: able("refuse-reclaim"), CancelReclaim: able("cancel-reclaim"),
	}, one)
	if err != nil {
		return snapshot, err
	}
	s.mu.Lock()
	before := s.sessions[one.caller.Tenant]
	s.sessions[one.caller.Tenant] = one
	s.mu.Unlock()
	if before != nil {
		before.end(errReplaced)
	}
	s.opts.Metrics.sessions.Inc()
	return snapshot, nil
}

// disconnect forgets a session, but never its successor.
func (s *Service) disconnect(one *session) {
	s.mu.Lock()
	if s.sessions[one.caller.Tenant] == one {
		delete(s.sessions, one.caller.Tenant)
	}
	s.mu.Unlock()
	s.opts.Metrics.sessions.Dec()
	one.caller.Link.Disconnect(one.caller.Tenant, one)
}
