package manager

import (
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"nstance.dev/operator/config"
)

// processFeature is what every process does beside its controllers: it follows ConfigMaps,
// keeps its key and certificate in Secrets, and publishes events.
var processFeature = feature{
	name:   "process",
	scheme: clientgoscheme.AddToScheme,
	rights: []Right{
		to("get", ManagementCluster, core, "namespaces"), // kube-system: its identity tells clusters apart
		to("create patch", ManagementCluster, "events.k8s.io", "events"),
		to("get", WorkloadCluster, core, "pods"), // its own
		to("get list watch", InNamespace, core, "configmaps"),
		to("get create update", InNamespace, core, "secrets"),
	},
}

// leaderFeature has one of several replicas lead.
var leaderFeature = feature{
	name: "leader election",
	on:   func(s config.Settings) bool { return s.LeaderElect },
	rights: []Right{
		to("get create update", InNamespace, "coordination.k8s.io", "leases"),
		to("create", InNamespace, core, "events"),
	},
}

// secureMetricsFeature asks the API server who may read metrics.
var secureMetricsFeature = feature{
	name: "secure metrics",
	on:   func(s config.Settings) bool { return s.MetricsSecure },
	rights: []Right{
		to("create", ManagementCluster, "authentication.k8s.io", "tokenreviews"),
		to("create", ManagementCluster, "authorization.k8s.io", "subjectaccessreviews"),
	},
}

// webhookCertFeature makes the certificate of the webhooks and has the API server trust it.
var webhookCertFeature = feature{
	name: "webhook certificate",
	on:   func(s config.Settings) bool { return s.Webhooks && s.WebhookCertDir == "" },
	rights: []Right{
		to("get patch", ManagementCluster, "admissionregistration.k8s.io", "validatingwebhookconfigurations"),
		to("get patch", ManagementCluster, "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
	},
}
