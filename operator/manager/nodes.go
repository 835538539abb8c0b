package manager

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"nstance.dev/operator/credentials/kubeconfig"
)

// kubeconfigInterval is how often the kubeconfig of another workload cluster is looked at.
const kubeconfigInterval = 10 * time.Second

// workloadCluster is where Nodes and Pods are.
type workloadCluster struct {
	cluster.Cluster

	config *rest.Config
	// kubeconfigSource keeps the credentials that an administrator maintains up to date; nil: the Nodes
	// are where the operator's objects are.
	kubeconfigSource *kubeconfigSource
}

// kubeconfigSource reads the kubeconfig of a workload cluster from the Secret that an
// administrator maintains.
type kubeconfigSource struct {
	reader  client.Reader
	cluster string // name of the Cluster
	key     client.ObjectKey
	log     *slog.Logger

	transport kubeconfig.Transport
	version   string // of the Secret that is in use
}

// secret returns the Secret, nil if there is none.
func (g *kubeconfigSource) secret(ctx context.Context) (*corev1.Secret, error) {
	var s corev1.Secret
	err := g.reader.Get(ctx, g.key, &s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &s, err
}

// await returns once there is a kubeconfig that can be used, or with the reason of ctx.
func (g *kubeconfigSource) await(ctx context.Context) error {
	for {
		err := g.use(ctx)
		if err == nil {
			return nil
		}
		g.log.InfoContext(ctx, "no way to the workload cluster yet", "error", err)
		if err := pause(ctx, kubeconfigInterval); err != nil {
			return err
		}
	}
}

// follow uses each new kubeconfig, until ctx ends.
func (g *kubeconfigSource) follow(ctx context.Context) error {
	for {
		if err := pause(ctx, kubeconfigInterval); err != nil {
			return err
		}
		if err := g.use(ctx); err != nil && ctx.Err() == nil {
			g.log.WarnContext(ctx, "kubeconfig of the workload cluster not used", "error", err)
		}
	}
}

// use takes in what is in the Secret if that has changed.
func (g *kubeconfigSource) use(ctx context.Context) error {
	s, err := g.secret(ctx)
	if err != nil {
		return err
	}
	if problem := kubeconfig.Problem(g.cluster, s); problem != "" {
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
