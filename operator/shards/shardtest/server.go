package shardtest

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/identity"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Faults is what is wrong with a shard. The zero value: nothing.
type Faults struct {
	// Slow is how long every unary call takes before it is looked at.
	Slow time.Duration
	// LoseAnswers is how many of the next calls of a method are carried out and then
	// answered with Unavailable.
	LoseAnswers map[string]int
	// Refuse answers calls of a method, streams too, with an error; see [Refusal]. The
	// method "" means all.
	Refuse map[string]error
	// Lacks are methods that are not there, and abilities that GetServerInfo does not name.
	Lacks map[string]bool
	// Silent streams are opened and then say nothing, heartbeats included.
	Silent bool
	// NoHeartbeats leaves heartbeats out.
	NoHeartbeats bool
	// ClusterID and Shard are what GetServerInfo says instead of the truth.
	ClusterID, Shard string
	// NextPages are the tokens that lists of instances name in turn, for ever.
	NextPages []string
	// Tenant is whose groups and instances are, according to answers, instead of the caller's.
	Tenant string
}

// Refusal returns an error as servers answer it: a code with a reason for machines.
func Refusal(code codes.Code, reason, message string) error {
	st, err := status.New(code, message).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "nstance"})
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return st.Err()
}

// Call is a unary call that has arrived.
type Call struct {
	Method  string // such as UpsertGroup
	Tenant  string // of the caller's certificate; "" in a registration
	Manager string // in the metadata
	// TraceParent is the span that the call belongs to, as the W3C has it; empty: none.
	TraceParent string
	Request     proto.Message
}

// Serve starts a server of the shard at an address, in place of one that is there. It runs
// for the rest of the test, or until the returned function stops it as a crash would.
func (s *Shard) Serve(address string) (stop func()) {
	s.cluster.t.Helper()
	return s.serve(address, server{shard: s})
}

// ServeStandby does so with a server that leads nothing, and names the address of the
// leader, or none if it is empty.
func (s *Shard) ServeStandby(address, leader string) (stop func()) {
	s.cluster.t.Helper()
	return s.serve(address, server{s, true, leader})
}

// server is one server of a shard.
type server struct {
	shard   *Shard
	standby bool
	leader  string // that a standby names
}

// ServeOn starts a server of the shard on a listener of the caller's, such as a port for
// an operator that is a process of its own. It ends as that of [Shard.Serve] does, and the
// listener with it.
func (s *Shard) ServeOn(listener net.Listener) (stop func()) {
	s.cluster.t.Helper()
	stop = s.start(listener, server{shard: s})
	s.cluster.t.Cleanup(stop)
	return stop
}

func (s *Shard) serve(address string, as server) (stop func()) {
	c := s.cluster
	c.t.Helper()
	listener := bufconn.Listen(1 << 18)
	end := s.start(listener, as)
	c.mu.Lock()
	c.servers[address] = listener
	c.mu.Unlock()
	stop = func() {
		c.mu.Lock()
		if c.servers[address] == listener {
			delete(c.servers, address)
		}
		c.mu.Unlock()
		end()
	}
	c.t.Cleanup(stop)
	return stop
}

// start serves on a listener until the returned function is called, once or more often.
func (s *Shard) start(listener net.Listener, as server) (stop func()) {
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(s.cluster.serverTLS(s.name))),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 1, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(as.unary),
		grpc.StreamInterceptor(as.stream),
	)
	nstancev1.RegisterOperatorServiceServer(server, s)
	nstancev1.RegisterRegistrationServiceServer(server, registrar{shard: s})
	demandpb.RegisterShardServiceServer(server, s.demand)
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(listener) }) // ends with the server
	return sync.OnceFunc(func() {
		server.Stop()
		done.Wait()
	})
}

// Break sets what is wrong with the shard from now on; [Faults]{} mends it. Streams that
// are open go on; see [Shard.EndStreams].
func (s *Shard) Break(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// SetConfigDigest sets what the shard says its configuration is, with the next heartbeat.
// The empty one, at first, is that of a server which does not say.
func (s *Shard) SetConfigDigest(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.digest = digest
}

// Calls returns the unary calls that have arrived, in order.
func (s *Shard) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// OnCall has f called with every unary call from now on, when it arrives and before it is
// looked at. f must not wait, and must not call the shard.
func (s *Shard) OnCall(f func(Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onCall = append(s.onCall, f)
}

// Count returns how many calls of a method have arrived.
func (s *Shard) Count(method string) int {
	n := 0
	for _, c := range s.Calls() {
		if c.Method == method {
			n++
		}
	}
	return n
}

func (v server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	s, name := v.shard, method(info.FullMethod)
	s.mu.Lock()
	slow := s.faults.Slow
	message, _ := req.(proto.Message)
	call := Call{name, tenantOf(ctx), sent(ctx, "nstance-manager"), sent(ctx, "traceparent"), proto.Clone(message)}
	s.calls = append(s.calls, call)
	for _, f := range s.onCall {
		f(call)
	}
	s.mu.Unlock()
	if slow > 0 {
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-time.After(slow):
		}
	}
	if err := v.fault(ctx, name, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }); err != nil {
		return nil, err
	}
	reply, err := next(ctx, req)
	if err == nil && s.loses(name) {
		return nil, status.Error(codes.Unavailable, "the answer is lost")
	}
	s.mislabel(reply)
	return reply, err
}

// mislabel makes an answer name another tenant, if that is what is wrong.
func (s *Shard) mislabel(reply any) {
	s.mu.Lock()
	tenant := s.faults.Tenant
	s.mu.Unlock()
	if tenant == "" {
		return
	}
	switch r := reply.(type) {
	case *nstancev1.GroupStatus:
		r.Tenant = tenant
	case *nstancev1.InstanceStatus:
		r.Tenant = tenant
	case *nstancev1.ListGroupsResponse:
		for _, g := range r.GetGroups() {
			g.Tenant = tenant
		}
	case *nstancev1.ListInstancesResponse:
		for _, in := range r.GetInstances() {
			in.Tenant = tenant
		}
	}
}

func (v server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	s := v.shard
	if err := v.fault(stream.Context(), method(info.FullMethod), stream.SetTrailer); err != nil {
		return err
	}
	s.mu.Lock()
	silent := s.faults.Silent
	s.mu.Unlock()
	if silent {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return next(srv, stream)
}

// fault returns what is wrong with a call before it is looked at.
func (v server) fault(ctx context.Context, name string, trailer func(metadata.MD)) error {
	s := v.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults
	switch {
	case f.Lacks[name]:
		return Refusal(codes.Unimplemented, "NOT_OFFERED", name+" is not offered by this server")
	case f.Refuse[name] != nil:
		return f.Refuse[name]
	case f.Refuse[""] != nil:
		return f.Refuse[""]
	case v.standby:
		if v.leader != "" {
			trailer(metadata.Pairs(identity.LeaderTrailer, v.leader))
		}
		return Refusal(codes.Unavailable, "NOT_LEADER", "not shard leader")
	case name != "RegisterOperator" && tenantOf(ctx) == "":
		return Refusal(codes.Unauthenticated, "NO_CERTIFICATE", "a client certificate is needed")
	}
	return nil
}

func (s *Shard) loses(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.LoseAnswers[name] == 0 {
		return false
	}
	s.faults.LoseAnswers[name]--
	return true
}

// method returns the last part of a method's full name.
func method(full string) string {
	for i := len(full) - 1; i >= 0; i-- {
		if full[i] == '/' {
			return full[i+1:]
		}
	}
	return full
}

// peerOf returns who calls, the zero value for one without a valid certificate.
func peerOf(ctx context.Context) identity.Peer {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return identity.Peer{}
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return identity.Peer{}
	}
	who, err := identity.PeerFromCertificate(info.State.PeerCertificates[0])
	if err != nil || who.Role != identity.RoleOperator || time.Now().After(who.NotAfter) {
		return identity.Peer{}
	}
	return who
}

func tenantOf(ctx context.Context) string { return peerOf(ctx).Tenant }

// sent is what the metadata of a call has under a key; empty: nothing.
func sent(ctx context.Context, key string) string {
	if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
		return values[0]
	}
	return ""
}
