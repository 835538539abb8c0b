package rpc

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/lease"
	"nstance.dev/server/operatorapi"
	"nstance.dev/server/refusal"
)

func registrationAddr(a lease.Addrs) string { return a.Registration }
func agentAddr(a lease.Addrs) string        { return a.Agent }
func operatorAddr(a lease.Addrs) string     { return a.Operator }

// guard stands before every call of a listener: it finds out who calls, whether
// the caller may, and whether this server is the one to ask; and it turns what
// comes out into what the caller may see.
type guard struct {
	opts    Options
	service string                   // full name
	role    identity.Role            // of all callers; empty: they have no certificate
	addr    func(lease.Addrs) string // of this service, among the leader's

	refusals *refusalLog // that are in the log
}

// agentOf returns the agent that the guard has let in, which is not to be changed. Its
// stream stays for as long as the machine, so nothing but the connection remembers it.
func agentOf(ctx context.Context) *identity.Peer {
	if client := clientOf(ctx); client != nil {
		return &client.who
	}
	return &identity.Peer{}
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = g.panicked(ctx, info.FullMethod, r)
		}
		if err != nil {
			resp, err = nil, g.outward(ctx, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }, info.FullMethod, err)
		}
	}()
	admitted, err := g.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	return next(g.belowCaller(admitted), req)
}

// belowCaller is a context whose spans belong to the trace that an operator calls in, if it says
// so: what follows from a change in Kubernetes is one trace with it.
func (g *guard) belowCaller(ctx context.Context) context.Context {
	const traceParent = "traceparent"
	md, _ := metadata.FromIncomingContext(ctx)
	said := md.Get(traceParent)
	if g.role != identity.RoleOperator || len(said) != 1 {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: said[0]})
}

func (g *guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	ctx := stream.Context()
	defer func() {
		if r := recover(); r != nil {
			err = g.panicked(ctx, info.FullMethod, r)
		}
		if err != nil {
			err = g.outward(ctx, stream.SetTrailer, info.FullMethod, err)
		}
	}()
	admitted, err := g.admitAside(ctx, info.FullMethod)
	if err != nil {
		return err
	}
	if admitted != ctx {
		stream = &admittedStream{stream, admitted}
	}
	return next(srv, stream)
}

// admitAside is admit in a goroutine of its own. The one of a stream is there for
// as long as the stream, which may be the life of a machine, and its stack would
// keep the size that these calls need.
func (g *guard) admitAside(ctx context.Context, method string) (admitted context.Context, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = g.panicked(ctx, method, r)
			}
		}()
		admitted, err = g.admit(ctx, method)
	}()
	<-done
	return admitted, err
}

// admittedStream is a stream whose context knows the caller.
type admittedStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a stream carries its call's
}

func (s *admittedStream) Context() context.Context { return s.ctx }

func (g *guard) panicked(ctx context.Context, method string, reason any) error {
	g.opts.Log.ErrorContext(ctx, "call panicked", "method", method, "panic", reason, "stack", string(debug.Stack()))
	return refusal.ErrInternal
}

// admit returns the context of a call that may go on.
func (g *guard) admit(ctx context.Context, method string) (context.Context, error) {
	if strings.HasPrefix(method, "/"+healthv1.Health_ServiceDesc.ServiceName+"/") || g.role == "" {
		return ctx, nil
	}
	who, err := g.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	if who.Role == identity.RoleViewer && !viewing[method] {
		return nil, refusal.New(refusal.PermissionDenied, "READ_ONLY",
			"the certificate is one of a viewer, who may look and change nothing; this needs one of an operator")
	}
	c := &operatorapi.Caller{Peer: who}
	if !clusterWide[method] || !g.opts.Operators.Leading() {
		if c.Term, err = g.opts.Shard.Term(); err != nil {
			return nil, err
		}
	}
	if !clusterWide[method] && !g.opts.Shard.Static().Config.HasTenant(who.Tenant) {
		return nil, refusal.New(refusal.PermissionDenied, "UNKNOWN_TENANT", "the tenant is not configured")
	}
	if g.role == identity.RoleAgent {
		return ctx, nil // see agentOf
	}
	if err := g.opts.Operators.Admit(ctx, who); err != nil {
		return nil, err
	}
	return operatorapi.WithCaller(ctx, c), nil
}

// viewing are the calls of those who may only look: what changes nothing, and the renewal
// of their own certificate. A call that is not in the list is refused to them, so that new
// ones are until somebody has thought about it.
var viewing = map[string]bool{
	nstancev1.OperatorService_RenewCertificate_FullMethodName:  true,
	nstancev1.OperatorService_GetConfigStatus_FullMethodName:   true,
	nstancev1.OperatorService_PlanConfig_FullMethodName:        true,
	nstancev1.OperatorService_ListGroups_FullMethodName:        true,
	nstancev1.OperatorService_CheckGroup_FullMethodName:        true,
	nstancev1.OperatorService_GetInstanceStatus_FullMethodName: true,
	nstancev1.OperatorService_ListInstances_FullMethodName:     true,
	nstancev1.OperatorService_GetServerInfo_FullMethodName:     true,
	nstancev1.OperatorService_Explain_FullMethodName:           true,
	nstancev1.OperatorService_GetDemand_FullMethodName:         true,
	nstancev1.OperatorService_ListHeldVMs_FullMethodName:       true,
	nstancev1.OperatorService_GetTenantStatus_FullMethodName:   true,
	nstancev1.OperatorService_GetOperation_FullMethodName:      true,
	nstancev1.OperatorService_WatchGroups_FullMethodName:       true,
	nstancev1.OperatorService_WatchInstances_FullMethodName:    true, // not as one who coordinates drains
	nstancev1.OperatorService_WatchErrors_FullMethodName:       true,
	nstancev1.OperatorService_WatchMachines_FullMethodName:     true,
}

// clusterWide are the calls that the cluster's leader answers, whether or not it
// leads a shard, and whatever tenants its own shard has.
var clusterWide = map[string]bool{
	nstancev1.OperatorService_RenewCertificate_FullMethodName: true,
}

// authenticate returns who calls, as the certificate of the handshake said.
// Connections outlive certificates, so the time is looked at for each call.
func (g *guard) authenticate(ctx context.Context) (identity.Peer, error) {
	client := clientOf(ctx)
	if client == nil {
		return identity.Peer{}, errNoCertificate
	}
	who, err := client.who, client.err
	if err == nil {
		if g.role == identity.RoleOperator {
			err = who.RequireOperates()
		} else {
			err = who.Require(g.role)
		}
	}
	var refused *refusal.Error
	switch {
	case errors.As(err, &refused):
		return who, err
	case errors.Is(err, identity.ErrRole):
		return who, refusal.New(refusal.PermissionDenied, "WRONG_ROLE", "%v", err)
	case err != nil:
		return who, refusal.New(refusal.Unauthenticated, "BAD_CERTIFICATE", "%v", err)
	case !g.opts.Now().Before(who.NotAfter):
		return who, refusal.ErrCertificateExpired
	case who.Cluster != g.opts.Cluster:
		return who, refusal.New(refusal.Unauthenticated, "BAD_CERTIFICATE", "the certificate is one of another cluster")
	}
	return who, nil
}
