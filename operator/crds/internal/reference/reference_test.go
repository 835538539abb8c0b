package reference_test

import (
	"strings"
	"testing"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/internal/reference"
)

func TestPage(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	page, err := reference.ClusterAPI.Text(all)
	if err != nil {
		t.Fatal(err)
	}
	for what, row := range map[string]string{
		"a required name":        "| **`group`** | name | group is the key of the group on the servers. It stays: another group is another pool. |",
		"a list with bounds":     "| **`shards`** | list of name, 1 to 64 | shards that keep the group",
		"a choice and a default": "| `deletePolicy` | `Oldest`, `Newest`, `Random`, default `Oldest` | deletePolicy says",
		"a field of a field":     "| `nodeTemplate.maxPods` | integer, 1 to 1000 | maxPods is",
		"a field of an element":  "| **`nodeTemplate.taints[].key`** | string, 1 to 317 characters | key of the taint. |",
		"a map":                  "| `vars` | map to string, at most 64 | vars for the user data",
		"quantities":             "| `capacity` | map to quantity, at most 64 | capacity",
		"a time":                 "| `drain.deadline` | time | deadline is",
		"an id":                  "| `instanceID` | string, 29 characters | instanceID of the instance.",
		"a rule":                 "- spec.group is immutable; create a new NstanceMachinePool\n",
		"a kind":                 "## NstanceMachinePool\n\nNstanceMachinePool is a group of instances",
		"its names":              "`infrastructure.cluster.x-k8s.io/v1beta1`, short `nsmp`.",
	} {
		if !strings.Contains(page, row) {
			t.Errorf("%s: the page has no %q", what, row)
		}
	}
	if strings.Contains(page, "conditions[]") {
		t.Error("the fields of conditions are listed with every kind")
	}
	if _, err := reference.ClusterAPI.Text(all[1:]); err == nil {
		t.Error("a page without one of the kinds is made")
	}
}

func TestPageOfHostMachines(t *testing.T) {
	all, err := crds.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	page, err := reference.Hosts.Text(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"## HostMachine\n",
		"- version is deployed; create a new one by editing the MachineConfiguration\n",
		"| `updateStrategy.rollingUpdate.maxUnavailable` | integer or string, default `1` |",
	} {
		if !strings.Contains(page, row) {
			t.Errorf("the page has no %q", row)
		}
	}
}

func TestPageOfDemandMode(t *testing.T) {
	all, err := crds.Demand()
	if err != nil {
		t.Fatal(err)
	}
	page, err := reference.Demand.Text(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"## CapacityRequest\n",
		"| `priority` | integer, default `0` |",
		"- at least one request must be more than 0\n",
		"| `phase` | `Provisioning`, `Launched`, `Registered`, `Ready`, `Draining`, `Drained`, `Failed` |",
	} {
		if !strings.Contains(page, row) {
			t.Errorf("the page has no %q", row)
		}
	}
}
