package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"nstance.dev/operator/config"
	"nstance.dev/operator/demand/objects"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/program"
)

// leaseName is the Lease that the leader among the replicas holds.
const leaseName = "nstance-operator-leader-election"

// shutdownTimeout is how long loops get to end after SIGTERM. A Pod has more.
const shutdownTimeout = 8 * time.Second

// Scheme has every kind that the operator reads or writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, f := range features {
		if f.scheme == nil {
			continue
		}
		if err := f.scheme(scheme); err != nil {
			return nil, fmt.Errorf("scheme of feature %s: %w", f.name, err)
		}
	}
	return scheme, nil
}

// restConfig is how the API server of the operator's objects is reached.
func restConfig(s config.Settings, version string) (*rest.Config, error) {
	c, err := program.RESTConfig(s, "nstance-operator/"+version)
	if err != nil {
		return nil, err
	}
	c.QPS, c.Burst = s.KubeAPI.QPS, s.KubeAPI.Burst
	c.Wrap(drain.AskOnce)
	return c, nil
}

// managerOptions are those of the manager. cluster is the name of the Cluster; certificate serves the webhooks; nil: the
// settings name a directory, or there are none.
func managerOptions(s config.Settings, cluster string, scheme *runtime.Scheme, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) ctrl.Options {
	timeout := shutdownTimeout
	o := ctrl.Options{
		Scheme:                        scheme,
		MapperProvider:                objects.Mapper,
		Cache:                         caches{s, cluster}.options(s.WatchFilter),
		NewClient:                     newClient(s.WatchFilter),
		LeaderElection:                s.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       s.Namespace,
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        s.ProbeAddress,
		PprofBindAddress:              s.PprofAddress,
		Metrics:                       program.Metrics(s),
		GracefulShutdownTimeout:       &timeout,
		Controller:                    program.Controllers(s),
	}
	if s.Webhooks {
		server := webhook.Options{Port: s.WebhookPort, CertDir: s.WebhookCertDir, TLSOpts: []func(*tls.Config){program.RequireTLS13}}
		if certificate != nil {
			server.TLSOpts = append(server.TLSOpts, func(c *tls.Config) { c.GetCertificate = certificate })
		}
		o.WebhookServer = webhook.NewServer(server)
	}
	return o
}

// newClient returns what makes a manager's client, which reads by the indexes of its cache. With a filter, what is
// created gets its label, or nobody would see it.
func newClient(filter string) client.NewClientFunc {
	return func(c *rest.Config, o client.Options) (client.Client, error) {
		made, err := client.New(c, o)
		if err != nil {
			return nil, err
		}
		made = indexes.Client(made)
		if filter == "" {
			return made, nil
		}
		return labelingClient{made, filter}, nil
	}
}

// labelingClient labels what it creates.
type labelingClient struct {
	client.Client

	value string
}

// Create implements [client.Writer].
func (l labelingClient) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.WatchLabel] = l.value
	o.SetLabels(labels)
	return l.Client.Create(ctx, o, options...)
}
