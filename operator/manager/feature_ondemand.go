package manager

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/machine"
	"nstance.dev/operator/controllers/ondemand"
	"nstance.dev/operator/webhooks"
)

// onDemandFeature gives Pods that ask for it an instance of their own.
var onDemandFeature = feature{
	name: "on demand",
	on:   func(s config.Settings) bool { return s.OnDemand != config.OnDemandOff },
	kinds: []kind{
		{version: infrav1.GroupVersion, object: &infrav1.NstanceMachine{}},
		{version: clusterv1.GroupVersion, object: &clusterv1.Machine{}, shared: true},
	},
	rights: []Right{
		to("get list watch patch", WorkloadCluster, core, "pods"),
		to("list watch", WorkloadCluster, core, "persistentvolumes"),
		to("list watch", WorkloadCluster, core, "persistentvolumeclaims"),
		to("list watch", WorkloadCluster, core, "nodes"),
		to("list watch create patch delete", InNamespace, infrastructure, "nstancemachines"),
		to("list watch create patch delete", InNamespace, clusterAPI, "machines"),
	},
	pods: func(config.Settings) func(from, into *corev1.Pod) { return ondemand.Keep },
	nodes: func(ctx context.Context, w wiring) error {
		return w.onDemand().SetupWithManager(ctx, w.mgr, w.workload.Cluster, w.shardState.hub, w.controllerOptions())
	},
}

// gatedFeature has the API server send new Pods through the webhook that ties each to its own
// Node.
var gatedFeature = feature{
	name:   "on demand, gated",
	on:     gated,
	rights: []Right{to("list", ManagementCluster, "admissionregistration.k8s.io", "mutatingwebhookconfigurations")},
	webhooks: func(mgr ctrl.Manager, s config.Settings) error {
		return ctrl.NewWebhookManagedBy(mgr, &corev1.Pod{}).
			WithDefaulter(webhooks.PodDefaulter{NewClaim: webhooks.NewClaim, Namespaces: s.OnDemandNamespaces}).
			Complete()
	},
}

func gated(s config.Settings) bool { return s.Webhooks && s.OnDemand == config.OnDemandGated }

func (w wiring) onDemand() *ondemand.Reconciler {
	return ondemand.New(ondemand.Options{
		Client: w.mgr.GetClient(), Namespace: w.settings.Namespace, Cluster: w.cluster,
		Workload: w.workload.GetClient(), Live: w.workload.GetAPIReader(), Shards: machine.New(w.machines()).ShardsOf, Events: w.workload.GetEventRecorder(recorder),
		Rules: ondemand.Rules{
			ProvisionTimeout: w.settings.OnDemandProvisionTimeout, Linger: w.settings.OnDemandLinger,
			Namespaces: w.settings.OnDemandNamespaces, MaxPerNamespace: w.settings.OnDemandMaxPerNamespace,
		},
		Ready: w.metrics.OnDemandReady,
	})
}

// refuseSecondOperator fails if another operator serves the same Pods.
func refuseSecondOperator(ctx context.Context, s config.Settings, live client.Reader) error {
	if !gated(s) {
		return nil
	}
	var all admissionregistrationv1.MutatingWebhookConfigurationList
	if err := live.List(ctx, &all); err != nil {
		return fmt.Errorf("look for other operators: %w", err)
	}
	return webhooks.Rival(all.Items, s.WebhookConfiguration)
}
