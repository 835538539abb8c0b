package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/hosts/csr"
	"nstance.dev/operator/controllers/hosts/host"
	"nstance.dev/operator/controllers/hosts/inventory"
	"nstance.dev/operator/controllers/hosts/operations"
	"nstance.dev/operator/controllers/hosts/prebuild"
	"nstance.dev/operator/controllers/hosts/rollout"
	"nstance.dev/operator/controllers/hosts/selection"
	"nstance.dev/operator/controllers/hosts/versions"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/holds"
	"nstance.dev/operator/hosts/images"
	"nstance.dev/operator/hosts/inplace"
	"nstance.dev/operator/hosts/orders"
	"nstance.dev/operator/hosts/power"
	"nstance.dev/operator/hosts/pullsecrets"
	"nstance.dev/operator/hosts/repave"
	"nstance.dev/operator/hosts/serverstate"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/shards"
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
		to("get list watch patch", ManagementCluster, hosts, "machineconfigurations"),
		to("patch", ManagementCluster, hosts, "machineconfigurations/status"),
		to("update", ManagementCluster, hosts, "machineconfigurations/finalizers"),
		to("get list watch create update delete", ManagementCluster, hosts, "machineconfigurationversions"),
		to("patch", ManagementCluster, hosts, "machineconfigurationversions/status"),
		to("get list watch create patch delete", ManagementCluster, hosts, "machineoperations"),
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
		if err := csr.Register(ctx, w.mgr.GetFieldIndexer()); err != nil {
			return err
		}
		events := w.mgr.GetEventRecorder(recorder)
		counts := metrics.NewHosts(w.mgr.GetClient(), ctrlmetrics.Registry, time.Now)
		tags := images.New(images.Options{Log: w.notices.log, Now: time.Now, Secret: func(ctx context.Context, name string) ([]byte, error) {
			return pullsecrets.Read(ctx, w.live, w.settings.Namespace, name)
		}})
		v := versions.New(versions.Options{
			Client: w.mgr.GetClient(), Live: w.live, Events: events, Now: time.Now, Digest: tags.Digest, Wrote: counts.Wrote, Refused: counts.Refused,
		})
		w.shardState.hosts.versions, w.shardState.hosts.apiServer, w.shardState.hosts.counts = v, version.Get, counts
		w.shardState.hosts.secrets = pullsecrets.New(w.live, w.settings.Namespace, time.Now)
		w.shardState.hosts.operations = operations.New(operations.Options{
			Client: w.mgr.GetClient(), Live: w.live, Events: events, Log: w.notices.log, Now: time.Now, Finished: counts.OperationFinished,
		})
		selected := selection.Options{Client: w.mgr.GetClient(), Live: w.live, Events: events, APIServer: version.Get, SecretMissing: w.shardState.hosts.secrets.Missing, Now: time.Now}
		return errors.Join(
			w.mgr.Add(version),
			v.SetupWithManager(w.mgr, w.controllerOptions()),
			selection.SetupWithManager(ctx, w.mgr, selected, w.controllerOptions(), w.controllerOptions()),
			w.shardState.hosts.operations.SetupWithManager(ctx, w.mgr, w.controllerOptions()),
			operations.SetupNames(w.mgr, w.controllerOptions()),
		)
	},
	objects: func(ctx context.Context, w wiring) error {
		return inventory.New(inventory.Options{
			Client: w.mgr.GetClient(), Inventory: w.shardState.feed.Inventory(), Tenant: w.config().Tenant,
			Events: w.mgr.GetEventRecorder(recorder), Log: w.notices.log, Now: time.Now,
		}).SetupWithManager(ctx, w.mgr, w.shardState.hub, w.controllerOptions())
	},
}

// nodeBootstrap is the service account that node machines join as, in the operator's namespace of the
// cluster of the Nodes.
const nodeBootstrap = "nstance-node-bootstrap"

// hostNodeFeature has hosts build node machines, approves the certificates of their kubelets, and rolls new
// versions out.
var hostNodeFeature = feature{
	name:  "nodes of host machines",
	on:    func(s config.Settings) bool { return s.Hosts },
	kinds: []kind{{version: infrav1.GroupVersion, object: &infrav1.NstanceMachine{}}},
	rights: []Right{
		to("list watch patch", ManagementCluster, hosts, "hostmachines"),
		to("patch", ManagementCluster, hosts, "hostmachines/status"),
		to("list watch patch", ManagementCluster, hosts, "machineconfigurations"),
		to("patch", ManagementCluster, hosts, "machineconfigurations/status"),
		to("list watch", ManagementCluster, hosts, "machineconfigurationversions"),
		to("list watch", InNamespace, infrastructure, "nstancemachines"),
		to("list watch patch", InNamespace, clusterAPI, "machines"),
		to("get", InNamespace, core, "secrets"),
		to("get list watch patch delete", WorkloadCluster, core, "nodes"),
		to("list", WorkloadCluster, core, "pods"),
		to("list watch", WorkloadCluster, certificates, "certificatesigningrequests"),
		to("update", WorkloadCluster, certificates, "certificatesigningrequests/approval"),
		to("approve", WorkloadCluster, certificates, "signers"),
		to("create delete", NamespaceOfWorkload, core, "secrets"),
		to("create", NamespaceOfWorkload, core, "serviceaccounts/token"),
	},
	nodes: func(ctx context.Context, w wiring) error {
		account, err := client.New(w.workload.config, client.Options{Scheme: w.workload.GetScheme(), Mapper: w.workload.GetRESTMapper()})
		if err != nil {
			return fmt.Errorf("client for the credentials of host machines: %w", err)
		}
		hosts := &w.shardState.hosts
		r := host.New(host.Options{
			Client: w.mgr.GetClient(), Secrets: w.live, SecretMissing: hosts.secrets.Missing, Namespace: w.settings.Namespace,
			Nodes: host.Nodes{
				Client: w.workload.GetClient(), Live: w.workload.GetAPIReader(), API: w.hostAPI, Version: hosts.apiServer,
			},
			Inventory: w.shardState.feed.Inventory(), Reports: hosts.reports,
			Server: func(shard string) (host.Server, bool) { return w.hostCalls(shard) },
			Lock:   lockWith(hosts.versions), Credentials: &host.Tokens{Client: account, Namespace: w.settings.Namespace, ServiceAccount: nodeBootstrap},
			Events: w.mgr.GetEventRecorder(recorder), Notice: w.notices.warnAbout, Log: w.notices.log, Now: time.Now,
			Count: host.Counters{Repaved: hosts.counts.Repaved, Back: hosts.counts.Back},
		})
		hosts.operations.Hold(&holds.Holds{Shard: func(shard string) (holds.Shard, bool) { return w.hostCalls(shard) }, Now: time.Now})
		w.executors()
		requests := csr.New(csr.Options{
			Machines: w.mgr.GetClient(), Requests: w.workload.GetClient(), ServiceAccount: "system:serviceaccount:" + w.settings.Namespace + ":" + nodeBootstrap,
			Events: w.mgr.GetEventRecorder(recorder), Notice: w.notices.warnAbout, Log: w.notices.log, Now: time.Now, Decided: func(v csr.Verdict) { hosts.counts.Request(string(v)) },
		})
		return errors.Join(
			r.SetupWithManager(w.mgr, w.workload.Cluster, w.shardState.hub, w.controllerOptions()),
			w.prebuilds().SetupWithManager(w.mgr, w.controllerOptions()),
			w.rollouts().SetupWithManager(w.mgr, w.workload.Cluster, w.shardState.hub, w.controllerOptions()),
			w.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					return nil
				case <-hosts.reports.Wanted(): // without a host nothing is watched for it
				}
				return requests.Start(w.mgr, w.workload.Cluster, w.controllerOptions())
			})),
		)
	},
}

// executors are those of operations that this process carries out, or has carried out by shards and hosts. The drain
// engine asks for what they have drained.
func (w wiring) executors() {
	hosts := &w.shardState.hosts
	hosts.drains.Nodes = w.workload.GetClient()
	hosts.drains.Wake = func(instances ...string) { w.shardState.reclaims.engine.Wake(instances...) }
	switches := &power.Switch{Shard: func(shard string) (power.Shard, bool) { return w.hostCalls(shard) }, Now: time.Now}
	hosts.operations.Carry(hostsv1.ExecutorProvider, switches)
	relay := &orders.Relay{Shards: switches, Drains: &hosts.drains, Now: time.Now}
	hosts.operations.Carry(hostsv1.ExecutorPaver, relay)
	hosts.operations.Carry(hostsv1.ExecutorController, &repave.Repaver{
		InPlace: &inplace.Applier{
			Versions: w.mgr.GetClient(), Nodes: w.workload.GetClient(), Group: host.GroupSettings(w.shardState.feed.Inventory()),
			Host: relay,
		},
		Nodes: w.workload.GetClient(), Drains: &hosts.drains, Now: time.Now,
	})
}

// hostCalls are the calls to a shard about the machines of its instances; false: it is not connected.
func (w wiring) hostCalls(shard string) (shards.Machines, bool) {
	s, connected := w.connected().Shard(shard)
	return shards.Machines{Shard: s}, connected
}

// rollouts brings machines to new versions. The drain engine asks it what is to be drained.
func (w wiring) rollouts() *rollout.Reconciler {
	hosts := &w.shardState.hosts
	return rollout.New(rollout.Options{
		Client: w.mgr.GetClient(), Live: w.live, Nodes: w.workload.GetClient(), Inventory: w.shardState.feed.Inventory(),
		Holds: &holds.Holds{Shard: func(shard string) (holds.Shard, bool) { return w.hostCalls(shard) }, Now: time.Now}, Requests: &hosts.rollouts, Wake: func(instances ...string) { w.shardState.reclaims.engine.Wake(instances...) },
		Lock: func(ctx context.Context, configuration string, number int32, machine string) (hostsv1.VersionReference, error) {
			locked, err := hosts.versions.Lock(ctx, configuration, number, machine)
			return locked.Reference, err
		},
		Events: w.mgr.GetEventRecorder(recorder), Log: w.notices.log, Now: time.Now, Count: hosts.counts.RolledOut,
	})
}

// prebuilds has new versions prepared on machines.
func (w wiring) prebuilds() *prebuild.Reconciler {
	hosts := &w.shardState.hosts
	lock := lockWith(hosts.versions)
	return prebuild.New(prebuild.Options{
		Client: w.mgr.GetClient(), Live: w.live, Namespace: w.settings.Namespace, Inventory: w.shardState.feed.Inventory(), Reports: hosts.reports,
		Server: func(shard string) (prebuild.Server, bool) { return w.hostCalls(shard) },
		Lock: func(ctx context.Context, configuration string, number int32, machine string) (hostsv1.VersionReference, assignment.Content, error) {
			locked, err := lock(ctx, configuration, number, machine)
			return locked.Reference, locked.Content, err
		},
		API: w.hostAPI, Events: w.mgr.GetEventRecorder(recorder), Log: w.notices.log, Now: time.Now, Count: hosts.counts.Prepared,
	})
}

// lockWith returns what locks a version.
func lockWith(v *versions.Reconciler) func(context.Context, string, int32, string) (host.Locked, error) {
	return func(ctx context.Context, configuration string, number int32, machine string) (host.Locked, error) {
		locked, err := v.Lock(ctx, configuration, number, machine)
		if err != nil {
			return host.Locked{}, err
		}
		out := host.Locked{Reference: locked.Reference, Content: assignment.Content{Template: locked.Template}}
		if locked.Resolved != nil {
			out.Content.ImageDigest = locked.Resolved.ImageDigest
		}
		return out, nil
	}
}

// hostAPI is the API server as the kubelets of host machines reach it.
func (w wiring) hostAPI(ctx context.Context) assignment.APIServer {
	api := assignment.APIServer{URL: w.settings.HostsAPIServer}
	if g := w.workload.kubeconfigSource; g != nil {
		api.CA = g.transport.CA()
	} else {
		api.CA = w.apiServerCA(ctx)
	}
	switch {
	case api.URL != "":
	case w.settings.WorkloadEndpoint != "":
		api.URL = w.settings.WorkloadEndpoint
	default:
		api.URL = w.settings.APIServer
	}
	return api
}
