package manager

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	clusterstatus "nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/credentials/kubeconfig"
	"nstance.dev/operator/nodes"
)

// key is where an object of ours is.
func (p *process) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: p.settings.Namespace, Name: name}
}

// nodesOf is the cluster that the Nodes are in.
func (p *process) nodesOf() (*workloadCluster, error) {
	if p.settings.WorkloadEndpoint == "" {
		return p.nodesHere(), nil
	}
	return p.nodesElsewhere()
}

// nodesHere is a cluster that manages itself.
func (p *process) nodesHere() *workloadCluster {
	return &workloadCluster{Cluster: p.mgr, config: p.api}
}

// nodesElsewhere is another cluster, whose kubeconfig may not be there yet.
func (p *process) nodesElsewhere() (*workloadCluster, error) {
	g := &given{reader: p.mgr.GetClient(), cluster: p.cluster, key: p.key(kubeconfig.Name(p.cluster)), log: p.log}
	c := kubeconfig.ClientConfig(p.settings.WorkloadEndpoint, &g.transport, p.api)
	there, err := cluster.New(c, func(o *cluster.Options) {
		o.Scheme, o.Cache = p.mgr.GetScheme(), caches{p.settings, p.cluster}.options("")
	})
	if err != nil {
		return nil, fmt.Errorf("client of the workload cluster: %w", err)
	}
	return &workloadCluster{Cluster: there, config: c, given: g}, nil
}

// wiring is what features are set up with. There are no connections before the operator has
// its identity.
func (p *process) wiring(there *workloadCluster) wiring {
	return wiring{
		settings: p.settings, version: p.options.Version, cluster: p.cluster, config: p.config, api: p.api, mgr: p.mgr, live: p.live, there: there,
		connected: p.set.Load, registered: p.standing, hub: p.hub, feed: p.feed, coolOff: &p.coolOff, metrics: p.metrics,
		notices: notices{recorder: p.mgr.GetEventRecorder(recorder), reader: p.mgr.GetClient(), key: p.key(p.cluster), log: p.log},
	}
}

// standing says until when the certificate is good, or why there is none.
func (p *process) standing() (time.Time, *clusterstatus.Problem) {
	if p.known.Load() {
		_, until := p.identity.Validity()
		return until, nil
	}
	if problem := p.unregistered.Load(); problem != nil {
		return time.Time{}, problem
	}
	return time.Time{}, &clusterstatus.Problem{Reason: "Registering", Message: "the operator registers with its servers"}
}

// control starts the controllers: those that need no Nodes at once, the others when the
// Nodes can be reached. It returns when all have started, or goes on until ctx ends where
// there is a kubeconfig to follow.
func control(ctx context.Context, w wiring) error {
	if err := nodes.Register(ctx, w.mgr.GetFieldIndexer(), w.there.GetFieldIndexer()); err != nil {
		return err
	}
	if err := start(ctx, w, feature.atObjects); err != nil {
		return err
	}
	if w.there.given == nil {
		return start(ctx, w, feature.atNodes)
	}
	if err := w.there.given.await(ctx); err != nil {
		return err
	}
	if err := w.mgr.Add(w.there.Cluster); err != nil {
		return fmt.Errorf("caches of the workload cluster: %w", err)
	}
	if err := start(ctx, w, feature.atNodes); err != nil {
		return err
	}
	return w.there.given.follow(ctx)
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
