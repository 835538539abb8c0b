package manager

import (
	"context"
	"os"
	"time"

	"nstance.dev/operator/config"
	"nstance.dev/operator/credentials/kubeconfig"
	"nstance.dev/operator/credentials/secrets"
)

// kubeconfigFeature reads the kubeconfig of the Nodes' cluster.
var kubeconfigFeature = feature{
	name:   "kubeconfig",
	rights: []Right{to("get list watch", InNamespace, core, "secrets")},
}

// ownKubeconfigFeature keeps Cluster API connected to the cluster that it runs in.
var ownKubeconfigFeature = feature{
	name: "kubeconfig of this cluster",
	on:   func(s config.Settings) bool { return s.WorkloadEndpoint == "" },
	rights: []Right{
		to("create update", InNamespace, core, "secrets"),
		to("create", InNamespace, core, "serviceaccounts/token"),
		to("get list watch", InNamespace, clusterAPI, "clusters"),
	},
	objects: func(ctx context.Context, w wiring) error {
		return w.kubeconfig(ctx).SetupWithManager(w.mgr, w.controllerOptions())
	},
}

// kubeconfig keeps Cluster API connected to the cluster that it runs in.
func (w wiring) kubeconfig(ctx context.Context) *kubeconfig.Reconciler {
	return &kubeconfig.Reconciler{
		Client: w.mgr.GetClient(), Store: secrets.NewStore(w.settings.Namespace, w.live, w.live), Namespace: w.settings.Namespace, Cluster: w.cluster,
		ServiceAccount: w.settings.ServiceAccount,
		Endpoint: func() kubeconfig.Endpoint {
			return kubeconfig.Endpoint{URL: w.settings.APIServer, CA: w.apiServerCA(ctx)}
		},
		Failed: func(ctx context.Context, err error) {
			w.notices.warn(ctx, "KubeconfigRefreshFailed", "Refresh", "the kubeconfig of Cluster API: %v", err)
		},
		Renewed: w.metrics.TokenUntil, Now: time.Now,
	}
}

// apiServerCA returns the CA bundle of the API server. In a Pod it is in a file that changes when
// the bundle does.
func (w wiring) apiServerCA(ctx context.Context) []byte {
	if w.api.CAFile == "" {
		return w.api.CAData
	}
	bundle, err := os.ReadFile(w.api.CAFile)
	if err != nil {
		w.notices.log.WarnContext(ctx, "CA bundle of the API server not read", "error", err)
		return w.api.CAData
	}
	return bundle
}
