package manager

import (
	"context"
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/credentials/kubeconfig"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/shards"
)

// key is where an object of ours is.
func (p *process) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: p.settings.Namespace, Name: name}
}

// controllerOptions are the same for all controllers.
func (p *process) controllerOptions() controller.Options {
	return controller.Options{MaxConcurrentReconciles: p.settings.MaxConcurrentReconciles}
}

// nodesOf is the cluster that the Nodes are in.
func (p *process) nodesOf() (*workloadCluster, error) {
	if p.settings.WorkloadEndpoint == "" {
		return p.nodesHere(), nil
	}
	return p.nodesElsewhere()
}

// control starts the controllers: those that need no Nodes at once, the others when the
// Nodes can be reached. It returns when all have started, or goes on until ctx ends where
// there is a kubeconfig to follow.
func (p *process) control(ctx context.Context, set *shards.Set, there *workloadCluster, n notices) error {
	if err := nodes.Register(ctx, p.mgr.GetFieldIndexer(), there.GetFieldIndexer()); err != nil {
		return err
	}
	if err := p.controlObjects(ctx, set, there, n); err != nil {
		return err
	}
	if there.given == nil {
		return p.controlNodes(ctx, set, there)
	}
	if err := there.given.await(ctx); err != nil {
		return err
	}
	if err := p.mgr.Add(there.Cluster); err != nil {
		return fmt.Errorf("caches of the workload cluster: %w", err)
	}
	if err := p.controlNodes(ctx, set, there); err != nil {
		return err
	}
	return there.given.follow(ctx)
}

// standing says on the NstanceCluster how the operator stands.
func (p *process) standing(there *workloadCluster) *cluster.OperatorReconciler {
	return &cluster.OperatorReconciler{
		Client: p.mgr.GetClient(), Namespace: p.settings.Namespace, Name: p.cluster, Now: time.Now,
		Events: p.mgr.GetEventRecorder(recorder),
		View: func(ctx context.Context) cluster.OperatorView {
			view := cluster.OperatorView{Nonce: p.settings.NonceSecret}
			if p.known.Load() {
				_, view.CertificateUntil = p.identity.Validity()
			} else if view.Unregistered = p.unregistered.Load(); view.Unregistered == nil {
				view.Unregistered = &cluster.Problem{Reason: "Registering", Message: "the operator registers with its servers"}
			}
			if there.given != nil {
				secret, err := there.given.secret(ctx)
				if err == nil {
					view.Kubeconfig = kubeconfig.Problem(p.cluster, secret)
				}
				view.Workload = kubeconfig.Reachable(there.config)
			}
			return view
		},
	}
}

// kubeconfig keeps Cluster API connected to the cluster that it runs in.
func (p *process) kubeconfig(ctx context.Context, n notices) *kubeconfig.Reconciler {
	return &kubeconfig.Reconciler{
		Client: p.mgr.GetClient(), Store: p.store, Namespace: p.settings.Namespace, Cluster: p.cluster,
		ServiceAccount: p.settings.ServiceAccount,
		Endpoint: func() kubeconfig.Endpoint {
			return kubeconfig.Endpoint{URL: p.settings.APIServer, CA: p.apiAuthorities(ctx)}
		},
		Failed: func(ctx context.Context, err error) {
			n.warn(ctx, "KubeconfigRefreshFailed", "Refresh", "the kubeconfig of Cluster API: %v", err)
		},
		Renewed: p.metrics.TokenUntil, Now: time.Now,
	}
}

// apiAuthorities are those of the API server. In a Pod they are in a file that changes with
// them.
func (p *process) apiAuthorities(ctx context.Context) []byte {
	if p.api.CAFile == "" {
		return p.api.CAData
	}
	bundle, err := os.ReadFile(p.api.CAFile)
	if err != nil {
		p.log.WarnContext(ctx, "authorities of the API server not read", "error", err)
		return p.api.CAData
	}
	return bundle
}
