package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"nstance.dev/operator/credentials/kubeconfig"
)

// kubeconfigInterval is how often the kubeconfig of another workload cluster is looked at.
const kubeconfigInterval = 10 * time.Second

// workloadCluster is where Nodes and Pods are.
type workloadCluster struct {
	cluster.Cluster

	config *rest.Config
	// given keeps the credentials up to date that an administrator gives; nil: the Nodes
	// are where the operator's objects are.
	given *given
}

// nodesHere is a cluster that manages itself.
func (p *process) nodesHere() *workloadCluster {
	return &workloadCluster{Cluster: p.mgr, config: p.api}
}

// nodesElsewhere is another cluster, whose kubeconfig may not be there yet.
func (p *process) nodesElsewhere() (*workloadCluster, error) {
	g := &given{process: p}
	c := kubeconfig.ClientConfig(p.settings.WorkloadEndpoint, &g.transport, p.api)
	there, err := cluster.New(c, func(o *cluster.Options) {
		o.Scheme, o.Cache = p.mgr.GetScheme(), caches{p.settings, p.cluster}.options("")
	})
	if err != nil {
		return nil, fmt.Errorf("client of the workload cluster: %w", err)
	}
	return &workloadCluster{Cluster: there, config: c, given: g}, nil
}

// given is the kubeconfig of a workload cluster, as an administrator keeps it.
type given struct {
	process   *process
	transport kubeconfig.Transport
	version   string // of the Secret that is in use
}

// secret returns the Secret, nil if there is none.
func (g *given) secret(ctx context.Context) (*corev1.Secret, error) {
	var s corev1.Secret
	err := g.process.mgr.GetClient().Get(ctx, g.process.key(kubeconfig.Name(g.process.cluster)), &s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &s, err
}

// await returns once there is a kubeconfig that can be used, or with the reason of ctx.
func (g *given) await(ctx context.Context) error {
	for {
		err := g.use(ctx)
		if err == nil {
			return nil
		}
		g.process.log.InfoContext(ctx, "no way to the workload cluster yet", "error", err)
		if err := pause(ctx, kubeconfigInterval); err != nil {
			return err
		}
	}
}

// follow uses each new kubeconfig, until ctx ends.
func (g *given) follow(ctx context.Context) error {
	for {
		if err := pause(ctx, kubeconfigInterval); err != nil {
			return err
		}
		if err := g.use(ctx); err != nil && ctx.Err() == nil {
			g.process.log.WarnContext(ctx, "kubeconfig of the workload cluster not used", "error", err)
		}
	}
}

// use takes in what is in the Secret if that has changed.
func (g *given) use(ctx context.Context) error {
	s, err := g.secret(ctx)
	if err != nil {
		return err
	}
	if problem := kubeconfig.Problem(g.process.cluster, s); problem != "" {
		return errors.New(problem)
	}
	if s.ResourceVersion == g.version {
		return nil
	}
	if err := g.transport.Use(kubeconfig.Of(s)); err != nil {
		return err
	}
	g.version = s.ResourceVersion
	return nil
}
