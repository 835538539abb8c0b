package crdtest

import (
	"fmt"
	"strings"
)

const pool = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: workers}
spec: {group: workers, shards: [a, b]}
`

const varsRefused = "vars: a name is 1 to 64 letters, digits and underscores and does not begin with a digit; rename the variable"

const quantitiesAreStrings = `write each quantity as a string, as in cpu: "4"; the cluster autoscaler reads nothing else`

func poolCases() []Case {
	cases := []Case{
		create(pool, "pool: a group and its shards are enough", "", ""),
		create(pool, "pool: everything at once", `
spec:
  template: knd
  subnets: workers
  instanceType: m7i.large
  vars: {LABELS: "a=b", _x9: ""}
  loadBalancers: [web, api]
  nodeTemplate:
    labels: {pool: batch}
    taints: [{key: batch, effect: NoSchedule}, {key: gpu, value: "yes", effect: NoExecute}]
    capacity: {cpu: 4, memory: 16Gi, pods: "110"}
    nodeInfo: {architecture: arm64, operatingSystem: linux}
    maxPods: 1000
  deletePolicy: Newest
  rebalance: OnShardChange
  unreachablePolicy: Hold
  deletionPolicy: Orphan
  providerID: nstance://example/default/workers
  providerIDList: ["aws:///z/i-0", "nstance://a/x"]
`, ""),
		create(pool, "pool: a group is required", "spec: {group: null}", "spec.group: Required value"),
		create(pool, "pool: shards are required", "spec: {shards: null}", "spec.shards: Required value"),
		create(pool, "pool: one shard at least", "spec: {shards: []}", "spec.shards: Invalid value: 0"),
		create(pool, "pool: 64 shards at most", "spec: {shards: ["+names(65)+"]}", "spec.shards: Too many: 65"),
		create(pool, "pool: 64 shards", "spec: {shards: ["+names(64)+"]}", ""),
		create(pool, "pool: a shard once", "spec: {shards: [a, b, a]}", `spec.shards[2]: Duplicate value: "a"`),
		create(pool, "pool: 64 variables at most", "spec: {vars: {"+pairs("V%d: x", 65)+"}}", "spec.vars: Too many: 65"),
		create(pool, "pool: 64 variables", "spec: {vars: {"+pairs("V%d: x", 64)+"}}", ""),
		create(pool, "pool: a variable's name is one", "spec: {vars: {9lives: x}}", varsRefused),
		create(pool, "pool: without a hyphen", "spec: {vars: {a-b: x}}", varsRefused),
		create(pool, "pool: of 64 characters at most", "spec: {vars: {"+strings.Repeat("a", 65)+": x}}", varsRefused),
		create(pool, "pool: a variable's value is short", "spec: {vars: {A: "+strings.Repeat("x", 4097)+"}}",
			"spec.vars.A: Too long"),
		create(pool, "pool: which goes first is one of three", "spec: {deletePolicy: Biggest}", "spec.deletePolicy: Unsupported value"),
		create(pool, "pool: when to move is one of three", "spec: {rebalance: Sometimes}", "spec.rebalance: Unsupported value"),
		create(pool, "pool: where to grow is one of two", "spec: {unreachablePolicy: Wait}", "spec.unreachablePolicy: Unsupported value"),
		create(pool, "pool: what becomes of the group is one of two", "spec: {deletionPolicy: Keep}", "spec.deletionPolicy: Unsupported value"),
		create(pool, "pool: a Node takes a Pod at least", "spec: {nodeTemplate: {maxPods: 0}}", "spec.nodeTemplate.maxPods: Invalid value"),
		create(pool, "pool: a processor that there is", "spec: {nodeTemplate: {nodeInfo: {architecture: x86}}}",
			"spec.nodeTemplate.nodeInfo.architecture: Unsupported value"),
		create(pool, "pool: a taint's effect is Kubernetes' own", "spec: {nodeTemplate: {taints: [{key: a, effect: Never}]}}",
			"spec.nodeTemplate.taints[0].effect: Unsupported value"),
		create(pool, "pool: a quantity is one", "spec: {nodeTemplate: {capacity: {cpu: lots}}}", "spec.nodeTemplate.capacity.cpu: Invalid value"),
		create(pool, "pool: a provider id is not empty", `spec: {providerIDList: [""]}`, "spec.providerIDList[0]: Invalid value"),
		update(pool, "", "pool: the group stays", "spec: {group: other}",
			"spec.group is immutable; create a new NstanceMachinePool"),
		update(pool, "", "pool: shards come and go", "spec: {shards: [c, a]}", ""),
		update(pool, "", "pool: the template may be chosen", "spec: {template: knd}", ""),
		status(pool, "pool: capacity in strings", `status: {capacity: {cpu: "4", memory: 15Gi}, learned: {allocatable: {cpu: 3900m}}}`, ""),
		status(pool, "pool: capacity is not a number", "status: {capacity: {cpu: 4}}", quantitiesAreStrings),
		status(pool, "pool: nor is what was learnt", "status: {learned: {allocatable: {cpu: 4}}}", quantitiesAreStrings),
		status(pool, "pool: parts by shard", "status: {replicas: 3, shards: [{name: a, size: 3, running: 3}, {name: b, reachable: false}]}", ""),
	}
	for _, bad := range []string{"A", "a--b", "-a", "a-", "a_b", "a.b", "''", strings.Repeat("a", 33)} {
		cases = append(cases, create(pool, "pool: "+bad+" is no name of a shard", "spec: {shards: ["+bad+"]}", "spec.shards[0]: "))
	}
	return cases
}

// locked begins the refusal of a change to a static pool.
func locked(field string) string {
	return field + " is locked: the group is static, a server's configuration says "
}

func staticPoolCases() []Case {
	const static = "{spec: {template: knd, subnets: workers, loadBalancers: [web]}, status: {isStatic: true}}"
	const released = "{spec: {template: knd, subnets: workers, loadBalancers: [web]}, status: {isStatic: false}}"
	cases := []Case{
		update(pool, static, "static pool: a shard does not leave", "spec: {shards: [a]}", locked("spec.shards")),
		update(pool, static, "static pool: nor come", "spec: {shards: [a, b, c]}", locked("spec.shards")),
		update(pool, static, "static pool: their order stays", "spec: {shards: [b, a]}", locked("spec.shards")),
		update(pool, static, "static pool: the template stays", "spec: {template: other}", locked("spec.template")),
		update(pool, static, "static pool: it may be removed, for it means nothing", "spec: {template: null}", ""),
		update(pool, static, "static pool: so may the subnets and load balancers", "spec: {subnets: null, loadBalancers: null}", ""),
		update(pool, static, "static pool: the subnets stay", "spec: {subnets: other}", locked("spec.subnets")),
		update(pool, static, "static pool: the load balancers stay", "spec: {loadBalancers: [web, api]}", locked("spec.loadBalancers")),
		update(pool, "status: {isStatic: true}", "static pool: a template is not added", "spec: {template: knd}", locked("spec.template")),
		update(pool, static, "static pool: the machine type may change", "spec: {instanceType: m7i.xlarge}", ""),
		update(pool, static, "static pool: and the variables", "spec: {vars: {A: b}}", ""),
		update(pool, static, "static pool: and the policies", "spec: {deletionPolicy: Orphan, rebalance: Never}", ""),
		update(pool, static, "static pool: the operator lists its machines", "spec: {providerIDList: [x]}", ""),
		update(pool, released, "released pool: shards", "spec: {shards: [b]}", ""),
		update(pool, released, "released pool: template, subnets, load balancers",
			"spec: {template: other, subnets: null, loadBalancers: null}", ""),
	}
	release := update(pool, static, "static pool: the operator says that it is static no more", "status: {isStatic: false}", "")
	release.Status = true
	return append(cases, release)
}

// names is a list of n names.
func names(n int) string { return pairs("n%d", n) }

// pairs is a list of n entries of a format.
func pairs(format string, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ", ")
}
