package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/cache"
	"nstance.dev/server/calls"
	"nstance.dev/server/config"
	"nstance.dev/server/configsource"
	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
)

// process is one run of a server in this process. A restart is another run.
type process struct {
	opts   Options
	log    *slog.Logger
	status *status

	source *configsource.Source
	static config.Version // that the run began with
	tried  string         // etag of the stored version that this run is the first to serve with; empty: of none
	unfit  string         // etag of the stored version with which the run before failed; empty: of none
	proof  *proof         // that the configuration works

	res    *resources // nil: not opened
	server *server    // nil: not wired
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
		status: newStatus(), proof: &proof{done: make(chan struct{})},
	}
}

// outset is what one run of a server in this process leaves to the next.
type outset struct {
	good  *config.Version // a configuration that was in force; nil: none yet
	unfit string          // etag of the stored version with which the run before failed; empty: of none
	why   string          // it failed
}

// next says whether the server starts again after a run that ended with err, and from
// what: because a changed configuration asks for it, or with the last good one, where
// nothing could be led or followed with the stored one (S26).
func (p *process) next(ctx context.Context, from outset, err error) (next outset, again bool) {
	switch {
	case errors.Is(err, errRestart):
		static := p.server.shard.Static()
		return outset{good: &static}, true
	case err == nil, ctx.Err() != nil, p.tried == "", errors.Is(err, lease.ErrDuplicateID):
		return outset{}, false
	case from.good != nil && from.good.ETag == p.tried:
		return outset{}, false // it worked before: something else is wrong
	case p.proof.isGiven():
		return outset{}, false
	}
	good := from.good
	if good == nil {
		kept, keptErr := p.source.LastGood()
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
	if err != nil && p.res != nil {
		exitJitter(ctx, p.static.Config.Server.ErrorExitJitter)
	}
	return err
}

// run serves once, until ctx ends or the configuration asks for another start.
func (p *process) run(ctx context.Context, from outset) (err error) {
	if err := p.open(ctx, from); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.res.close()) }()
	if err := testStore(ctx, p.res.store, p.opts.Flags, p.log); err != nil {
		return err
	}
	tracer, stopTracing, err := startTracing(ctx, p.opts, p.log)
	if err != nil {
		return err
	}
	defer stopTracing()
	if p.server, err = newServer(p, tracer); err != nil {
		return err
	}
	p.status.ready.Store(true)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.server.run(ctx) })
	g.Go(func() error { p.keepGood(ctx); return nil })
	return g.Wait()
}

// keepGood keeps a copy of the configuration that this run began with, once it has
// proved to work.
func (p *process) keepGood(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.proof.done:
		p.source.Keep(ctx, p.tried)
	}
}

// open brings up everything that does not depend on who leads. If it fails
// nothing was started.
func (p *process) open(ctx context.Context, from outset) error {
	storage, storageCalls := &calls.Book{}, newStorageCalls()
	p.status.registry.MustRegister(storageCalls)
	store, err := p.opts.openStore(ctx, storage, storageCalls)
	if err != nil {
		return err
	}
	budget, err := connectionBudget()
	if err != nil {
		return err
	}
	p.source = configsource.New(store, configsource.Options{
		Shard: p.opts.Shard, CacheDir: p.opts.CacheDir, Load: loadOptions(p.opts.Flags, p.opts.Provider), Log: p.log,
	})
	p.status.registry.MustRegister(p.source.Metric())
	if p.static, err = p.configure(ctx); err != nil {
		return err
	}
	p.tried = p.static.ETag
	if from.unfit != "" && from.unfit == p.static.ETag {
		p.static, p.tried, p.unfit = *from.good, "", from.unfit
		p.source.Reject(from.unfit, "this server could not start with it: "+from.why)
	}
	res := &resources{store: store, storage: storage, budget: budget}
	if err := res.open(ctx, p.opts, p.static.Config, p.log); err != nil {
		return err
	}
	p.res = res
	p.status.registry.MustRegister(res.keys.Metric())
	if v, ok := res.drv.(driver.TypeValidator); ok {
		p.source.AskTypes(v, p.static.Config.Server.RequestTimeout.Std())
	}
	return nil
}

// configure loads the configuration. While storage is away and no copy was kept,
// the health port already says that the server is not ready.
func (p *process) configure(ctx context.Context) (config.Version, error) {
	waitCtx, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait() // the port is free again for the real one
	defer stop()
	opened := false
	return p.source.Start(ctx, func() {
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

// proof is whether the configuration that a run began with works: with it the shard
// was led or followed. It is safe for concurrent use.
type proof struct {
	once sync.Once
	done chan struct{} // closed once it is given
}

func (p *proof) give() { p.once.Do(func() { close(p.done) }) }

func (p *proof) isGiven() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
