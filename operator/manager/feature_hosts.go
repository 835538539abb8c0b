package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/hosts/inventory"
	"nstance.dev/operator/controllers/hosts/operations"
	"nstance.dev/operator/controllers/hosts/selection"
	"nstance.dev/operator/controllers/hosts/versions"
	"nstance.dev/operator/hosts/serverstate"
	"nstance.dev/operator/metrics"
)

// hosts is the group of host machines.
const hosts = "hosts.nstance.dev"

// hostFeature keeps the versions of MachineConfigurations, makes HostMachines for instances, and says
// which version each would be built from.
var hostFeature = feature{
	name:   "host machines",
	on:     func(s config.Settings) bool { return s.Hosts },
	scheme: hostsv1.AddToScheme,
	kinds: []kind{
		{version: hostsv1.GroupVersion, object: &hostsv1.HostMachine{}, shared: true},
		{version: hostsv1.GroupVersion, object: &hostsv1.MachineConfiguration{}, shared: true},
		{version: hostsv1.GroupVersion, object: &hostsv1.MachineConfigurationVersion{}, shared: true},
		{version: hostsv1.GroupVersion, object: &hostsv1.MachineOperation{}, shared: true},
	},
	rights: []Right{
		to("list watch create patch delete", ManagementCluster, hosts, "hostmachines"),
		to("patch", ManagementCluster, hosts, "hostmachines/status"),
		to("get list watch", ManagementCluster, hosts, "machineconfigurations"),
		to("patch", ManagementCluster, hosts, "machineconfigurations/status"),
		to("update", ManagementCluster, hosts, "machineconfigurations/finalizers"),
		to("get list watch create update delete", ManagementCluster, hosts, "machineconfigurationversions"),
		to("patch", ManagementCluster, hosts, "machineconfigurationversions/status"),
		to("list watch", ManagementCluster, hosts, "machineoperations"),
		to("patch", ManagementCluster, hosts, "machineoperations/status"),
		to("list", ManagementCluster, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
		to("list", ManagementCluster, "admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
	},
	early: func(ctx context.Context, w wiring) error {
		api, err := discovery.NewDiscoveryClientForConfig(w.api)
		if err != nil {
			return fmt.Errorf("discovery: %w", err)
		}
		version := serverstate.Version(api, w.notices.log)
		events := w.mgr.GetEventRecorder(recorder)
		counts := metrics.NewHosts(w.mgr.GetClient(), ctrlmetrics.Registry)
		v := versions.New(versions.Options{
			Client: w.mgr.GetClient(), Live: w.live, Events: events, Now: time.Now, Wrote: counts.Wrote, Refused: counts.Refused,
		})
		selected := selection.Options{Client: w.mgr.GetClient(), Live: w.live, Events: events, APIServer: version.Get, Now: time.Now}
		return errors.Join(
			w.mgr.Add(version),
			v.SetupWithManager(w.mgr, w.controllerOptions()),
			selection.SetupWithManager(ctx, w.mgr, selected, w.controllerOptions(), w.controllerOptions()),
			(&operations.Reconciler{Client: w.mgr.GetClient(), Now: time.Now}).SetupWithManager(w.mgr, w.controllerOptions()),
		)
	},
	objects: func(ctx context.Context, w wiring) error {
		return inventory.New(inventory.Options{
			Client: w.mgr.GetClient(), Inventory: w.shardState.feed.Inventory(), Tenant: w.config().Tenant,
			Events: w.mgr.GetEventRecorder(recorder), Log: w.notices.log, Now: time.Now,
		}).SetupWithManager(ctx, w.mgr, w.shardState.hub, w.controllerOptions())
	},
}
