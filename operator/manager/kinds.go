package manager

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/program"
)

// remedies say how to get the kinds of a group and version.
var remedies = map[schema.GroupVersion]string{
	infrav1.GroupVersion:        "install the operator's custom resource definitions",
	controlplanev1.GroupVersion: "install the operator's custom resource definitions",
	demandv1.GroupVersion:       "install the chart with demand.enabled, or the definitions of demand mode",
	hostsv1.GroupVersion:        "install the chart with hosts.enabled, or the definitions of host machines",
	clusterv1.GroupVersion:      "install Cluster API 1.11 or later",
}

// required are the kinds, as the process waits for them.
func required(kinds []kind) []program.Kind {
	all := make([]program.Kind, len(kinds))
	for i, k := range kinds {
		all[i] = program.Kind{Version: k.version, Name: k.String(), Remedy: remedies[k.version]}
	}
	return all
}

// pause waits, or returns the reason of ctx.
func pause(ctx context.Context, d time.Duration) error { return program.Pause(ctx, d) }
