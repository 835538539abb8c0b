package opsim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"nstance.dev/operator/backoff"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/controllers/importer"
	"nstance.dev/operator/controllers/machine"
	"nstance.dev/operator/controllers/machinepool"
	"nstance.dev/operator/controllers/node"
	"nstance.dev/operator/controllers/ondemand"
	"nstance.dev/operator/controllers/providererror"
	"nstance.dev/operator/controllers/shardgroup"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/shards"
	"nstance.dev/protos/identity"
)

const (
	namespace = "nstance"
	operator  = "operator" // who calls
)

// clusterName is the name of the Cluster and of what goes with it.
func (g *guest) clusterName() string { return capi.Cluster(g.Cluster(), identity.DefaultTenant) }

// process is one process of the operator: what package manager of the operator starts in its
// leader, with the same controllers, caches and connections.
type process struct {
	g    *guest
	hub  *inventory.Hub
	feed *inventory.Feed
	live client.Client
	mgr  ctrl.Manager
	set  *shards.Set
	cool inventory.CoolOffs
}

// host starts and stops processes of the operator, one at a time.
type host struct {
	turn turn
	stop context.CancelFunc // nil: none runs
	done chan struct{}
}

// start starts a process, unless one runs.
func (g *guest) startOperator() {
	g.host.turn.take()
	defer g.host.turn.give()
	if g.host.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(g.Context())
	done := make(chan struct{})
	g.host.stop, g.host.done = stop, done
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := g.operate(ctx); err != nil && ctx.Err() == nil {
				g.Logf("the operator ends: %v", err)
			}
			_ = wait(ctx, 2*time.Second) // its Deployment starts it again
		}
	}()
}

func (g *guest) stopOperator() {
	g.host.turn.take()
	defer g.host.turn.give()
	if g.host.stop == nil {
		return
	}
	g.host.stop()
	<-g.host.done
	g.host.stop = nil
}

// operate runs one process until ctx ends or it fails.
func (g *guest) operate(ctx context.Context) error {
	p := &process{g: g, hub: inventory.NewHub(), live: g.api.Client(operator)}
	p.feed = inventory.NewFeed(identity.DefaultTenant, p.hub, time.Now)
	p.feed.Inventory().Configure([]string{g.Shard()})
	var err error
	if p.mgr, err = p.manager(); err != nil {
		return err
	}
	if err := machine.Remember(ctx, p.live, p.feed.Inventory(), namespace, []string{g.Shard()}); err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	p.set = p.connections()
	if err := p.control(ctx); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	loops, ctx := errgroup.WithContext(ctx)
	loops.Go(func() error { return p.set.Run(ctx) })
	loops.Go(func() error { return p.mgr.Start(ctx) })
	return loops.Wait()
}

// nowhere is a network without anything: the API server is reached by other ways.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("there is no network here")
}

// cached reads from caches and writes to the API server.
type cached struct {
	client.Client

	reader client.Reader
}

// Get implements [client.Reader].
func (c cached) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o, opts...)
}

// List implements [client.Reader].
func (c cached) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, o, opts...)
}

func (p *process) manager() (ctrl.Manager, error) {
	yes, no, soon := true, false, 10*time.Second
	return ctrl.NewManager(&rest.Config{Host: "https://sim", Transport: nowhere{}}, ctrl.Options{
		Scheme: p.g.api.Scheme(), NewCache: p.g.api.NewCache(operator), Logger: logr.Discard(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return p.g.api.Mapper(), nil },
		NewClient: func(_ *rest.Config, o client.Options) (client.Client, error) {
			return indexes.Client(cached{p.live, o.Cache.Reader}), nil
		},
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", GracefulShutdownTimeout: &soon,
		// A panic is a bug, of the operator or found by a check, and nobody is to live on with it.
		Controller: ctrlconfig.Controller{SkipNameValidation: &yes, RecoverPanic: &no, MaxConcurrentReconciles: workers},
	})
}

// workers is how many objects of a kind are looked at at once: as many as there are. With
// fewer it would depend on the order of maps in client-go which of them come first.
const workers = 64

func (p *process) connections() *shards.Set {
	set := shards.NewSet(shards.Options{
		Cluster: p.g.Cluster(), Tenant: identity.DefaultTenant, Credentials: p.g.credentials, Sink: p.feed, Streams: p.feed.Streams(), Manager: "sim",
		CoordinatesDrains: true, Dial: p.g.Dial, Random: func() float64 { return 0.5 },
	})
	set.Apply([]shards.Target{{Shard: p.g.Shard(), Addresses: p.g.Servers()}})
	return set
}

func (p *process) control(ctx context.Context) error {
	if err := nodes.Register(ctx, p.mgr.GetFieldIndexer(), p.mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := indexes.Register(ctx, p.mgr.GetFieldIndexer()); err != nil {
		return err
	}
	options := func() controller.Options {
		return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: backoff.Limiter()}
	}
	machines := p.machines()
	c, say, store := p.mgr.GetClient(), recorder{p.g}, p.feed.Inventory()
	errs := []error{
		p.clusterObjects(c, say).SetupWithManager(p.mgr, p.hub),
		p.imports(c, say).SetupWithManager(p.mgr, p.hub),
		p.pools(c, say).SetupWithManager(p.mgr, p.hub, options()),
		(&shardgroup.Reconciler{
			Client: c, Live: p.live, Inventory: store, CoolOff: &p.cool, Events: say, Now: time.Now,
			Server: func(name string) (shardgroup.Server, bool) { s, ok := p.shard(name); return s, ok },
		}).SetupWithManager(p.mgr, p.hub, options()),
		machines.SetupWithManager(p.mgr, p.mgr, p.hub, options()),
		p.drains(c, say).SetupWithManager(p.mgr, p.mgr, p.hub, options()),
		node.Setup(p.mgr, p.mgr, p.hub, node.Options{
			Client: c, Namespace: namespace, Cluster: p.g.clusterName(), Workload: c, Inventory: store, MachineEvents: say, Events: say,
			SetProviderID: true, DeleteEnded: true,
		}, options),
		ondemand.New(ondemand.Options{
			Client: c, Namespace: namespace, Cluster: p.g.clusterName(), Workload: c, Live: p.live, Shards: machines.ShardsOf, Events: say,
			Rules: ondemand.Rules{ProvisionTimeout: 15 * time.Minute, Linger: time.Minute},
		}).SetupWithManager(ctx, p.mgr, p.mgr, p.hub, options()),
	}
	reporter := providererror.New(providererror.Options{
		Client: c, Namespace: namespace, Cluster: p.g.clusterName(), Events: say, CoolOff: &p.cool, Count: func(string, string, bool) {},
	})
	p.feed.OnError(reporter.Report)
	return errors.Join(append(errs, p.mgr.Add(reporter), reporter.SetupWithManager(p.mgr, options()))...)
}

func (p *process) clusterObjects(c client.Client, say recorder) *cluster.Reconciler {
	return &cluster.Reconciler{
		Client: c, Namespace: namespace, Name: p.g.clusterName(), Endpoint: clusterv1.APIEndpoint{Host: "sim", Port: 443},
		OperatorVersion: "sim", ServerVersion: func(context.Context) (string, error) { return "v1.36.0", nil },
		Shards: func() []cluster.Shard {
			var all []cluster.Shard
			for _, s := range p.set.Shards() {
				all = append(all, s)
			}
			return all
		},
		Inventory: p.feed.Inventory(), Events: say, Now: time.Now,
	}
}

func (p *process) imports(c client.Client, say recorder) *importer.Reconciler {
	return &importer.Reconciler{
		Client: c, Live: p.live, Namespace: namespace, Cluster: p.g.clusterName(),
		Settings:   func() importer.Settings { return importer.Settings{Enabled: true} },
		Shards:     func() []string { return []string{p.g.Shard()} },
		Connection: p.connection, Inventory: p.feed.Inventory(), Events: say, Now: time.Now,
	}
}

func (p *process) pools(c client.Client, say recorder) *machinepool.Reconciler {
	return &machinepool.Reconciler{
		Client: c, Live: p.live, Connection: p.connection, Inventory: p.feed.Inventory(), CoolOff: &p.cool,
		Events: say, Now: time.Now, Names: machinepool.Names{Cluster: p.g.clusterName(), ClusterID: p.g.Cluster(), Tenant: identity.DefaultTenant},
		AsMachines: true, RedirectAfter: 30 * time.Second,
	}
}

func (p *process) machines() *machine.Reconciler {
	return machine.New(machine.Options{
		Client: p.mgr.GetClient(), Live: p.live, Nodes: p.mgr.GetClient(), LiveNodes: p.live, Inventory: p.feed.Inventory(), CoolOff: &p.cool,
		Shards: func() []machine.Named {
			named := machine.Named{Name: p.g.Shard()}
			if s, ok := p.shard(p.g.Shard()); ok {
				named.Server = s
			}
			return []machine.Named{named}
		},
		Events: recorder{p.g}, ProvisionTimeout: 15 * time.Minute, NewID: p.g.NewID,
	})
}

func (p *process) drains(c client.Client, say recorder) *drain.Reconciler {
	return drain.New(drain.Options{
		Client: c, Namespace: namespace, Workload: c, Live: p.live, Inventory: p.feed.Inventory(),
		Server: func(name string) (drain.Server, bool) { s, ok := p.shard(name); return s, ok },
		Events: say, MachineEvents: say, Evictions: rate.NewLimiter(20, 20), Concurrency: 10, Force: drain.AtDeadline,
	})
}

func (p *process) connection(name string) (shards.Status, bool) {
	s, ok := p.set.Shard(name)
	if !ok {
		return shards.Status{}, false
	}
	return s.Status(), true
}

// shard returns a shard whose calls are looked at as they are sent.
func (p *process) shard(name string) (watched, bool) {
	s, ok := p.set.Shard(name)
	return watched{s, p.g}, ok
}

// recorder counts what the operator says in events.
type recorder struct{ g *guest }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	r.g.Fired("says " + reason)
}
