package archtest

import "strings"

// operatorLayers is the import order of the operator from the bottom to the top, a line for
// each package. It knows the servers by their wire contract alone, and no controller knows
// another one: what two of them need stands below both.
var operatorLayers = []layer{
	inOperator("api/infrastructure/v1beta1"),
	inOperator("api/controlplane/v1beta1"),
	inOperator("api/demand/v1alpha1"),
	inOperator("api/hosts/v1alpha1"),
	inOperator("crds"),
	inOperator("policies"),
	inOperator("backoff"),
	inOperator("collect"),
	inOperator("unsent"),
	inOperator("config", "protos/identity"),
	inOperator("indexes", "api/infrastructure/v1beta1"),
	inOperator("compact", "api/demand/v1alpha1"),
	inOperator("capi", "api/infrastructure/v1beta1", "indexes"),
	inOperator("capi/capacity", "api/infrastructure/v1beta1", "protos/nstance/v1"),
	inOperator("status"),
	inOperator("informers"),
	inOperator("telemetry"),
	inOperator("shards", "protos/identity", "protos/nstance/v1"),
	inOperator("inventory", "shards", "protos/nstance/v1"),
	inOperator("nodes", "api/demand/v1alpha1", "api/infrastructure/v1beta1", "protos/nstance/v1"),
	inOperator("demand/translate", "api/demand/v1alpha1", "api/infrastructure/v1beta1", "protos/needs"),
	inOperator("demand/aggregate", "api/demand/v1alpha1", "demand/translate", "protos/needs"),
	inOperator("demand/bootstrap", "protos/binding", "protos/needs", "protos/nstance/demand/v1alpha1"),
	inOperator("demand/fit", "api/demand/v1alpha1", "demand/translate"),
	inOperator("demand/split", "api/demand/v1alpha1"),
	inOperator("demand/stuck", "protos/needs"),
	inOperator("demand/states", "protos/nstance/demand/v1alpha1"),
	inOperator("demand/readback", "api/demand/v1alpha1", "protos/nstance/demand/v1alpha1"),
	inOperator("demand/outbound"),
	inOperator("hosts/versions", "api/hosts/v1alpha1"),
	inOperator("hosts/selection", "api/hosts/v1alpha1"),
	inOperator("hosts/operations", "api/hosts/v1alpha1"),
	inOperator("hosts/lifecycle", "api/hosts/v1alpha1", "status"),
	inOperator("hosts/assignment", "api/hosts/v1alpha1", "hosts/versions", "protos/nstance/v1"),
	inOperator("hosts/pullsecrets"),
	inOperator("hosts/images", "api/hosts/v1alpha1", "hosts/versions", "protos/pullsecret"),
	inOperator("hosts/windows", "api/hosts/v1alpha1"),
	inOperator("hosts/prebuild", "api/hosts/v1alpha1", "hosts/versions"),
	inOperator("hosts/rollout", "api/hosts/v1alpha1", "hosts/lifecycle", "hosts/prebuild", "hosts/versions", "hosts/windows"),
	inOperator("hosts/inplace", "api/hosts/v1alpha1", "hosts/operations", "hosts/versions", "protos/nstance/v1"),
	inOperator("hosts/reports", "api/hosts/v1alpha1", "hosts/lifecycle", "shards", "protos/nstance/v1"),
	inOperator("hosts/holds", "api/hosts/v1alpha1", "hosts/operations", "inventory", "shards", "protos/nstance/v1"),
	inOperator("hosts/power", "api/hosts/v1alpha1", "hosts/operations", "shards", "protos/nstance/v1"),
	inOperator("hosts/opdrain", "api/hosts/v1alpha1", "api/infrastructure/v1beta1", "drain"),
	inOperator("hosts/orders", "api/hosts/v1alpha1", "hosts/operations"),
	inOperator("hosts/repave", "api/hosts/v1alpha1", "hosts/inplace", "hosts/operations"),
	inOperator("demand/objects", "api/demand/v1alpha1", "compact"),
	inOperator("demand/penaltyfile", "demand/translate"),
	inOperator("program", "config"),
	inOperator("demand/volumes", "demand/translate"),
	inOperator("demand/tally", "api/demand/v1alpha1", "demand/aggregate", "demand/split", "demand/stuck", "protos/needs"),
	inOperator("drain", "api/hosts/v1alpha1", "api/infrastructure/v1beta1", "capi", "collect", "inventory", "nodes", "status", "protos/nstance/v1"),
	inOperator("credentials/secrets"),
	inOperator("credentials/kubeconfig", "api/infrastructure/v1beta1", "capi", "credentials/secrets", "status"),
	inOperator("credentials/registration", "credentials/secrets", "shards", "protos/identity", "protos/nstance/v1"),
	inOperator("credentials/webhookcert", "api/infrastructure/v1beta1", "credentials/secrets"),
	inOperator("webhooks", "api/infrastructure/v1beta1"),
	inOperator("metrics", "api/hosts/v1alpha1", "api/infrastructure/v1beta1", "capi", "hosts/rollout", "informers", "inventory", "shards"),

	inOperator("controllers/machinepool/planner", "inventory"),
	inOperator("demand/settings", "api/infrastructure/v1beta1", "controllers/machinepool/planner", "protos/nstance/v1"),
	inOperator("controllers/machine/placement", "api/infrastructure/v1beta1", "protos/nstance/v1"),
	inOperator("controllers/demand/jointoken", "backoff"),
	controller("cluster", "api/controlplane/v1beta1", "shards"),
	controller("importer", "controllers/machinepool/planner", "demand/settings", "shards", "protos/identity", "protos/nstance/v1"),
	controller("machinepool", "capi/capacity", "demand/settings", "nodes", "shards", "telemetry", "unsent", "protos/nstance/v1"),
	controller("shardgroup", "backoff", "controllers/machinepool/planner", "demand/settings", "shards", "telemetry", "unsent", "protos/nstance/v1"),
	controller("machine", "backoff", "drain", "nodes", "shards", "unsent", "protos/identity", "protos/nstance/v1"),
	controller("machinetemplate", "capi/capacity", "protos/nstance/v1"),
	controller("node", "capi/capacity", "nodes", "protos/nstance/v1"),
	controller("ondemand", "controllers/machine/placement", "protos/identity"),
	controller("providererror", "nodes", "protos/nstance/v1"),
	inOperator("controllers/demand/session", "demand/outbound", "demand/states", "shards", "protos/needs", "protos/rollup", "protos/nstance/demand/v1alpha1"),
	{dir: "operator/poddemand", ours: below([]string{"api/demand/v1alpha1", "backoff", "compact", "config", "controllers/demand/capacityrequest", "demand/objects", "demand/penaltyfile", "demand/translate", "metrics", "program"}), tests: append([]string{"operator/testworld/apiserver"}, operatorTests...)},
	inOperator("controllers/demand/podevents", "api/demand/v1alpha1", "demand/aggregate", "demand/readback", "demand/translate"),
	inOperator("controllers/demand/capacityrequest", "api/demand/v1alpha1", "api/infrastructure/v1beta1", "demand/translate", "demand/volumes"),
	inOperator("controllers/demand/rollup", "api/demand/v1alpha1", "api/infrastructure/v1beta1", "demand/aggregate", "demand/outbound", "demand/split", "demand/tally", "demand/translate",
		"demand/volumes", "informers", "nodes", "protos/needs", "protos/nstance/demand/v1alpha1"),
	inOperator("controllers/demand/reclaim", "api/demand/v1alpha1", "api/infrastructure/v1beta1", "collect", "demand/fit", "drain", "inventory", "nodes", "status",
		"protos/nstance/demand/v1alpha1", "protos/nstance/v1"),
	inOperator("controllers/demand/nodes", "api/demand/v1alpha1", "api/infrastructure/v1beta1", "collect", "drain", "inventory", "nodes", "status",
		"protos/nstance/demand/v1alpha1", "protos/nstance/v1"),
	inOperator("controllers/demand/readback", "api/demand/v1alpha1", "demand/readback", "protos/nstance/demand/v1alpha1"),
	{dir: "operator/demandmode", tests: append([]string{"operator/testworld/..."}, operatorTests...), ours: below([]string{
		"api/demand/v1alpha1", "config", "controllers/demand/jointoken", "controllers/demand/readback", "controllers/demand/rollup", "controllers/demand/session", "demand/aggregate", "demand/bootstrap", "demand/split",
		"demand/tally", "demand/translate", "informers", "inventory", "metrics", "nodes", "shards", "protos/needs", "protos/nstance/demand/v1alpha1",
	})},
	inOperator("hosts/serverstate", "policies", "program"),
	hostController("versions", "hosts/images", "hosts/versions"),
	hostController("selection", "hosts/selection"),
	hostController("csr", "hosts/lifecycle", "hosts/selection"),
	hostController("host", "api/infrastructure/v1beta1", "capi", "collect", "hosts/assignment", "hosts/images", "hosts/lifecycle", "hosts/pullsecrets", "hosts/reports", "hosts/selection", "inventory", "nodes", "shards", "protos/nstance/v1"),
	hostController("inventory", "collect", "inventory", "protos/nstance/v1"),
	hostController("operations", "hosts/operations", "hosts/selection"),
	hostController("prebuild", "collect", "hosts/assignment", "hosts/prebuild", "hosts/pullsecrets", "hosts/reports", "inventory", "shards", "protos/nstance/v1"),
	hostController("rollout", "api/infrastructure/v1beta1", "collect", "drain", "hosts/rollout", "inventory", "shards"),

	{dir: "operator/manager", ours: []string{"protos/...", "operator/..."}},
	inOperator("cmd/nstance-operator", "config", "manager", "program", "telemetry"),
	inOperator("cmd/nstance-pod-demand", "config", "poddemand", "program"),

	inOperator("crds/internal/cmd/gen", "crds/..."),
	inOperator("pagetest"),
	inOperator("testworld", "api/controlplane/v1beta1", "api/demand/v1alpha1", "api/hosts/v1alpha1", "api/infrastructure/v1beta1", "crds", "inventory", "shards/..."),
	inOperator("testworld/apiserver", "api/controlplane/v1beta1", "api/demand/v1alpha1", "api/hosts/v1alpha1", "api/infrastructure/v1beta1", "compact", "testworld"),
}

// inOperator is what a package of the operator may import: directories below operator, and
// those of the wire contract.
func inOperator(dir string, ours ...string) layer {
	return layer{dir: "operator/" + dir, ours: below(ours), tests: operatorTests}
}

// controller is what a controller may import beside what they all work with.
func controller(name string, more ...string) layer {
	return inOperator("controllers/"+name, append([]string{"api/infrastructure/v1beta1", "capi", "collect", "indexes", "inventory", "status"}, more...)...)
}

// hostController is what a controller of host machines may import.
func hostController(name string, more ...string) layer {
	return inOperator("controllers/hosts/"+name, append([]string{"api/hosts/v1alpha1", "status"}, more...)...)
}

func below(dirs []string) []string {
	var all []string
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, "protos/") {
			dir = "operator/" + dir
		}
		all = append(all, dir)
	}
	return all
}

// operatorTests is what tests of the operator's packages may import in addition: its fakes,
// what these speak, and the controller of the other half of a pool.
var operatorTests = []string{
	"protos/...", "operator/api/...", "operator/testworld", "operator/pagetest", "operator/capi", "operator/collect", "operator/inventory", "operator/nodes",
	"operator/shards/...", "operator/status", "operator/crds/...", "operator/policies/...", "operator/hosts/...", "operator/credentials/secrets/...",
	"operator/controllers/shardgroup", "operator/controllers/machinepool/planner",
}
