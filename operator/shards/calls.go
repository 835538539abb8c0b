package shards

import (
	"context"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

type api = nstancev1.OperatorServiceClient

// maxCalls is how many calls to one shard may be in flight.
const maxCalls = 32

// managerKey is the metadata in which we name ourselves as the manager of groups.
const managerKey = "nstance-manager"

// method is a call and how long it may take.
type method struct {
	name    string
	timeout time.Duration
	serial  bool // one at a time for each group
}

// The methods.
var (
	methodGetServerInfo      = method{"GetServerInfo", 10 * time.Second, false}
	methodListGroups         = method{"ListGroups", 15 * time.Second, false}
	methodListInstances      = method{"ListInstances", 15 * time.Second, false}
	methodUpsertGroup        = method{"UpsertGroup", 15 * time.Second, true}
	methodDeleteGroup        = method{"DeleteGroup", 15 * time.Second, true}
	methodCreateInstance     = method{"CreateInstance", 30 * time.Second, false}
	methodDeleteInstance     = method{"DeleteInstance", 30 * time.Second, true}
	methodGetInstanceStatus  = method{"GetInstanceStatus", 10 * time.Second, false}
	methodAcknowledgeDrained = method{"AcknowledgeDrained", 10 * time.Second, false}
	methodRenewCertificate   = method{"RenewCertificate", 30 * time.Second, false}
	methodPutAssignment      = method{"PutAssignment", 30 * time.Second, false} // it may be a megabyte
	methodDeleteAssignment   = method{"DeleteAssignment", 15 * time.Second, false}
	methodConfirmNode        = method{"ConfirmNode", 15 * time.Second, false}
	methodPutPrebuild        = method{"PutPrebuild", 30 * time.Second, false} // as the assignment
	methodSetHold            = method{"SetHold", 15 * time.Second, false}
	methodClearHold          = method{"ClearHold", 15 * time.Second, false}
	methodStartOperation     = method{"StartOperation", 15 * time.Second, false}
	methodGetOperation       = method{"GetOperation", 10 * time.Second, false}
	methodCancelOperation    = method{"CancelOperation", 10 * time.Second, false}
)

var (
	errNotConnected = status.Error(codes.Unavailable, "not connected")
	errEndless      = status.Error(codes.Internal, "the list of instances has no end")
	errForeign      = status.Error(codes.Internal, "the answer is about what belongs to another tenant")
)

// UpsertGroup creates or changes a group.
func (s *Shard) UpsertGroup(ctx context.Context, req *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error) {
	reply, err := change(ctx, s, methodUpsertGroup, about{group: req.GetKey()}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.GroupStatus, error) {
		return api.UpsertGroup(ctx, req, o...)
	})
	if err == nil && !s.ours(reply.GetTenant()) {
		return nil, s.failure(ctx, methodUpsertGroup, errForeign)
	}
	return reply, err
}

// DeleteGroup lets a group drain to zero. A group that is unknown there is no error.
func (s *Shard) DeleteGroup(ctx context.Context, req *nstancev1.DeleteGroupRequest) error {
	_, err := change(ctx, s, methodDeleteGroup, about{group: req.GetKey()}, func(ctx context.Context, api api, o ...grpc.CallOption) (any, error) {
		return api.DeleteGroup(ctx, req, o...)
	})
	return unless(NotFound, err)
}

// CreateInstance starts one on-demand instance, which must have an id: only then may the
// call be repeated.
func (s *Shard) CreateInstance(ctx context.Context, req *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	if req.GetInstanceId() == "" {
		return nil, s.failure(ctx, methodCreateInstance, status.Error(codes.InvalidArgument, "instance_id is missing; make one, so that a repetition makes no second instance"))
	}
	return change(ctx, s, methodCreateInstance, about{req.GetConfig().GetGroup(), req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.CreateInstanceResponse, error) {
		return api.CreateInstance(ctx, req, o...)
	})
}

// DeleteInstance condemns an instance of a group.
func (s *Shard) DeleteInstance(ctx context.Context, group string, req *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error) {
	return change(ctx, s, methodDeleteInstance, about{group, req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.DeleteInstanceResponse, error) {
		return api.DeleteInstance(ctx, req, o...)
	})
}

// GetInstanceStatus returns one instance.
func (s *Shard) GetInstanceStatus(ctx context.Context, id string) (*nstancev1.InstanceStatus, error) {
	reply, err := change(ctx, s, methodGetInstanceStatus, about{instance: id}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.InstanceStatus, error) {
		return api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: id}, o...)
	})
	if err == nil && !s.ours(reply.GetTenant()) {
		return nil, s.failure(ctx, methodGetInstanceStatus, errForeign)
	}
	return reply, err
}

// AcknowledgeDrained says that the work has left an instance. One that is gone is no error.
func (s *Shard) AcknowledgeDrained(ctx context.Context, req *nstancev1.AcknowledgeDrainedRequest) error {
	_, err := change(ctx, s, methodAcknowledgeDrained, about{instance: req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (any, error) {
		return api.AcknowledgeDrained(ctx, req, o...)
	})
	return unless(NotFound, err)
}

// RenewCertificate asks for a new certificate over a public key, PEM. The class of the
// error is [Elsewhere] unless this shard's leader leads the cluster too.
func (s *Shard) RenewCertificate(ctx context.Context, publicKeyPEM []byte) (*nstancev1.RenewCertificateResponse, error) {
	return change(ctx, s, methodRenewCertificate, about{}, func(ctx context.Context, api api, o ...grpc.CallOption) (*nstancev1.RenewCertificateResponse, error) {
		return api.RenewCertificate(ctx, &nstancev1.RenewCertificateRequest{PublicKeyPem: publicKeyPEM}, o...)
	})
}

// traced are the calls that have a span: those that change something. Of the others there are
// many, and nobody asks why they were made.
var traced = []string{
	methodUpsertGroup.name, methodDeleteGroup.name, methodCreateInstance.name, methodDeleteInstance.name, methodAcknowledgeDrained.name,
	methodPutAssignment.name, methodDeleteAssignment.name, methodConfirmNode.name,
	methodPutPrebuild.name, methodSetHold.name, methodClearHold.name, methodStartOperation.name, methodCancelOperation.name,
}

// tracing returns the options of a connection whose calls have spans, and tell the server the
// trace that they belong to.
func tracing(traces trace.TracerProvider) []grpc.DialOption {
	if traces == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(
		otelgrpc.WithTracerProvider(traces), otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool { return slices.Contains(traced, path.Base(call.FullMethodName)) }),
	))}
}

// unless makes an error of a class a success.
func unless(class Class, err error) error {
	if ClassOf(err) == class {
		return nil
	}
	return err
}

// about is what a call is about, as far as it is about one thing: the key of a group, in
// turn with whose other calls it is made, and the id of an instance.
type about struct{ group, instance string }

// attr is what a log says of it; an empty group leaves nothing.
func (a about) attr() slog.Attr {
	var all []slog.Attr
	if a.group != "" {
		all = append(all, slog.String("group", a.group))
	}
	if a.instance != "" {
		all = append(all, slog.String("instance", a.instance))
	}
	return slog.GroupAttrs("", all...)
}

// change carries out a call over the present connection, in turn with others about the
// same group.
func change[R any](ctx context.Context, s *Shard, m method, of about, do func(context.Context, api, ...grpc.CallOption) (R, error)) (R, error) {
	var none R
	if m.serial {
		unlock, err := s.keys.lock(ctx, of.group)
		if err != nil {
			return none, s.failure(ctx, m, status.FromContextError(err).Err())
		}
		defer unlock()
	}
	c := s.current()
	if c == nil {
		return none, s.failure(ctx, m, s.unconnected())
	}
	return invoke(ctx, s, c, m, of, do)
}

// invoke carries out a call over a connection, and draws conclusions from its answer.
func invoke[R any](ctx context.Context, s *Shard, c *session, m method, of about, do func(context.Context, api, ...grpc.CallOption) (R, error)) (R, error) {
	var none R
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return none, s.failure(ctx, m, status.FromContextError(ctx.Err()).Err())
	}
	defer func() { <-s.slots }()
	if !c.begin() {
		return none, s.failure(ctx, m, errNotConnected)
	}
	defer c.finish()
	callCtx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	if s.opts.Manager != "" {
		callCtx = metadata.AppendToOutgoingContext(callCtx, managerKey, s.opts.Manager)
	}
	began := s.opts.Now()
	var trailer metadata.MD
	reply, err := do(callCtx, c.api, grpc.Trailer(&trailer))
	code, took := status.Code(err).String(), s.opts.Now().Sub(began)
	s.opts.Observer.call(s.name, m.name, code, took)
	s.opts.Log.LogAttrs(ctx, slog.LevelDebug, "call", slog.String("method", m.name), of.attr(), slog.String("code", code), slog.String("took", took.String()))
	if err == nil {
		s.applySessionEvent(c, Answered{})
		return reply, nil
	}
	failed := s.failure(ctx, m, c.why.Of(err))
	s.conclude(c, failed, trailer)
	return none, failed
}

func (s *Shard) failure(ctx context.Context, m method, err error) *Error {
	return newError(ctx, s.opts.Now(), s.name, m.name, err)
}

// conclude lets the state know of a failure, and leaves a server that leads no more.
func (s *Shard) conclude(c *session, failure *Error, trailer metadata.MD) {
	if failure.Class == Ended {
		return
	}
	if failure.Class == Unimplemented {
		s.applySessionEvent(c, Lacks{failure.Method})
	}
	event := eventOf(failure.Class, failure.Err)
	leader := leaderOf(trailer)
	s.point(leader)
	if failure.Reason == reasonNotLeader || leader != "" {
		s.applyFinalEvent(c, event)
		return
	}
	s.applySessionEvent(c, event)
	if _, failed := event.(Failed); failed && failure.Method != methodListGroups.name {
		c.relistNow(groupList) // shows soon whether it was this call alone
	}
}

// keyedLock lets one caller at a time have a key. The zero value is ready.
type keyedLock struct {
	mu   sync.Mutex
	held map[string]*keyHold
}

type keyHold struct {
	turn  chan struct{} // holds one token while the key is taken
	users int           // holders and waiters
}

func (l *keyedLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*keyHold{}
	}
	h := l.held[key]
	if h == nil {
		h = &keyHold{turn: make(chan struct{}, 1)}
		l.held[key] = h
	}
	h.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
