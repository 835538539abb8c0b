package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/conns"
	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/operators"
	"nstance.dev/server/shard"
	"nstance.dev/server/telemetry"
)

// Options are what one run of a server needs. OnServing may be nil.
type Options struct {
	Flags
	Provider Provider
	Version  string
	Log      *slog.Logger

	// OnServing is called, in a goroutine of its own, each time this server has
	// taken the shard over; its context ends with the leadership.
	OnServing func(ctx context.Context, s *Serving)
}

// process is one running server.
type process struct {
	opts   Options
	log    *slog.Logger
	store  *objectstore.Probed
	cache  *cache.Cache
	source *source
	static shard.Static
	keys   *keyring
	drv    driver.Driver
	status *status
	ls     *listeners
	budget conns.Budget // of connections
	shard  *shard.Shard
	tracer trace.Tracer // nil: none

	operators *operators.Registry
	reloading sync.Mutex
	restarts  chan string // the part of the configuration that needs one; has room for one
	unfit     string      // etag of a configuration with which this process could not start

	tried    string        // etag of the stored version that this run is the first to serve with; empty: of none
	working  chan struct{} // closed once the shard is led or followed
	doesWork sync.Once     // closes it

	cluster, shardLock *election
	credentials        *wallet
	peering            *peering
}

// Run serves until ctx ends, and then stops in order. The error is what made
// serving impossible.
func Run(ctx context.Context, opts Options) (err error) {
	unlock, err := cache.LockDir(opts.CacheDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	var from outset
	for {
		p := newProcess(opts)
		err := p.run(ctx, from)
		next, again := p.next(ctx, from, err)
		switch {
		case !again:
			return p.exit(ctx, err)
		case ctx.Err() != nil:
			return nil
		}
		from = next
	}
}

func newProcess(opts Options) *process {
	return &process{
		opts: opts, log: opts.Log.With("server", opts.ID, "shard", opts.Shard),
		restarts: make(chan string, 1), working: make(chan struct{}),
	}
}

// outset is what one run of a server in this process leaves to the next.
type outset struct {
	good  *shard.Static // a configuration that was in force; nil: none yet
	unfit string        // etag of the stored version with which the run before failed; empty: of none
	why   string        // it failed
}

// next says whether the server starts anew after a run that ended with err, and from
// what: because a changed configuration asks for it, or with the last good one, where
// nothing could be led or followed with the stored one (S26).
func (p *process) next(ctx context.Context, from outset, err error) (next outset, again bool) {
	switch {
	case errors.Is(err, errRestart):
		static := p.shard.Static()
		return outset{good: &static}, true
	case err == nil, ctx.Err() != nil, p.tried == "", errors.Is(err, lease.ErrDuplicateID):
		return outset{}, false
	case from.good != nil && from.good.ETag == p.tried:
		return outset{}, false // it worked before: something else is wrong
	}
	select {
	case <-p.working:
		return outset{}, false
	default:
	}
	good := from.good
	if good == nil {
		kept, keptErr := p.source.other()
		if keptErr != nil {
			return outset{}, false
		}
		good = &kept
	}
	p.log.ErrorContext(ctx, "stored configuration not applicable; the last good one stays in force", "etag", p.tried, "error", err)
	return outset{good: good, unfit: p.tried, why: err.Error()}, true
}

// exit delays the end of a process that had begun to serve.
func (p *process) exit(ctx context.Context, err error) error {
	if err != nil && p.cache != nil {
		exitJitter(ctx, p.static.Config.Server.ErrorExitJitter)
	}
	return err
}

// errRestart ends a server that is to start anew, because the configuration has
// changed in a part that is read at a start alone.
var errRestart = errors.New("the server starts anew")

// run serves once, until ctx ends or the configuration asks for another start.
func (p *process) run(ctx context.Context, from outset) (err error) {
	if err := p.open(ctx, from); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.cache.Close()) }()
	defer p.closeDriver()
	defer p.ls.close()
	return p.serve(ctx)
}

// liveHeap adds what the last garbage collection left, the one number of the heap
// that does not depend on when one looks.
var liveHeap = collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{
	Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`),
})

// open brings up everything that does not depend on who leads. If it fails
// nothing was started.
func (p *process) open(ctx context.Context, from outset) error {
	var err error
	if p.store, err = p.opts.openStore(ctx); err != nil {
		return err
	}
	if p.budget, err = connectionBudget(); err != nil {
		return err
	}
	p.status = &status{registry: prometheus.NewRegistry()}
	p.status.registry.MustRegister(collectors.NewGoCollector(liveHeap), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.source = newSource(p.store, p.opts.Flags, p.opts.Provider, p.log)
	p.status.registry.MustRegister(p.source.rejected.metric())
	if p.static, err = p.configure(ctx); err != nil {
		return err
	}
	p.tried = p.static.ETag
	if from.unfit != "" && from.unfit == p.static.ETag {
		p.static, p.tried, p.unfit = *from.good, "", from.unfit
		p.source.rejected.set(from.unfit, "this server could not start with it: "+from.why)
	}
	if err = p.prepare(ctx); err != nil {
		return err
	}
	if p.cache, err = cache.Open(ctx, p.opts.cachePath(), cache.Options{Log: p.log}); err != nil {
		p.ls.close()
		p.closeDriver()
		return err
	}
	return nil
}

// prepare opens what the configuration in force names, all of it or nothing.
func (p *process) prepare(ctx context.Context) (err error) {
	cfg := p.static.Config.Server
	if p.keys, err = newKeyring(ctx, p.store, p.static.Config, p.log); err != nil {
		return err
	}
	if p.drv, err = p.newDriver(ctx, p.static.Config); err != nil {
		return err
	}
	if p.ls, err = listen(ctx, boundTo(cfg, p.opts.BindHost), p.opts.AdvertiseHost, p.opts.Provider.FreePorts); err != nil {
		p.closeDriver()
		return err
	}
	if v, ok := p.drv.(driver.TypeValidator); ok {
		p.source.types.ask(v, cfg.RequestTimeout.Std())
	}
	return nil
}

// newDriver makes the driver of a configuration.
func (p *process) newDriver(ctx context.Context, cfg *config.Config) (driver.Driver, error) {
	s := cfg.Server
	drv, err := p.opts.Provider.New(ctx, Settings{
		Options: s.Provider.Options, Region: s.Provider.Region, Zone: s.Provider.Zone,
		Owner: driver.Owner{Cluster: s.ClusterID, Shard: s.Shard}, Log: p.log,
		LeaderNetwork: s.LeaderNetwork,
	})
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.opts.Provider.Kind, err)
	}
	return drv, nil
}

// closeDriver lets go of what the driver holds open. Nobody calls it any more.
func (p *process) closeDriver() {
	if c, ok := p.drv.(driver.Closer); ok {
		c.Close()
	}
}

// configure loads the configuration. While storage is away and no copy was kept,
// the health port already says that the server is not ready.
func (p *process) configure(ctx context.Context) (shard.Static, error) {
	waitCtx, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait() // the port is free again for the real one
	defer stop()
	opened := false
	return p.source.start(ctx, func() {
		if opened {
			return
		}
		opened = true
		l, err := net.Listen("tcp", defaultHealthAddr)
		if err != nil {
			p.log.WarnContext(ctx, "health port not opened yet", "error", err)
			return
		}
		probes.Go(func() { _ = serveHTTP(waitCtx, l, startupConns, p.status.probes()) })
	})
}

// defaultHealthAddr is where probes are answered before there is a configuration.
const defaultHealthAddr = "0.0.0.0:8990"

// serve runs the electors and listeners until ctx ends or one of them fails.
func (p *process) serve(ctx context.Context) error {
	if err := p.testStore(ctx); err != nil {
		return err
	}
	if err := p.prepareLocks(); err != nil {
		return err
	}
	stopTracing, err := p.trace(ctx)
	if err != nil {
		return err
	}
	defer stopTracing()
	p.operators = p.newRegistry()
	p.shard = shard.New(p.shardOptions(), p.static)
	p.credentials = &wallet{keys: p.keys.current, make: p.makeCredentials}
	p.peering = p.newPeering()
	defer p.peering.close()
	p.status.ready.Store(true)

	// The locks are released first, and what clients see ends after that.
	tail, stopTail := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTail()
	g, ctx := errgroup.WithContext(ctx)
	var leads errgroup.Group
	leads.Go(func() error { return p.cluster.run(ctx) })
	leads.Go(func() error { return p.leadShard(ctx) })
	g.Go(func() error {
		defer stopTail()
		defer p.shard.EndParked()
		return leads.Wait()
	})
	g.Go(func() error { return p.keys.run(ctx) })
	g.Go(func() error { return p.serveProbes(tail) })
	g.Go(func() error { return p.serveMetrics(tail) })
	g.Go(func() error { return p.serveAPIs(ctx, tail) })
	g.Go(func() error { return p.serveElection(ctx, tail) })
	g.Go(func() error { return p.watchProvider(ctx) })
	g.Go(func() error { return p.reloadOnHangup(ctx) })
	g.Go(func() error { return p.followConfig(ctx) })
	g.Go(func() error { return p.awaitRestart(ctx) })
	g.Go(func() error { p.keepGood(ctx); return nil })
	g.Go(func() error { p.tellMachine(ctx); p.confirmTypes(ctx); return nil })
	return g.Wait()
}

// serveProbes answers probes, and Prometheus where both have one address.
func (p *process) serveProbes(ctx context.Context) error {
	h := p.status.probes()
	if bind := p.static.Config.Server.Bind; bind.Metrics == bind.Health {
		h = p.status.metrics(h)
	}
	return serveHTTP(ctx, p.ls.health, p.budget.Health, h)
}

// serveMetrics answers Prometheus, where metrics have an address of their own.
func (p *process) serveMetrics(ctx context.Context) error {
	if p.ls.metrics == nil {
		return nil
	}
	p.log.InfoContext(ctx, "serving metrics", "address", p.ls.metrics.Addr())
	return serveHTTP(ctx, p.ls.metrics, p.budget.Metrics, p.status.metrics(http.NewServeMux()))
}

// testStore refuses a store that ignores conditions (F9). While it is away
// nothing can be said, and the test is repeated.
func (p *process) testStore(ctx context.Context) error {
	sum := sha256.Sum256([]byte(p.opts.ID))
	key := "leader/self-test-" + hex.EncodeToString(sum[:8])
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		report, err := p.store.SelfTest(ctx, key)
		switch {
		case err == nil:
			if report.DeleteUnconditional {
				p.log.WarnContext(ctx, "the store ignores conditions on deletes; each reads first, and may undo a write that it races with",
					"storage", p.opts.Storage, "bucket", p.opts.Bucket)
			}
			return nil
		case !objectstore.Retryable(err):
			return fmt.Errorf("storage %s, bucket %s: %w", p.opts.Storage, p.opts.Bucket, err)
		}
		p.log.WarnContext(ctx, "store not tested", "retry_in", wait, "error", err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// trace begins to send traces, if the environment says where to. What it returns
// sends the last ones.
func (p *process) trace(ctx context.Context) (stop func(), err error) {
	service := telemetry.Service{Name: "nstance-server", Version: p.opts.Version, Shard: p.opts.Shard, Server: p.opts.ID}
	provider, shutdown, err := telemetry.Start(ctx, os.Getenv, service)
	if err != nil {
		return nil, err
	}
	p.tracer = provider.Tracer("nstance.dev/server")
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
		defer cancel()
		if err := shutdown(ctx); err != nil {
			p.log.WarnContext(ctx, "last traces not sent", "error", err)
		}
	}, nil
}

// lastTraces is how long a stop waits for the traces that are not sent yet.
const lastTraces = time.Second
