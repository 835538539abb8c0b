package manager

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/credentials/kubeconfig"
	"nstance.dev/operator/shards"
)

// clusterFeature makes the objects of the cluster itself, and says how the operator stands
// with its shards, its identity and the Nodes. It comes before the identity, so that it can be
// seen why there is none.
var clusterFeature = feature{
	name: "cluster",
	scheme: func(s *runtime.Scheme) error {
		return errors.Join(clusterv1.AddToScheme(s), infrav1.AddToScheme(s), controlplanev1.AddToScheme(s))
	},
	kinds: []kind{
		{version: infrav1.GroupVersion, object: &infrav1.NstanceCluster{}},
		{version: controlplanev1.GroupVersion, object: &controlplanev1.NstanceControlPlane{}},
		{version: clusterv1.GroupVersion, object: &clusterv1.Cluster{}},
	},
	rights: []Right{
		to("get list watch create", InNamespace, clusterAPI, "clusters"),
		to("get list watch create patch", InNamespace, infrastructure, "nstanceclusters"),
		to("patch", InNamespace, infrastructure, "nstanceclusters/status"),
		to("list watch create", InNamespace, controlPlane, "nstancecontrolplanes"),
		to("patch", InNamespace, controlPlane, "nstancecontrolplanes/status"),
	},
	early: func(_ context.Context, w wiring) error {
		endpoint, err := w.endpoint()
		if err != nil {
			return err
		}
		versions, err := discovery.NewDiscoveryClientForConfig(w.workload.config)
		if err != nil {
			return fmt.Errorf("discovery: %w", err)
		}
		return errors.Join(
			w.clusterObjects(endpoint, versions).SetupWithManager(w.mgr, w.shardState.hub),
			w.operatorStatus().SetupWithManager(w.mgr),
		)
	},
}

func (w wiring) clusterObjects(endpoint clusterv1.APIEndpoint, versions discovery.ServerVersionInterface) *cluster.Reconciler {
	return &cluster.Reconciler{
		Client: w.mgr.GetClient(), Namespace: w.settings.Namespace, Name: w.cluster, Endpoint: endpoint,
		OperatorVersion: w.version,
		ServerVersion: func(context.Context) (string, error) {
			v, err := versions.ServerVersion()
			if err != nil {
				return "", fmt.Errorf("version of the API server: %w", err)
			}
			return v.GitVersion, nil
		},
		Shards: func() []cluster.Shard {
			var all []cluster.Shard
			set := w.connected()
			if set == nil {
				for _, name := range w.config().Names() {
					all = append(all, disconnectedShard(name))
				}
				return all
			}
			for _, s := range set.Shards() {
				all = append(all, s)
			}
			return all
		},
		Inventory: w.shardState.feed.Inventory(), Events: w.mgr.GetEventRecorder(recorder), Now: time.Now,
	}
}

// operatorStatus reports registration and workload reachability as conditions of the
// NstanceCluster.
func (w wiring) operatorStatus() *cluster.OperatorReconciler {
	return &cluster.OperatorReconciler{
		Client: w.mgr.GetClient(), Namespace: w.settings.Namespace, Name: w.cluster, Now: time.Now,
		Events: w.mgr.GetEventRecorder(recorder),
		View: func(ctx context.Context) cluster.OperatorView {
			view := cluster.OperatorView{Nonce: w.settings.NonceSecret}
			view.CertificateUntil, view.Unregistered = w.registered()
			if w.workload.kubeconfigSource != nil {
				secret, err := w.workload.kubeconfigSource.secret(ctx)
				if err == nil {
					view.Kubeconfig = kubeconfig.Problem(w.cluster, secret)
				}
				view.Workload = kubeconfig.Reachable(w.workload.config)
			}
			return view
		},
	}
}

// endpoint is where the API server of the Nodes is reached.
func (w wiring) endpoint() (clusterv1.APIEndpoint, error) {
	address := w.settings.WorkloadEndpoint
	if address == "" {
		address = w.api.Host
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

// disconnectedShard is a shard to which there is no connection because the operator is not
// registered.
type disconnectedShard string

// Name implements [cluster.Shard].
func (u disconnectedShard) Name() string { return string(u) }

// Status implements [cluster.Shard].
func (u disconnectedShard) Status() shards.Status {
	return shards.Status{State: shards.Connecting, Message: "the operator is not registered"}
}
