// Package shardtest is a cluster for tests of its clients: real certificates,
// real gRPC over TLS, and behind it an operator API in memory.
//
// A [Cluster] issues identities and starts servers; a [Shard] is the API that
// one or several of them serve. Its instances move on by one step each time that
// somebody lists them, so that a test which waits for something needs no time.
package shardtest

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

// ID is the id of every [Cluster].
const ID = "test"

// Cluster is an authority and the network of its servers.
type Cluster struct {
	ca        *pki.CA
	authority *pki.Authority

	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
}

// NewCluster returns a cluster with a new authority.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	objects := memory.New(memory.Options{})
	store, err := secrets.NewSealed(objects, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.EnsureCA(t.Context(), store, objects, ID, pki.CATemplate{}, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{ca: ca, authority: pki.NewAuthority(ca, ID, nil, nil), listeners: map[string]*bufconn.Listener{}}
}

// Identity returns a folder with the identity of an operator of tenant.
func (c *Cluster) Identity(t testing.TB, tenant string) string {
	t.Helper()
	return c.identity(t, tenant, identity.RoleOperator)
}

// ViewerIdentity is Identity of somebody who may look and change nothing.
func (c *Cluster) ViewerIdentity(t testing.TB, tenant string) string {
	t.Helper()
	return c.identity(t, tenant, identity.RoleViewer)
}

func (c *Cluster) identity(t testing.TB, tenant string, role identity.Role) string {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := c.authority.IssueOperator(pki.OperatorRequest{PublicKey: key.Public().(ed25519.PublicKey), ID: id, Tenant: tenant, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	private, err := pki.EncodePrivateKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"ca.crt": c.ca.Bundle(), "identity.crt": cert.PEM, "identity.key": private} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Listen starts a server of shard on a port of this box and returns its address.
// It ends with the test.
func (c *Cluster) Listen(t testing.TB, shard string, api nstancev1.OperatorServiceServer) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.serve(t, shard, listener, api)
	return listener.Addr().String()
}

// ListenAt starts a server that [Cluster.Dial] alone reaches, at an address of
// any name, and returns what stops it before the test ends.
func (c *Cluster) ListenAt(t testing.TB, shard, address string, api nstancev1.OperatorServiceServer) (stop func()) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	c.mu.Lock()
	c.listeners[address] = listener
	c.mu.Unlock()
	stopServer := c.serve(t, shard, listener, api)
	return func() {
		c.mu.Lock()
		delete(c.listeners, address)
		c.mu.Unlock()
		stopServer()
	}
}

// Dial connects to a server of ListenAt.
func (c *Cluster) Dial(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	listener := c.listeners[address]
	c.mu.Unlock()
	if listener == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errRefused)}
	}
	return listener.DialContext(ctx)
}

// ServerCert returns the certificate of a server of shard.
func (c *Cluster) ServerCert(t testing.TB, shard string) tls.Certificate {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := c.authority.IssueServer(pki.ServerRequest{PublicKey: key.Public().(ed25519.PublicKey), ServerID: "server-1", Shard: shard})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert.Leaf.Raw}, PrivateKey: key, Leaf: cert.Leaf}
}

func (c *Cluster) serve(t testing.TB, shard string, listener net.Listener, api nstancev1.OperatorServiceServer) (stop func()) {
	t.Helper()
	cert, err := pki.NewServerCert(c.authority, pki.ServerCertOptions{ServerID: "server-1", Shard: shard})
	if err != nil {
		t.Fatal(err)
	}
	config := pki.MutualTLS(cert, c.ca.Pool(), time.Now)
	config.MinVersion = tls.VersionTLS13
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	nstancev1.RegisterOperatorServiceServer(server, api)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	stop = sync.OnceFunc(func() {
		server.Stop()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// Standby serves nothing, and names the leader in its trailer, if it is not
// empty.
type Standby struct {
	nstancev1.UnimplementedOperatorServiceServer
	Leader string
}

func (s Standby) refuse(set func(metadata.MD) error) error {
	if err := set(metadata.Pairs(identity.LeaderTrailer, s.Leader)); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "not shard leader")
}
