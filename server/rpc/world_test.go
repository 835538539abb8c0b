package rpc_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/calls"
	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/conns"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
	"nstance.dev/server/rpc"
	"nstance.dev/server/secrets"
	"nstance.dev/server/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cluster   = "test"
	shardName = "s1"
)

// renewed is when the lease of the server is said to have been renewed.
var renewed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// worldOptions are what a test wants to be different.
type worldOptions struct {
	pipes   bool // connections in memory, for tests in a bubble
	standby bool // nobody leads
	budget  conns.Budget
	beside  *world // has the storage; this is then another shard of that cluster
	tenants string // of the shard, as JSON; empty: b, acme and zeta
	groups  string // of the shard, as JSON; empty: none
	open    string // the tenants of template plain, as JSON; empty: all
	tracer  trace.Tracer
	power   bool // the provider switches machines off and on
	mute    bool // the provider does not tell what machines write
}

// written is a cloud that tells what its machines have written.
type written struct {
	*drivertest.Cloud
	driver.Outputter
}

// world is one server with its three listeners, a cloud and a store.
type world struct {
	t         *testing.T
	opts      worldOptions
	name      string // of the shard
	ctx       context.Context
	store     *memory.Store
	cloud     *drivertest.Cloud
	shard     *shard.Shard
	registry  *operatorauth.Registry
	authority *pki.Authority
	signer    *pki.NonceSigner
	refresher *refresher
	log       *lockedText
	boots     chan driver.CreateRequest // VMs that run

	registration, operator, agent net.Listener
}

func newWorld(t *testing.T, opts worldOptions) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &world{
		t: t, opts: opts, ctx: ctx, store: memory.New(memory.Options{}), refresher: &refresher{}, log: &lockedText{},
		boots: make(chan driver.CreateRequest, 64), name: shardName,
	}
	if opts.beside != nil {
		w.store, w.name = opts.beside.store, "s2"
	}
	w.cloud = drivertest.New(drivertest.Options{OnCreate: func(req driver.CreateRequest) { w.boots <- req }})
	var provider driver.Driver = written{w.cloud, drivertest.Outputs{Of: w.cloud}}
	if opts.power {
		provider = switched{w.cloud, drivertest.Switches{Of: w.cloud}, drivertest.Outputs{Of: w.cloud}}
	}
	if opts.mute {
		provider = w.cloud
	}
	keys := w.makeKeys()
	c, err := cache.Open(ctx, os.DevNull+"/none", cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.registry = operatorauth.New(operatorauth.Options{
		Cluster: cluster, Store: w.store, Log: log,
		Keys:      func() *pki.Keys { return keys },
		HasTenant: func(name string) bool { return w.shard.Static().Config.HasTenant(name) },
	})
	w.shard = shard.New(shard.Options{
		Cluster: cluster, Shard: w.name, Version: "test",
		Store: w.store, Driver: provider, Cache: c, Keys: func() *pki.Keys { return keys },
		Addresses: func() driver.Addresses { return driver.Addresses{} }, Drainers: w.registry, Log: log, Tracer: opts.tracer,
	}, config.Version{Config: w.testConfig(), ETag: "etag-1", Size: 4711})
	stop := w.serve(keys, log)
	var leading sync.WaitGroup
	if !opts.standby {
		leading.Go(func() {
			if err := w.shard.Lead(lease.Always(ctx, 1), 1); err != nil {
				t.Errorf("lead: %v", err)
			}
		})
		if opts.beside == nil {
			w.registry.Lead(lease.Always(ctx, 1)) // the cluster has one leader
		}
		if _, err := w.shard.WaitForTerm(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		cancel()
		leading.Wait()
		stop()
		_ = c.Close() // it lives in memory
		if t.Failed() {
			t.Logf("log of the server:\n%s", w.log.String())
		}
	})
	return w
}

func (w *world) makeKeys() *pki.Keys {
	w.t.Helper()
	sealed, err := secrets.NewSealed(w.store, "", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	ca, err := pki.EnsureCA(w.ctx, sealed, w.store, cluster, pki.CATemplate{}, pki.Options{Create: true})
	if err != nil {
		w.t.Fatal(err)
	}
	nonces, err := pki.EnsureNonceKeys(w.ctx, sealed, pki.Options{Create: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.signer, err = pki.NewNonceSigner(nonces, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.authority = pki.NewAuthority(ca, cluster, nil, nil)
	return &pki.Keys{Authority: w.authority, Nonces: w.signer, Verifier: pki.NewNonceVerifier(cluster, nonces)}
}

// testConfig is the configuration of the shard, which is in the bucket, too.
func (w *world) testConfig() *effective.Config {
	w.t.Helper()
	text := fmt.Sprintf(`{
		"server": {
			"cluster_id": %q, "shard": %q,
			"provider": {"kind": "local", "zone": "z1"},
			"secrets": {"provider": "object-storage"},
			"subnet_pools": {"p": ["net-1"]},
			"health_check_interval": "10s", "request_timeout": "5s",
			"admin_tenants": ["default"],
		},
		"tenants": %s,
		"templates": {
			"plain": {
				"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p",
				"userdata": {"content": "{{ .Nonce }}"}, "tenants": %s,
			},
			"hosts": {
				"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "machine": {"enabled": true},
				"userdata": {"content": "{{ .Nonce }}"}, "tenants": %s,
			},
			"ours": {"kind": "our", "arch": "amd64", "instance_type": "small", "subnet_pool": "p"},
		},
		"groups": %s,
	}`, cluster, w.name, cmp.Or(w.opts.tenants, `{"b": {"quota": {"machines": 12}}, "acme": {}, "zeta": {}}`),
		cmp.Or(w.opts.open, `["default", "b", "acme", "zeta"]`), cmp.Or(w.opts.open, `["default", "b", "acme", "zeta"]`), cmp.Or(w.opts.groups, `{"default": {}}`))
	cfg, err := config.Load("test.jsonc", []byte(text), config.LoadOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.PutIfAbsent(w.ctx, layout.ConfigKey(w.name), []byte(text)); err != nil {
		w.t.Fatal(err)
	}
	return cfg
}

// serve opens the three listeners and returns what closes them.
func (w *world) serve(keys *pki.Keys, log *slog.Logger) (stop func()) {
	w.t.Helper()
	cert, err := pki.NewServerCert(w.authority, pki.ServerCertOptions{ServerID: "server-1", Shard: w.name, Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	opts := rpc.Options{
		Cluster: cluster, ShardName: w.name, Version: "test", Shard: w.shard, Operators: w.registry,
		Verifier: func() *pki.NonceVerifier { return keys.Verifier }, Config: w.refresher, Log: log,
		Connections: w.opts.budget,
		Held: func() (lease.Document, bool) {
			return lease.Document{LeaderID: "server-1", LastUpdated: renewed, LeaseSeconds: 15}, true
		},
		StorageCalls: func() []calls.Stat {
			return []calls.Stat{{Operation: "get", Calls: 9, Errors: 2, Throttled: 1, Mean: 3 * time.Millisecond, P50: 2 * time.Millisecond, P99: time.Second}}
		},
		Leader: func() lease.Addrs {
			return lease.Addrs{Registration: "leader:8992", Operator: "leader:8993", Agent: "leader:8994"}
		},
	}
	mutual := pki.MutualTLS(cert, w.authority.CA().Pool(), nil)
	w.registration, w.operator, w.agent = w.listen(), w.listen(), w.listen()
	servers := map[*rpc.Server]net.Listener{
		rpc.NewRegistrationServer(opts, pki.ServerTLS(cert)): w.registration,
		rpc.NewOperatorServer(opts, mutual):                  w.operator,
		rpc.NewAgentServer(opts, mutual):                     w.agent,
	}
	var running sync.WaitGroup
	for s, l := range servers {
		running.Go(func() {
			if err := s.Serve(l); err != nil {
				w.t.Errorf("serve: %v", err)
			}
		})
	}
	return func() {
		now, cancel := context.WithCancel(w.t.Context())
		cancel()
		for s := range servers {
			s.Stop(now)
		}
		running.Wait()
	}
}

func (w *world) listen() net.Listener {
	w.t.Helper()
	if w.opts.pipes {
		return bufconn.Listen(64 << 10)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// raw opens a connection to a listener, without TLS.
func (w *world) raw(ctx context.Context, l net.Listener) (net.Conn, error) {
	if pipes, ok := l.(*bufconn.Listener); ok {
		return pipes.DialContext(ctx)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
}

// clientTLS trusts the cluster and shows the given certificates.
func (w *world) clientTLS(certs ...tls.Certificate) *tls.Config {
	return &tls.Config{
		RootCAs: w.authority.CA().Pool(), ServerName: identity.ServerName(w.name, cluster),
		MinVersion: tls.VersionTLS12, Certificates: certs,
	}
}

// dial connects to a listener; the connection is closed with the test.
func (w *world) dial(l net.Listener, creds credentials.TransportCredentials, opts ...grpc.DialOption) *grpc.ClientConn {
	w.t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return w.raw(ctx, l) }))
	conn, err := grpc.NewClient("passthrough:///server", opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// anonymous is a client of the registration service.
func (w *world) anonymous() nstancev1.RegistrationServiceClient {
	return nstancev1.NewRegistrationServiceClient(w.dial(w.registration, credentials.NewTLS(w.clientTLS())))
}

// client is an operator with its connection.
type client struct {
	nstancev1.OperatorServiceClient
	conn *grpc.ClientConn
	peer identity.Peer
	key  ed25519.PrivateKey
	cert tls.Certificate
}

// operatorOf enrols an operator of the tenant and connects it.
func (w *world) operatorOf(tenant string) client { return w.operatorFor(tenant, 0) }

// operatorFor is operatorOf with a certificate that lives as long as ttl.
func (w *world) operatorFor(tenant string, ttl time.Duration) client {
	w.t.Helper()
	key := newKey(w.t)
	_, cert, err := operatorauth.Enrol(w.ctx, w.store, w.authority, operatorauth.EnrolRequest{
		Tenant: tenant, Key: key.Public().(ed25519.PublicKey), TTL: ttl,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	pair := keyPair(cert, key)
	conn := w.dial(w.operator, credentials.NewTLS(w.clientTLS(pair)))
	return client{nstancev1.NewOperatorServiceClient(conn), conn, peerOf(w.t, cert), key, pair}
}

func keyPair(cert pki.Certificate, key ed25519.PrivateKey) tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{cert.Leaf.Raw}, PrivateKey: key, Leaf: cert.Leaf}
}

func peerOf(t testing.TB, cert pki.Certificate) identity.Peer {
	t.Helper()
	peer, err := identity.PeerFromCertificate(cert.Leaf)
	if err != nil {
		t.Fatal(err)
	}
	return peer
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func request(t testing.TB, token string, key ed25519.PrivateKey) *nstancev1.RegisterClientRequest {
	t.Helper()
	public, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return &nstancev1.RegisterClientRequest{RegistrationNonceJwt: token, PublicKeyPem: public, Proof: identity.SignProof(key, token)}
}

func parse(t testing.TB, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatal("no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// operatorNonce returns a token with which an operator of the tenant registers.
func (w *world) operatorNonce(tenant string) string {
	w.t.Helper()
	now := time.Now()
	token, err := w.signer.Sign(identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: cluster, ClusterID: cluster, Tenant: tenant,
		IssuedAt: now.Unix(), ExpiresAt: now.Add(3 * time.Hour).Unix(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// machine creates an on-demand machine for the tenant and returns what booted.
func (w *world) machine(c client) driver.CreateRequest {
	w.t.Helper()
	template := "plain"
	if _, err := c.UpsertGroup(w.ctx, &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &template}}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.CreateInstance(w.ctx, &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "web"}}); err != nil {
		w.t.Fatal(err)
	}
	return <-w.boots
}

// registered makes a machine and registers its agent, whose stream may be opened
// over the connection.
func (w *world) registered(c client) (identity.ID, *grpc.ClientConn) {
	w.t.Helper()
	return w.registers(w.machine(c))
}

// registers registers the agent of a machine.
func (w *world) registers(vm driver.CreateRequest) (identity.ID, *grpc.ClientConn) {
	w.t.Helper()
	key := newKey(w.t)
	resp, err := w.anonymous().RegisterAgent(w.ctx, request(w.t, string(vm.UserData), key))
	if err != nil {
		w.t.Fatal(err)
	}
	cert := parse(w.t, resp.ClientCertificatePem)
	pair := tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	return vm.InstanceID, w.dial(w.agent, credentials.NewTLS(w.clientTLS(pair)))
}

// wantCode checks the code of an answer and, if reason is not empty, its reason.
func wantCode(t testing.TB, err error, code codes.Code, reason string) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != code || reason != "" && reasonOf(st) != reason {
		t.Errorf("answer is %s %q (%v), want %s %q", st.Code(), reasonOf(st), err, code, reason)
	}
}

func reasonOf(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == "nstance" {
			return info.Reason
		}
	}
	return ""
}

// refresher stands for the process that holds the configuration.
type refresher struct {
	mu    sync.Mutex
	err   error
	panic string
}

func (r *refresher) panics(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.panic = text
}

func (r *refresher) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *refresher) Rejected() (etag, why string) { return "rejected", "why" }

func (r *refresher) Refresh(context.Context) (string, string, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panic != "" {
		panic(r.panic)
	}
	return "etag-1", "etag-2", r.err == nil, r.err
}

func (r *refresher) Check(_ context.Context, data []byte) (*effective.Config, string, error) {
	cfg, err := config.Load("new.jsonc", data, config.LoadOptions{})
	return cfg, "", err
}

// lockedText is text that many may write to.
type lockedText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
