// Package manager is the operator's process: it builds everything, starts it in order, and
// ends it.
//
// Every replica serves webhooks, probes and metrics and keeps caches. One of them, the
// leader, does the rest: it makes sure of the operator's identity, connects to the shards,
// follows the configuration and runs the controllers, in that order (lead.go). Before all
// of that a process waits until the API server is ready. Whatever fails then ends the
// process, and the Deployment starts it again; that a shard cannot be reached is no failure.
//
// Nothing is decided here but the order. What each part does, its own package says. What can
// be had or left out is a feature (feature.go): the kinds that it needs, its rights, what it
// reads of Pods and how its controllers start stand in one file, and features.go lists it.
// The chart grants what the features of a release need, by a test.
package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"nstance.dev/operator/capi"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/credentials/registration"
	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/credentials/webhookcert"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/hosts/serverstate"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/program"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/unsent"
)

// Options are what a process has beside its settings.
type Options struct {
	Version string
	Log     *slog.Logger    // required
	Dial    shards.DialFunc // opens connections to shards; nil: TCP
	// Traces are where spans go; nil: nothing is traced.
	Traces trace.TracerProvider
}

// process is one process of the operator. Its fields are set before anything starts.
type process struct {
	opts     Options
	settings config.Settings

	api           *rest.Config // of the operator's objects
	mgr           ctrl.Manager
	live          client.Client // without a cache
	store         secrets.Store
	cluster       string // name of the Cluster and of what goes with it
	groupOwnerUID string // of the management cluster, by which servers tell whose groups ours are

	liveConfig liveConfig
	identity   *registration.Identity
	metrics    *metrics.Metrics
	hooks      *webhookcert.Keeper // nil: the certificate is another's business

	shardState shardState
	progress   progress
	demandFiles
}

// progress is how far a process is.
type progress struct {
	cached, leads, known atomic.Bool // caches are filled; this is the leader; it has its identity
	served               atomic.Bool // the API server serves the kinds that the leader needs
	// unregistered is why there is no identity yet; set are the connections, nil before there
	// is one.
	unregistered atomic.Pointer[cluster.Problem]
	set          atomic.Pointer[shards.Set]
}

// Run runs the operator until ctx ends. The error says why it ended before. What the
// libraries of Kubernetes log beside their callers they log for the whole process: its
// main function says where to.
func Run(ctx context.Context, s config.Settings, o Options) error {
	p, err := newProcess(ctx, s, o)
	if err == nil {
		err = p.mgr.Start(ctx)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// newProcess builds everything that every replica has, and starts nothing.
func newProcess(ctx context.Context, s config.Settings, o Options) (*process, error) {
	p := &process{opts: o, settings: s, metrics: metrics.New(ctrlmetrics.Registry)}
	p.shardState.hub, p.shardState.unsent = inventory.NewHub(), unsent.NewSizes(time.Now)
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	if p.api, err = restConfig(s, o.Version); err != nil {
		return nil, err
	}
	if err := program.AwaitAPI(ctx, p.api, s.ProbeAddress, o.Log); err != nil {
		return nil, err
	}
	p.api.Wrap(p.shardState.unsent.Transport)
	if p.live, err = client.New(p.api, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	p.store = secrets.NewStore(s.Namespace, p.live, p.live)
	if err := refuseSecondOperator(ctx, s, p.live); err != nil {
		return nil, err
	}
	present, listed, err := load(ctx, s, p.live)
	if err != nil {
		return nil, err
	}
	if p.demandFiles, err = openDemandFiles(s, present, o.Log); err != nil {
		return nil, err
	}
	p.liveConfig.set(present)
	p.liveConfig.listed = listed
	p.cluster = capi.Cluster(present.ClusterID, present.Tenant)
	p.shardState.feed = inventory.NewFeed(present.Tenant, p.shardState.hub, time.Now)
	p.shardState.feed.Inventory().Configure(present.Names())
	p.shardState.hosts.reports = reports.New()
	if s.Webhooks && s.WebhookCertDir == "" {
		p.hooks = &webhookcert.Keeper{
			Store: p.store, Secret: s.WebhookSecret, Names: webhookcert.Names(s.WebhookService, s.Namespace), Log: o.Log, Now: time.Now,
		}
	}
	managed := managerOptions(s, p.cluster, scheme, p.certificate())
	managed.Logger = logr.FromSlogHandler(o.Log.Handler())
	if p.mgr, err = ctrl.NewManager(p.api, managed); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	return p, p.add()
}

// certificate returns what serves the webhooks, nil if a directory does.
func (p *process) certificate() func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if p.hooks == nil {
		return nil
	}
	return p.hooks.GetCertificate
}

// add gives the manager what it is to run.
func (p *process) add() error {
	errs := []error{
		p.addChecks(),
		p.mgr.Add(everyReplica(func(context.Context) error { // after the caches
			p.progress.cached.Store(true)
			return nil
		})),
		p.mgr.Add(manager.RunnableFunc(p.lead)),
		p.webhooks(),
	}
	if p.hooks != nil {
		errs = append(errs, p.mgr.Add(everyReplica(p.hooks.Run)))
	}
	if p.settings.Demand.Enabled {
		errs = append(errs, p.mgr.Add(everyReplica(p.penalties.Run)))
	}
	return errors.Join(errs...)
}

// everyReplica is a runnable that needs no leader election.
type everyReplica func(context.Context) error

// Start implements [manager.Runnable].
func (a everyReplica) Start(ctx context.Context) error { return a(ctx) }

// NeedLeaderElection implements [manager.LeaderElectionRunnable].
func (everyReplica) NeedLeaderElection() bool { return false }

// awaitKinds waits until an API server serves those kinds of the features that are chosen.
func (p *process) awaitKinds(ctx context.Context, api *rest.Config, chosen func(kind) bool) error {
	d, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	wanted := slices.DeleteFunc(kindsOf(featuresOf(p.settings)), func(k kind) bool { return !chosen(k) })
	return program.AwaitKinds(ctx, required(wanted), d, "", p.opts.Log) // the manager answers probes
}

// managerID is whose groups ours are, for the servers: it is the same for all operators of
// a management cluster, and for no other's.
func (p *process) managerID(ctx context.Context) (string, error) {
	var system corev1.Namespace
	if err := p.live.Get(ctx, types.NamespacedName{Name: "kube-system"}, &system); err != nil {
		return "", fmt.Errorf("get namespace kube-system: %w", err)
	}
	return string(system.UID), nil
}

// config returns the configuration that is in force.
func (p *process) config() config.Config { return p.liveConfig.get() }

// addChecks says what a healthy and what a ready process is. Shards count for neither, nor
// does a registration: a process that is started again reaches them no better, and condition
// OperatorRegistered of the NstanceCluster says what is missing.
func (p *process) addChecks() error {
	errs := []error{
		p.mgr.AddHealthzCheck("process", healthz.Ping),
		p.mgr.AddReadyzCheck("caches", unlessSet(p.progress.cached.Load, "caches are not filled yet")),
		p.mgr.AddReadyzCheck("kinds", unlessSet(func() bool { return !p.progress.leads.Load() || p.progress.served.Load() }, "the operator waits for kinds of the API server")),
	}
	if p.settings.Hosts {
		held := serverstate.NewPolicies(p.live, p.opts.Log)
		errs = append(errs, p.mgr.Add(held), p.mgr.AddReadyzCheck("host-policies", held.Ready))
	}
	if p.settings.Webhooks {
		errs = append(errs, p.mgr.AddHealthzCheck("webhooks", p.mgr.GetWebhookServer().StartedChecker()))
	}
	if p.hooks != nil {
		errs = append(errs, p.mgr.AddReadyzCheck("webhook-certificate", p.hooks.Ready))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("probes: %w", err)
	}
	return nil
}

func unlessSet(set func() bool, otherwise string) healthz.Checker {
	return func(*http.Request) error {
		if set() {
			return nil
		}
		return errors.New(otherwise)
	}
}
