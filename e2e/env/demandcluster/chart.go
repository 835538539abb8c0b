package demandcluster

import (
	"fmt"

	"nstance.dev/e2e/env/inplace"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/e2e/repo/chart"
)

// Namespace is where the operator is installed, and Release as what.
const (
	Namespace = "nstance-system"
	Release   = "nstance-operator"
)

// Blob is the template of what makes a machine a Node of the cluster of a tenant: a script that
// the machine runs, whose Node says its shard's URI as provider id.
func Blob(tenant string) string {
	return nodes.JoinScript(`nstance://{{ index .NodeLabels "nstance.dev/shard" }}/{{ .MachineID }}`, tenantLabel+"="+tenant)
}

// values are those of an installation here: where the shards are, that demand is on, and that
// there is no Pod in which webhooks could be called.
func (c *Cluster) values() map[string]any {
	addresses := map[string]any{}
	for _, shard := range c.Shards.Shards() {
		addresses[shard] = map[string]any{
			"operator_addr": c.Shards.OperatorAddr(shard), "registration_addr": c.Shards.RegistrationAddr(shard),
			"zone": shard,
		}
	}
	return map[string]any{
		"config":          map[string]any{"clusterId": shards.ClusterID, "tenant": c.Tenant, "shards": addresses},
		"ca":              map[string]any{"create": true, "pem": string(c.Shards.CA())},
		"registration":    map[string]any{"jwt": c.Shards.Nonce(c.Tenant)},
		"capi":            map[string]any{"apiServer": c.APIServer()},
		"webhook":         map[string]any{"enabled": false},
		"onDemand":        map[string]any{"mode": "off"},
		"log":             map[string]any{"format": "text"},
		"healthProbeAddr": c.freeAddress(),
		"metrics":         map[string]any{"address": c.freeAddress()},
		"demand":          map[string]any{"enabled": true, "bootstrapTemplate": Blob(c.Tenant)},
	}
}

func (c *Cluster) freeAddress() string {
	c.t.Helper()
	port, err := kube.FreePort()
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", kube.Address(), port)
}

// install installs the chart, but for the Deployment: its program runs here, as its account.
func (c *Cluster) install(values map[string]any) {
	c.t.Helper()
	c.installed = merge(c.values(), values)
	var err error
	c.installation, err = inplace.Install(c.t.Context(), inplace.Options{
		Cluster: c.Cluster, Release: chart.Release{Name: Release, Namespace: Namespace}, Values: c.installed, Dir: c.t.TempDir(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
}
