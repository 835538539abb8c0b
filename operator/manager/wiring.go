package manager

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/controllers/importer"
	"nstance.dev/operator/controllers/machine"
	"nstance.dev/operator/controllers/machinepool"
	"nstance.dev/operator/controllers/machinetemplate"
	"nstance.dev/operator/controllers/node"
	"nstance.dev/operator/controllers/ondemand"
	"nstance.dev/operator/controllers/providererror"
	"nstance.dev/operator/controllers/shardgroup"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/shards"
)

// recorder is the name under which events are sent.
const recorder = "nstance-operator"

// controlCluster starts the controllers of the cluster's own objects. They come before the
// identity, so that it can be seen why there is none.
func (p *process) controlCluster(there *workloadCluster) error {
	endpoint, err := p.endpoint()
	if err != nil {
		return err
	}
	versions, err := discovery.NewDiscoveryClientForConfig(there.config)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	return errors.Join(
		p.clusterObjects(endpoint, versions, p.mgr.GetEventRecorder(recorder)).SetupWithManager(p.mgr, p.hub),
		p.standing(there).SetupWithManager(p.mgr),
	)
}

// controlObjects starts the controllers of the other objects in the operator's namespace.
func (p *process) controlObjects(ctx context.Context, set *shards.Set, there *workloadCluster, n notices) error {
	options, events := p.controllerOptions(), p.mgr.GetEventRecorder(recorder)
	errs := []error{
		p.imports(set, events).SetupWithManager(p.mgr, p.hub),
		p.pools(set, events).SetupWithManager(p.mgr, p.hub, options),
		p.shardGroups(set, events).SetupWithManager(p.mgr, p.hub, options),
		p.templates().SetupWithManager(p.mgr, p.hub, options),
		p.reportErrors(events),
	}
	if there.given == nil {
		errs = append(errs, p.kubeconfig(ctx, n).SetupWithManager(p.mgr, options))
	}
	return errors.Join(errs...)
}

// controlNodes starts the controllers that look at Nodes and Pods.
func (p *process) controlNodes(ctx context.Context, set *shards.Set, there *workloadCluster) error {
	machines := p.machines(set, there)
	errs := []error{
		p.countObjects(there),
		machines.SetupWithManager(p.mgr, there.Cluster, p.hub, p.controllerOptions()),
		p.drains(ctx, set, there).SetupWithManager(p.mgr, there.Cluster, p.hub, p.controllerOptions()),
		node.Setup(p.mgr, there.Cluster, p.hub, p.correlation(there), p.controllerOptions()),
	}
	if p.settings.OnDemand != config.OnDemandOff {
		errs = append(errs, p.onDemand(machines, there).SetupWithManager(ctx, p.mgr, there.Cluster, p.hub, p.controllerOptions()))
	}
	return errors.Join(errs...)
}

func (p *process) clusterObjects(endpoint clusterv1.APIEndpoint, versions discovery.ServerVersionInterface, events events.EventRecorder) *cluster.Reconciler {
	return &cluster.Reconciler{
		Client: p.mgr.GetClient(), Namespace: p.settings.Namespace, Name: p.cluster, Endpoint: endpoint,
		OperatorVersion: p.options.Version,
		ServerVersion: func(context.Context) (string, error) {
			v, err := versions.ServerVersion()
			if err != nil {
				return "", fmt.Errorf("version of the API server: %w", err)
			}
			return v.GitVersion, nil
		},
		Shards: func() []cluster.Shard {
			var all []cluster.Shard
			set := p.set.Load()
			if set == nil {
				for _, name := range p.config().Names() {
					all = append(all, unconnected(name))
				}
				return all
			}
			for _, s := range set.Shards() {
				all = append(all, s)
			}
			return all
		},
		Inventory: p.feed.Inventory(), Events: events, Now: time.Now,
	}
}

// unconnected is a shard to which there is no connection because the operator is not
// registered.
type unconnected string

// Name implements [cluster.Shard].
func (u unconnected) Name() string { return string(u) }

// Status implements [cluster.Shard].
func (u unconnected) Status() shards.Status {
	return shards.Status{State: shards.Connecting, Message: "the operator is not registered"}
}

func (p *process) imports(set *shards.Set, events events.EventRecorder) *importer.Reconciler {
	return &importer.Reconciler{
		Client: p.mgr.GetClient(), Live: p.live, Namespace: p.settings.Namespace, Cluster: p.cluster,
		Settings: func() importer.Settings {
			c := p.config().Import
			return importer.Settings{Enabled: c.Enabled, PerShard: c.Pools == config.PerShard, Exclude: c.Exclude}
		},
		Shards:     func() []string { return p.config().Names() },
		Connection: connection(set), Inventory: p.feed.Inventory(), Events: events, Now: time.Now,
	}
}

func (p *process) pools(set *shards.Set, events events.EventRecorder) *machinepool.Reconciler {
	return &machinepool.Reconciler{
		Client: p.mgr.GetClient(), Live: p.live, Connection: connection(set), Inventory: p.feed.Inventory(), CoolOff: &p.coolOff,
		Events: events, Now: time.Now,
		Cluster: p.cluster, ClusterID: p.config().ClusterID, Tenant: p.config().Tenant,
		AsMachines: p.settings.MachinePoolMachines, RedirectAfter: p.settings.RedirectAfter - p.settings.UnreachableGrace,
		MemoryShare: p.settings.MemoryFactor,
		Redirected: func(group, shard string, why machinepool.Redirection) {
			p.metrics.GrowthRedirected(group, shard, string(why))
		},
	}
}

func (p *process) shardGroups(set *shards.Set, events events.EventRecorder) *shardgroup.Reconciler {
	return &shardgroup.Reconciler{
		Client: p.mgr.GetClient(), Live: p.live, Inventory: p.feed.Inventory(), CoolOff: &p.coolOff, Events: events, Now: time.Now,
		Server: func(name string) (shardgroup.Server, bool) { return set.Shard(name) },
	}
}

func (p *process) templates() *machinetemplate.Reconciler {
	return &machinetemplate.Reconciler{
		Client: p.mgr.GetClient(), Shards: func() []string { return p.config().Names() }, Inventory: p.feed.Inventory(),
		MemoryShare: p.settings.MemoryFactor, Now: time.Now,
	}
}

func (p *process) machines(set *shards.Set, there *workloadCluster) *machine.Reconciler {
	return machine.New(machine.Options{
		Client: p.mgr.GetClient(), Live: p.live, Nodes: there.GetClient(), Inventory: p.feed.Inventory(), CoolOff: &p.coolOff,
		Shards: func() []machine.Named {
			var all []machine.Named
			for _, name := range p.config().Names() {
				named := machine.Named{Name: name}
				if s, ok := set.Shard(name); ok {
					named.Server = s
				}
				all = append(all, named)
			}
			return all
		},
		Events: p.mgr.GetEventRecorder(recorder), ProvisionTimeout: p.settings.OnDemandProvisionTimeout, Leaked: p.metrics.Leaked,
	})
}

func (p *process) drains(ctx context.Context, set *shards.Set, there *workloadCluster) *drain.Reconciler {
	return drain.New(drain.Options{
		Client: p.mgr.GetClient(), Namespace: p.settings.Namespace,
		Workload: there.GetClient(), Live: there.GetAPIReader(), Inventory: p.feed.Inventory(),
		Server: func(name string) (drain.Server, bool) { return set.Shard(name) },
		Events: there.GetEventRecorder(recorder), MachineEvents: p.mgr.GetEventRecorder(recorder),
		Evictions: rate.NewLimiter(rate.Limit(p.settings.EvictionQPS), max(1, int(p.settings.EvictionQPS))), Concurrency: p.settings.DrainConcurrency,
		Force: drain.Force(p.settings.DrainForce), Self: p.self(ctx),
		Observer: drain.Observer{
			Drained:      func(e drain.Ended) { p.metrics.Drained(e.Reason, e.Forced, e.Took, e.Slack, e.Left) },
			Pod:          p.metrics.PodMoved,
			Acknowledged: p.metrics.Acknowledged,
			Blocked:      p.metrics.DrainBlocked,
		},
	})
}

func (p *process) correlation(there *workloadCluster) node.Options {
	return node.Options{
		Client: p.mgr.GetClient(), Namespace: p.settings.Namespace, Cluster: p.cluster, Workload: there.GetClient(), Inventory: p.feed.Inventory(),
		MachineEvents: p.mgr.GetEventRecorder(recorder), Events: there.GetEventRecorder(recorder),
		SetProviderID: p.settings.SetNodeProviderID, DeleteOrphans: p.settings.DeleteOrphanNodes,
	}
}

func (p *process) onDemand(machines *machine.Reconciler, there *workloadCluster) *ondemand.Reconciler {
	return ondemand.New(ondemand.Options{
		Client: p.mgr.GetClient(), Namespace: p.settings.Namespace, Cluster: p.cluster,
		Workload: there.GetClient(), Live: there.GetAPIReader(), Shards: machines.ShardsOf, Events: there.GetEventRecorder(recorder),
		Rules: ondemand.Rules{
			ProvisionTimeout: p.settings.OnDemandProvisionTimeout, Linger: p.settings.OnDemandLinger,
			Namespaces: p.settings.OnDemandNamespaces, MaxPerNamespace: p.settings.OnDemandMaxPerNamespace,
		},
		Ready: p.metrics.OnDemandReady,
	})
}

// reportErrors passes on what the shards report of their providers.
func (p *process) reportErrors(events events.EventRecorder) error {
	reporter := providererror.New(providererror.Options{
		Client: p.mgr.GetClient(), Namespace: p.settings.Namespace, Cluster: p.cluster, Events: events, CoolOff: &p.coolOff,
		Count: func(shard, class string, _ bool) { p.metrics.ProviderError(shard, class) },
	})
	p.feed.OnError(reporter.Report)
	return errors.Join(p.mgr.Add(reporter), reporter.SetupWithManager(p.mgr, p.controllerOptions()))
}

// countObjects has the metrics show what stands in objects, and time how pools grow.
func (p *process) countObjects(there *workloadCluster) error {
	objects := metrics.Objects{
		Reader: p.mgr.GetClient(), Nodes: there.GetClient(), Namespace: p.settings.Namespace, Inventory: p.feed.Inventory(), Now: time.Now,
	}
	if err := ctrlmetrics.Registry.Register(objects); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if err := p.mgr.Add(metrics.Growth{Objects: objects, Ready: p.metrics.PoolReady}); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// connection returns what says how the operator stands with a shard.
func connection(set *shards.Set) func(shard string) (shards.Status, bool) {
	return func(name string) (shards.Status, bool) {
		s, ok := set.Shard(name)
		if !ok {
			return shards.Status{}, false
		}
		return s.Status(), true
	}
}

// endpoint is where the API server of the Nodes is reached.
func (p *process) endpoint() (clusterv1.APIEndpoint, error) {
	address := p.settings.WorkloadEndpoint
	if address == "" {
		address = p.api.Host
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return clusterv1.APIEndpoint{}, fmt.Errorf("address of the API server: %q is not of the form https://host:port", address)
	}
	port := 443
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return clusterv1.APIEndpoint{}, fmt.Errorf("port of the API server: %w", err)
		}
	}
	return clusterv1.APIEndpoint{Host: u.Hostname(), Port: int32(port)}, nil
}

// self returns the UID of the operator's own Pod, "" if it runs in none of the cluster of
// its objects.
func (p *process) self(ctx context.Context) types.UID {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	var pod corev1.Pod
	if err := p.live.Get(ctx, p.key(name), &pod); err != nil {
		return ""
	}
	return pod.UID
}
