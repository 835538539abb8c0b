package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"nstance.dev/protos/identity"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/conns"
	"nstance.dev/server/demandapi"
	"nstance.dev/server/operatorapi"
)

// Server is one of the three listeners' services. It is safe for concurrent use.
type Server struct {
	grpc     *grpc.Server
	log      *slog.Logger
	conns    conns.Limits
	refusals *refusalLog
}

// serverOptions are the settings of a gRPC server with these limits.
func serverOptions(l limits, conf *tls.Config) []grpc.ServerOption {
	opts := []grpc.ServerOption{
		grpc.Creds(newCredentials(conf, l)),
		grpc.InTapHandle(admitCall),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxConcurrentStreams(l.streams),
		grpc.MaxRecvMsgSize(l.message),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingInterval, Timeout: pingTimeout, MaxConnectionIdle: l.idle, MaxConnectionAge: l.age,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	}
	if l.small {
		opts = append(opts,
			grpc.ReadBufferSize(0), grpc.WriteBufferSize(4<<10),
			grpc.StaticStreamWindowSize(64<<10), grpc.StaticConnWindowSize(64<<10), grpc.HeaderTableSize(0))
	}
	return opts
}

// NewRegistrationServer returns the service that gives newcomers their
// certificates. conf is as pki.ServerTLS makes it.
func NewRegistrationServer(opts Options, conf *tls.Config) *Server {
	opts.defaults()
	g := &guard{opts: opts, service: nstancev1.RegistrationService_ServiceDesc.ServiceName, addr: registrationAddr}
	s := newServer(g, registrationLimits, conf, opts.Connections.Registration)
	nstancev1.RegisterRegistrationServiceServer(s.grpc, newRegistration(opts))
	return s.complete(g)
}

// NewAgentServer returns the service of the agents' streams. conf is as
// pki.MutualTLS makes it.
func NewAgentServer(opts Options, conf *tls.Config) *Server {
	opts.defaults()
	g := &guard{opts: opts, service: nstancev1.AgentService_ServiceDesc.ServiceName, addr: agentAddr, role: identity.RoleAgent}
	s := newServer(g, agentLimits, conf, opts.Connections.Agent)
	nstancev1.RegisterAgentServiceServer(s.grpc, &agentService{opts: opts})
	return s.complete(g)
}

// NewOperatorServer returns the service of the operators. conf is as
// pki.MutualTLS makes it.
func NewOperatorServer(opts Options, conf *tls.Config) *Server {
	opts.defaults()
	g := &guard{opts: opts, service: nstancev1.OperatorService_ServiceDesc.ServiceName, addr: operatorAddr, role: identity.RoleOperator}
	s := newServer(g, operatorLimits, conf, opts.Connections.Operator)
	nstancev1.RegisterOperatorServiceServer(s.grpc, operatorapi.New(operatorapi.Options{
		Cluster: opts.Cluster, Shard: opts.ShardName, Version: opts.Version,
		Static: opts.Shard.Static, Operators: opts.Operators, Config: opts.Config, Log: opts.Log, Now: opts.Now,
		Held: opts.Held, Storage: opts.StorageCalls,
	}))
	demandpb.RegisterShardServiceServer(s.grpc, demandapi.New(demandapi.Options{
		Caller: demandCaller, Attend: opts.Operators.Attend, Metrics: opts.Metrics.demand, Log: opts.Log, Now: opts.Now,
	}))
	return s.complete(g)
}

// demandCaller is who opens a session of demand mode. It was let in as every operator is.
func demandCaller(ctx context.Context) demandapi.Caller {
	c := operatorapi.CallerOf(ctx)
	caller := demandapi.Caller{Peer: c.Peer}
	if c.Term != nil {
		caller.Link, caller.Waits = c.Term.Demand(), c.Term.DemandWaits()
	}
	return caller
}

// newServer makes a server with at most so many connections at once; 0: with any number.
func newServer(g *guard, l limits, conf *tls.Config, connections int) *Server {
	metrics := g.opts.Metrics.server
	g.refusals = newRefusalLog(g.opts.Now)
	opts := append(serverOptions(l, conf),
		grpc.ChainUnaryInterceptor(metrics.UnaryServerInterceptor(), g.unary),
		grpc.ChainStreamInterceptor(metrics.StreamServerInterceptor(), g.stream))
	return &Server{
		grpc: grpc.NewServer(opts...), log: g.opts.Log.With("service", g.service), refusals: newRefusalLog(g.opts.Now),
		conns: conns.Limits{Total: connections, PerSource: l.perSource, PerOwner: l.perOwner},
	}
}

// complete adds what every listener has beside its own service.
func (s *Server) complete(g *guard) *Server {
	healthv1.RegisterHealthServer(s.grpc, &healthService{opts: g.opts, service: g.service})
	if g.opts.Reflection {
		reflection.Register(s.grpc)
	}
	g.opts.Metrics.server.InitializeMetrics(s.grpc)
	return s
}

// Serve accepts connections on l, which it closes, until Stop. It returns nil
// then, else why it could not go on.
func (s *Server) Serve(l net.Listener) error {
	err := s.grpc.Serve(conns.Limit(newPaced(l), conns.Options{Limits: s.conns, Closed: s.closed}))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// closed notes that a connection was closed for a limit.
func (s *Server) closed(source netip.Addr, why conns.Reason) {
	if ok, missed := s.refusals.log(source); ok {
		s.log.Warn("connection closed", "source", source, "reason", string(why), "not_logged", missed)
	}
}

// Stop takes no new calls and waits for those under way until ctx ends; what is
// left then is cut off. Streams that have no end of their own are such a rest:
// they end by themselves if the shard's term has ended.
func (s *Server) Stop(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}
