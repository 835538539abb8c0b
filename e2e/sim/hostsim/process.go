package hostsim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/operator/controllers/hosts/selection"
	"nstance.dev/operator/controllers/hosts/versions"
)

// process is one process of the operator, with a publisher beside its controllers.
type process struct {
	w        *world
	name     string
	cache    *informers
	client   client.Client
	live     client.Client
	versions *versions.Reconciler
	ctx      context.Context //nolint:containedctx // the process's: everything in it ends with it
	cancel   context.CancelFunc
	ended    chan struct{}

	mu         sync.Mutex
	dead       bool
	queues     []*queue
	locking    map[string]bool      // configurations of which the publisher locks a version
	publishing map[string]bool      // machines
	pause      map[string]time.Time // until when a machine is not published again
	basis      map[string]*basis    // what was read, by who reads
}

// start starts a process, whose cache holds what is there now.
func (w *world) launch(name string) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		w: w, name: name, cache: newInformers(w.api), ctx: ctx, cancel: cancel, ended: make(chan struct{}),
		locking: map[string]bool{}, publishing: map[string]bool{}, pause: map[string]time.Time{}, basis: map[string]*basis{},
	}
	p.live = p.connection(false)
	p.client = p.connection(true)
	mgr, err := p.manager()
	if err != nil {
		panic(fmt.Sprintf("hostsim: %v", err)) // nothing of it depends on the plan
	}
	go func() {
		defer close(p.ended)
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			panic(fmt.Sprintf("hostsim: the manager ends: %v", err))
		}
	}()
	return p
}

// nowhere is a network without anything: the API server is reached by other ways.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("there is no network here")
}

// silent takes events of objects, which nothing depends on.
type silent struct{}

// Eventf implements events.EventRecorder.
func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func (p *process) manager() (ctrl.Manager, error) {
	yes, no, soon := true, false, 10*time.Second
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://sim", Transport: nowhere{}}, ctrl.Options{
		Scheme: p.w.api.Scheme(), Logger: logr.Discard(),
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return p.cache, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return p.w.api.Direct.RESTMapper(), nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return p.client, nil },
		Metrics:        metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", GracefulShutdownTimeout: &soon,
		// A panic is a bug, of the controllers or found by a check, and nobody is to live on with it.
		Controller: ctrlconfig.Controller{SkipNameValidation: &yes, RecoverPanic: &no},
	})
	if err != nil {
		return nil, err
	}
	p.versions = versions.New(versions.Options{Client: p.client, Live: p.live, Events: silent{}, Now: time.Now})
	chosen := selection.Options{Client: p.client, Live: p.live, Events: silent{}, APIServer: func() string { return apiServer }, Now: time.Now}
	return mgr, errors.Join(
		p.versions.SetupWithManager(mgr, p.options(2)),
		selection.SetupWithManager(p.ctx, mgr, chosen, p.options(3), p.options(1)),
	)
}

// apiServer is the version of the API server.
const apiServer = "v1.36.3"

func (p *process) options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		NewQueue: func(name string, _ workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			q := newQueue(name)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.queues = append(p.queues, q)
			return q
		},
	}
}

// end ends a process at once: no call of it arrives any more.
func (p *process) end() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.cancel()
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// all are the queues of a process, in the order of their names.
func (p *process) all() []*queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	return sortedBy(p.queues, func(q *queue) string { return q.name })
}

// versionsQueue is the name of the controller that works on the versions of a configuration.
const versionsQueue = "hosts-versions"

// versionsOf is whether somebody in the process works on the versions of a configuration: a worker
// or the publisher. They wait for each other by a mutex, on which the world cannot look.
func (p *process) versionsBusy(configuration string) bool {
	for _, q := range p.all() {
		if q.name == versionsQueue && q.works(configuration) {
			return true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.locking[configuration]
}
