package manager

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	clusterstatus "nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/credentials/kubeconfig"
	"nstance.dev/operator/demand/objects"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/telemetry"
)

// key is where an object of ours is.
func (p *process) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: p.settings.Namespace, Name: name}
}

// findWorkload returns the workload cluster: the one that the Nodes are in.
func (p *process) findWorkload() (*workloadCluster, error) {
	if p.settings.WorkloadEndpoint == "" {
		return p.selfManaged(), nil
	}
	return p.external()
}

// selfManaged returns the operator's own cluster as the workload cluster.
func (p *process) selfManaged() *workloadCluster {
	return &workloadCluster{Cluster: p.mgr, config: p.api}
}

// external returns another cluster as the workload cluster. Its kubeconfig may not exist yet.
func (p *process) external() (*workloadCluster, error) {
	g := &kubeconfigSource{reader: p.mgr.GetClient(), cluster: p.cluster, key: p.key(kubeconfig.Name(p.cluster)), log: p.opts.Log}
	c := kubeconfig.ClientConfig(p.settings.WorkloadEndpoint, &g.transport, p.api)
	c.Wrap(drain.AskOnce)
	workload, err := cluster.New(c, func(o *cluster.Options) {
		o.Scheme, o.MapperProvider, o.Cache = p.mgr.GetScheme(), objects.Mapper, caches{p.settings, p.cluster}.options("")
	})
	if err != nil {
		return nil, fmt.Errorf("client of the workload cluster: %w", err)
	}
	return &workloadCluster{Cluster: workload, config: c, kubeconfigSource: g}, nil
}

// wiring is what features are set up with. There are no connections before the operator has
// its identity.
func (p *process) wiring(workload *workloadCluster) wiring {
	return wiring{
		settings: p.settings, version: p.opts.Version, cluster: p.cluster, config: p.config, api: p.api, mgr: p.mgr, live: p.live, workload: workload,
		connected: p.progress.set.Load, registered: p.registrationStatus, shardState: &p.shardState, metrics: p.metrics, traces: p.traces(),
		demandFiles: p.demandFiles,
		notices:     notices{recorder: p.mgr.GetEventRecorder(recorder), reader: p.mgr.GetClient(), key: p.key(p.cluster), log: p.opts.Log},
	}
}

// traces returns what follows changes to the shards; nil: nothing does.
func (p *process) traces() *telemetry.Traces {
	if p.opts.Traces == nil {
		return nil
	}
	return telemetry.NewTraces(p.opts.Traces.Tracer("nstance.dev/operator"))
}

// registrationStatus returns until when the certificate is valid, or why there is none.
func (p *process) registrationStatus() (time.Time, *clusterstatus.Problem) {
	if p.progress.known.Load() {
		_, until := p.identity.Validity()
		return until, nil
	}
	if problem := p.progress.unregistered.Load(); problem != nil {
		return time.Time{}, problem
	}
	return time.Time{}, &clusterstatus.Problem{Reason: "Registering", Message: "the operator registers with its servers"}
}

// control starts the controllers: those that need no Nodes at once, the others when the
// Nodes can be reached. It returns when all have started, or goes on until ctx ends where
// there is a kubeconfig to follow. Another cluster of Nodes is first asked for its kinds by atNodes.
func control(ctx context.Context, w wiring, atNodes func(context.Context, *rest.Config) error) error {
	if err := nodes.Register(ctx, w.mgr.GetFieldIndexer(), w.workload.GetFieldIndexer()); err != nil {
		return err
	}
	if err := indexes.Register(ctx, w.mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := start(ctx, w, feature.atObjects); err != nil {
		return err
	}
	if w.workload.kubeconfigSource == nil {
		return start(ctx, w, feature.atNodes)
	}
	if err := w.workload.kubeconfigSource.await(ctx); err != nil {
		return err
	}
	if err := atNodes(ctx, w.workload.config); err != nil {
		return err
	}
	if err := w.mgr.Add(w.workload.Cluster); err != nil {
		return fmt.Errorf("caches of the workload cluster: %w", err)
	}
	if err := start(ctx, w, feature.atNodes); err != nil {
		return err
	}
	return w.workload.kubeconfigSource.follow(ctx)
}

// webhooks registers the handlers of the webhooks, on every replica.
func (p *process) webhooks() error {
	if !p.settings.Webhooks {
		return nil
	}
	for _, f := range featuresOf(p.settings) {
		if f.webhooks == nil {
			continue
		}
		if err := f.webhooks(p.mgr, p.settings); err != nil {
			return fmt.Errorf("webhooks of feature %s: %w", f.name, err)
		}
	}
	return nil
}
