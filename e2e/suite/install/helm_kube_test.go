//go:build kube

package install_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/e2e/suite/install"
)

// TestO18_TheREADMEByHelm: README's section leads from an empty cluster to five Machines
// that run, with the rights that the chart grants and no others. Uninstalled, it leaves the
// machines and the kinds, and installed again it goes on with them.
func TestO18_TheREADMEByHelm(t *testing.T) {
	t.Parallel()
	c := kube.Start(t, kube.Config{ClusterAPI: true})
	s := shards.New(t, map[string]shards.Groups{"us-west-2a": {"web": 2}, "us-west-2b": {"web": 1}})
	joinMachines(t, c, s)
	newStation(t, c)
	r := newReader(t, c, "STORAGE", s.StorageFlags(), "example--default", shards.ClusterID+"--"+shards.Tenant)
	r.has(t, "ca.crt", s.CA())
	r.has(t, "values.yaml", valuesOf(t, c, s))

	r.follows(t, readme, "In Kubernetes")
	instances := running(t, s)
	if len(instances) != 5 {
		t.Fatalf("%d instances run: %v", len(instances), instances)
	}

	r.types(t, "kubectl apply --dry-run=server --validate=strict -f operator/examples")

	r.follows(t, page, "Upgrade")
	for _, account := range []string{release, "nstance-capi-workload"} {
		if found := refused(t, c, account); len(found) > 0 {
			t.Errorf("%s may not: %q", account, found)
		}
	}

	r.follows(t, page, "Uninstall")
	if left := kindsLeft(t, c); left != 6 {
		t.Errorf("%d definitions are left, want 6", left)
	}
	if got := running(t, s); !slices.Equal(got, instances) {
		t.Errorf("instances %v are now %v", instances, got)
	}

	r.types(t, `helm install nstance-operator operator/charts/nstance-operator --namespace nstance --values values.yaml
kubectl -n nstance scale machinepool web --replicas=6
kubectl -n nstance wait --for=jsonpath='{.status.replicas}'=6 machinepool/web --timeout=15m
kubectl -n nstance wait --for=jsonpath='{.status.phase}'=Running machinepool/web --timeout=15m`)
	for _, before := range instances {
		if got := running(t, s); len(got) != 6 || !slices.Contains(got, before) {
			t.Errorf("instances %v are now %v", instances, got)
		}
	}
}

// TestThePageByHelm: the section of the page, whose reader waits for what he is told.
func TestThePageByHelm(t *testing.T) {
	t.Parallel()
	c := kube.Start(t, kube.Config{ClusterAPI: true})
	s := shards.New(t, map[string]shards.Groups{"us-west-2a": {"web": 1}, "us-west-2b": {}})
	newStation(t, c)
	r := newReader(t, c, "STORAGE", s.StorageFlags(), "example--default", shards.ClusterID+"--"+shards.Tenant)
	r.has(t, "ca.crt", s.CA())
	r.has(t, "values.yaml", valuesOf(t, c, s))
	r.follows(t, page, "The servers' side")
	r.follows(t, page, "With Helm")
	if out := r.prints(t, "kubectl -n nstance get machinepools -o name"); out != "machinepool.cluster.x-k8s.io/web\n" {
		t.Errorf("pools: %q, want that of the group", out)
	}
}

// valuesOf is the file of values that README shows, for this cluster and these shards.
func valuesOf(t *testing.T, c *kube.Cluster, s *shards.Cluster) []byte {
	t.Helper()
	section, err := install.Section(readme, "In Kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(install.Blocks(section, "yaml")[0]), &values); err != nil {
		t.Fatal(err)
	}
	config := values["config"].(map[string]any)
	config["clusterId"] = shards.ClusterID
	for name := range config["shards"].(map[string]any) {
		config["shards"].(map[string]any)[name] = map[string]any{
			"operator_addr": s.OperatorAddr(name), "registration_addr": s.RegistrationAddr(name),
		}
	}
	// Cluster API runs outside of the cluster, where its Services have no names.
	values["capi"] = map[string]any{"apiServer": c.Admin().Host}
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// joinMachines keeps a Node for each machine of the shards until the test ends.
func joinMachines(t *testing.T, c *kube.Cluster, s *shards.Cluster) {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	list := func(ctx context.Context) ([]nodes.Machine, error) {
		var all []nodes.Machine
		for _, shard := range s.Shards() {
			instances, complete, err := s.Instances(ctx, shard)
			if err != nil || !complete {
				return nil, fmt.Errorf("%s: complete: %t: %w", shard, complete, err)
			}
			for _, in := range instances {
				if in.GetRegisteredAt() != nil {
					all = append(all, nodes.Machine{Name: in.GetInstanceId(), ProviderID: in.GetProviderUri()})
				}
			}
		}
		return all, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	go func() { ended <- nodes.Follow(ctx, client, log, 200*time.Millisecond, list) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("machines: %v", err)
		}
	})
}

// running are the instances that run on all shards, in order.
func running(t *testing.T, s *shards.Cluster) []string {
	t.Helper()
	var ids []string
	for _, shard := range s.Shards() {
		instances, complete, err := s.Instances(t.Context(), shard)
		if err != nil || !complete {
			t.Fatalf("%s: complete: %t: %v", shard, complete, err)
		}
		for _, in := range instances {
			if in.GetStatus() == "running" {
				ids = append(ids, in.GetInstanceId())
			}
		}
	}
	slices.Sort(ids)
	return ids
}
