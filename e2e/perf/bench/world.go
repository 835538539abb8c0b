package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/operatorapi"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
	"nstance.dev/server/rpc"
	"nstance.dev/server/secrets"
	"nstance.dev/server/shard"
)

const (
	clusterName = "bench"
	shardName   = "s1"
	tenantName  = document.DefaultTenant
)

// configuration is that of a shard of any size. Nobody is given up during a run,
// for in most measures no agent ever registers or reports.
const configuration = `{
	"server": {
		"cluster_id": "bench", "shard": "s1",
		"provider": {"kind": "local", "zone": "z1"},
		"secrets": {"provider": "object-storage"},
		"subnet_pools": {"p": ["net-1"]},
		"health_check_interval": "10m", "request_timeout": "30s", "drain_timeout": "0s",
		"garbage_collection": {"interval": "1h", "registration_timeout": "1h"},
	},
	"templates": {
		"plain": {
			"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p",
			"userdata": {"content": "{{ .Nonce }}"},
		},
	},
	"groups": {"default": {}},
}`

// world is a shard that leads, with a store and a cloud in memory.
type world struct {
	store *memory.Store
	cloud *drivertest.Cloud
	cache *cache.Cache
	keys  *pki.Keys
	roots *x509.CertPool
	shard *shard.Shard
	term  *shard.Term

	dir  string
	ctx  context.Context //nolint:containedctx // of the shard, which outlives the call that made it
	stop context.CancelFunc
	led  chan error
}

// newWorld starts a shard whose provider is the given cloud. The caller closes it.
func newWorld(ctx context.Context, cloud drivertest.Options) (*world, error) {
	return scene{cloud: drivertest.New(cloud)}.begin(ctx)
}

// scene is what a world begins with; zero fields take the defaults.
type scene struct {
	dir     string            // for the cache, removed in the end; a new one
	store   *memory.Store     // an empty one
	cloud   *drivertest.Cloud // an empty one
	driver  driver.Driver     // that of the cloud
	cfg     string            // configuration
	metrics *shard.Metrics    // none
	term    uint64            // of the leader, above those of earlier ones on this store; 1
}

func (s *scene) defaults() (err error) {
	if s.dir == "" {
		s.dir, err = os.MkdirTemp("", "nstance-bench-")
	}
	if s.store == nil {
		s.store = memory.New(memory.Options{})
	}
	if s.cloud == nil {
		s.cloud = drivertest.New(drivertest.Options{})
	}
	if s.driver == nil {
		s.driver = s.cloud
	}
	if s.cfg == "" {
		s.cfg = configuration
	}
	return err
}

// begin starts a shard, and waits until it serves. The caller closes it.
func (s scene) begin(ctx context.Context) (*world, error) {
	w, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.lead(ctx, lease.Always(w.ctx, max(s.term, 1)), max(s.term, 1)); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// prepare makes a shard that does not lead yet.
func (s scene) prepare(ctx context.Context) (w *world, err error) {
	if err := s.defaults(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	w = &world{store: s.store, cloud: s.cloud, dir: s.dir, ctx: ctx, stop: stop, led: make(chan error, 1)}
	defer func() {
		if err != nil {
			stop()
			_ = os.RemoveAll(w.dir) // the error above says more
		}
	}()
	if err := w.makeKeys(ctx); err != nil {
		return nil, err
	}
	cfg, err := config.Load("bench.jsonc", []byte(s.cfg), config.LoadOptions{})
	if err != nil {
		return nil, err
	}
	if w.cache, err = cache.Open(ctx, filepath.Join(w.dir, "cache.db"), cache.Options{}); err != nil {
		return nil, err
	}
	w.shard = shard.New(shard.Options{
		Cluster: clusterName, Shard: shardName, Version: "bench",
		Store: w.store, Driver: s.driver, Cache: w.cache,
		Keys:      func() *pki.Keys { return w.keys },
		Addresses: func() driver.Addresses { return driver.Addresses{} },
		Metrics:   s.metrics,
		Log:       quiet,
		Unpaced:   true, // what the server can take is measured, not what it grants
	}, config.Version{Config: cfg})
	return w, nil
}

// lead has the shard lead under a leadership context, and waits until it serves.
func (w *world) lead(ctx, leading context.Context, term uint64) error {
	go func() { w.led <- w.shard.Lead(leading, term) }()
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var err error
	w.term, err = w.shard.WaitForTerm(waiting)
	return err
}

// quiet drops what is logged below a warning, as a log at its usual level would
// be someone else's time: the writer's.
var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

func (w *world) makeKeys(ctx context.Context) error {
	sealed, err := secrets.NewSealed(w.store, "secret/", nil)
	if err != nil {
		return err
	}
	ca, err := pki.EnsureCA(ctx, sealed, w.store, clusterName, pki.CATemplate{}, pki.Options{Create: true})
	if err != nil {
		return err
	}
	nonces, err := pki.EnsureNonceKeys(ctx, sealed, pki.Options{Create: true})
	if err != nil {
		return err
	}
	signer, err := pki.NewNonceSigner(nonces, nil)
	if err != nil {
		return err
	}
	w.roots = ca.Pool()
	w.keys = &pki.Keys{
		Authority: pki.NewAuthority(ca, clusterName, nil, nil),
		Nonces:    signer, Verifier: pki.NewNonceVerifier(clusterName, nonces),
	}
	return nil
}

// close ends the shard, and forgets all that it wrote.
func (w *world) close() error {
	w.stop()
	return errors.Join(<-w.led, w.cache.Close(), os.RemoveAll(w.dir))
}

// scale sets the size of a group, which it makes if need be.
func (w *world) scale(ctx context.Context, group string, size int) error {
	n, template := int32(size), "plain"
	_, err := operatorapi.Of(w.term).UpsertGroup(ctx, tenantName, &nstancev1.UpsertGroupRequest{
		Key: group, Config: &nstancev1.GroupConfig{Size: &n, Template: &template},
	})
	return err
}

// options are those of the listeners.
func (w *world) options() rpc.Options {
	return rpc.Options{
		Cluster: clusterName, ShardName: shardName, Version: "bench", Shard: w.shard,
		Operators: operatorauth.New(operatorauth.Options{
			Cluster: clusterName, Store: w.store, Keys: func() *pki.Keys { return nil },
			HasTenant: func(string) bool { return true }, Log: quiet,
		}),
		Verifier: func() *pki.NonceVerifier { return w.keys.Verifier },
		Log:      quiet,
	}
}

// serverCert is what the listeners show.
func (w *world) serverCert() (*pki.ServerCert, error) {
	return pki.NewServerCert(w.keys.Authority, pki.ServerCertOptions{ServerID: "server-1", Shard: shardName, Log: quiet})
}

// server is what both gRPC's server and ours can do.
type server interface {
	Serve(net.Listener) error
}

// serveOn serves on a free port of the loopback interface, whose address it returns.
func serveOn(s server) (addr string, err error) { return serveAt(s, "127.0.0.1:0") }

func serveAt(s server, at string) (addr string, err error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return "", err
	}
	go func() { _ = s.Serve(l) }() // a client notices
	return l.Addr().String(), nil
}

// agentListener starts the service of the agents' streams.
func (w *world) agentListener() (addr string, stop func(), err error) {
	return w.agentListenerAt("127.0.0.1:0")
}

// agentListenerAt is agentListener at an address; port 0 is a free one.
func (w *world) agentListenerAt(at string) (addr string, stop func(), err error) {
	cert, err := w.serverCert()
	if err != nil {
		return "", nil, err
	}
	s := rpc.NewAgentServer(w.options(), pki.MutualTLS(cert, w.roots, nil))
	addr, err = serveAt(s, at)
	return addr, func() { cutOff(s) }, err
}

// registrationListener starts the service that lets newcomers in.
func (w *world) registrationListener() (addr string, stop func(), err error) {
	cert, err := w.serverCert()
	if err != nil {
		return "", nil, err
	}
	s := rpc.NewRegistrationServer(w.options(), pki.ServerTLS(cert))
	addr, err = serveOn(s)
	return addr, func() { cutOff(s) }, err
}

// cutOff stops a server without waiting for its calls.
func cutOff(s *rpc.Server) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	s.Stop(over)
}

// clientTLS are the settings of an agent; without a certificate it is a newcomer.
func clientTLS(roots *x509.CertPool, certificate *tls.Certificate) credentials.TransportCredentials {
	conf := &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: identity.ServerName(shardName, clusterName),
	}
	if certificate != nil {
		conf.Certificates = []tls.Certificate{*certificate}
	}
	return credentials.NewTLS(conf)
}

// eventually waits until done holds. It is for setting the scene, and for the
// end of work that nobody announces.
func eventually(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(200 * time.Microsecond):
		}
	}
	return nil
}
