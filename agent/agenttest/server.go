package agenttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Stream is the server's end of an agent's stream.
type Stream = grpc.BidiStreamingServer[nstancev1.AgentMessage, nstancev1.ServerMessage]

// Script is what a server does; a nil function answers Unavailable.
type Script struct {
	// Shard whose name the server proves; "": that of the cluster.
	Shard string
	// Register answers a registration.
	Register func(*nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error)
	// Connect serves a stream to its end; who is the owner of its certificate.
	Connect func(stream Stream, who identity.Peer) error
	// Leader is named in the trailer of every call, if not "".
	Leader string
}

// Network is where servers have addresses. The zero value is ready.
type Network struct {
	mu      sync.Mutex
	servers map[string]*bufconn.Listener
	dials   []string
	frozen  chan struct{} // closed: what is connected passes nothing on
}

// DialContext connects to the server at addr, or fails as a closed port does.
func (n *Network) DialContext(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.servers[addr]
	n.dials = append(n.dials, addr)
	if n.frozen == nil {
		n.frozen = make(chan struct{})
	}
	frozen := n.frozen
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	conn, err := l.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return &cable{Conn: conn, cut: frozen}, nil
}

// Dials returns the addresses that have been dialled.
func (n *Network) Dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.dials...)
}

// Freeze makes all connections of this moment swallow what the agent sends, without an
// end that anybody could see. New ones work.
func (n *Network) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.frozen)
	n.frozen = nil
}

// cable is a connection that can be cut without either end being told.
type cable struct {
	net.Conn
	cut <-chan struct{}
}

func (c *cable) Write(b []byte) (int, error) {
	select {
	case <-c.cut:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}

// Serve starts a server at addr, for the rest of the test or until the returned function
// stops it as a crash would.
func (c *Cluster) Serve(addr string, script Script) (stop func()) {
	c.t.Helper()
	if script.Shard == "" {
		script.Shard = Shard
	}
	l := bufconn.Listen(1 << 16)
	c.mu.Lock()
	if c.servers == nil {
		c.servers = map[string]*bufconn.Listener{}
	}
	c.servers[addr] = l
	c.mu.Unlock()

	s := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(c.ServerTLS(script.Shard))),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 1, PermitWithoutStream: true}),
	)
	nstancev1.RegisterRegistrationServiceServer(s, registrar{script: script})
	nstancev1.RegisterAgentServiceServer(s, host{script: script})
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(l) }) // ends with the listener
	stop = sync.OnceFunc(func() {
		c.mu.Lock()
		if c.servers[addr] == l {
			delete(c.servers, addr)
		}
		c.mu.Unlock()
		s.Stop()
		done.Wait()
	})
	c.t.Cleanup(stop)
	return stop
}

var errNotLeader = status.Error(codes.Unavailable, "not the leader")

type registrar struct {
	nstancev1.UnimplementedRegistrationServiceServer
	script Script
}

func (r registrar) RegisterAgent(ctx context.Context, request *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	if err := grpc.SetTrailer(ctx, r.script.trailer()); err != nil {
		return nil, err
	}
	if r.script.Register == nil {
		return nil, errNotLeader
	}
	return r.script.Register(request)
}

type host struct {
	nstancev1.UnimplementedAgentServiceServer
	script Script
}

func (h host) Connect(stream Stream) error {
	stream.SetTrailer(h.script.trailer())
	if h.script.Connect == nil {
		return errNotLeader
	}
	who, err := caller(stream.Context())
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	return h.script.Connect(stream, who)
}

func (s Script) trailer() metadata.MD {
	if s.Leader == "" {
		return nil
	}
	return metadata.Pairs(identity.LeaderTrailer, s.Leader)
}

func caller(ctx context.Context) (identity.Peer, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return identity.Peer{}, errors.New("no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return identity.Peer{}, errors.New("no certificate")
	}
	who, err := identity.PeerFromCertificate(info.State.PeerCertificates[0])
	if err != nil {
		return who, fmt.Errorf("certificate: %w", err)
	}
	return who, nil
}

// Admit returns a registration that admits id with a certificate that lasts for life.
func (c *Cluster) Admit(id identity.ID, life time.Duration) func(*nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	return func(r *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
		return &nstancev1.RegisterClientResponse{ClientCertificatePem: c.Issue(r.GetPublicKeyPem(), id, life)}, nil
	}
}
