package crdtest

const shardGroup = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceShardGroup
metadata: {name: workers--a}
spec: {group: workers, shard: a, size: 3}
`

const machine = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachine
metadata: {name: one}
spec: {groupRef: {name: workers}}
`

const template = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachineTemplate
metadata: {name: workers}
spec: {template: {spec: {groupRef: {name: workers}}}}
`

// Ids of instances.
const (
	id1 = "knd01h455vb4pex5vsknk084sn020"
	id2 = "knd01h455vb4pex5vsknk084sn024"
)

func shardGroupCases() []Case {
	const name = "metadata.name must be spec.group, two hyphens and spec.shard; leave making these objects to the pool"
	return []Case{
		create(shardGroup, "part: a size is enough", "", ""),
		create(shardGroup, "part: its name says what it is", "metadata: {name: workers--b}", name),
		create(shardGroup, "part: with two hyphens", "metadata: {name: workers-a}", name),
		create(shardGroup, "part: zero is a size", "spec: {size: 0}", ""),
		create(shardGroup, "part: below zero is none", "spec: {size: -1}", "spec.size: Invalid value: -1"),
		create(shardGroup, "part: 10000 is the largest", "spec: {size: 10001}", "spec.size: Invalid value: 10001"),
		create(shardGroup, "part: instances retire", "spec: {retiring: ["+id1+", "+id2+"]}", ""),
		create(shardGroup, "part: each once", "spec: {retiring: ["+id1+", "+id1+"]}", "spec.retiring[1]: Duplicate value"),
		create(shardGroup, "part: by their ids", "spec: {retiring: [i-0abc]}", "spec.retiring[0]: "),
		update(shardGroup, "", "part: the group stays", "spec: {group: other}", "spec.group is immutable; the pool creates a new NstanceShardGroup for another group"),
		update(shardGroup, "", "part: the shard stays", "spec: {shard: b}", "spec.shard is immutable; the pool creates a new NstanceShardGroup for another shard"),
		update(shardGroup, "", "part: the size changes", "spec: {size: 4}", ""),
		status(shardGroup, "part: what the server said", `
status:
  isStatic: true
  config: {template: knd, vars: {A: b}, etag: e1}
  serverSize: 0
  replicas: 3
  providerIDs: [a, b]
  kind: knd
  capacity: {cpu: "2"}
`, ""),
		status(shardGroup, "part: capacity is not a number", "status: {capacity: {cpu: 2}}", quantitiesAreStrings),
	}
}

func machineCases() []Case {
	const all = "spec: {shard: a, instanceType: m, vars: {A: b}, template: t, subnets: s, loadBalancers: [l]}"
	const managed = "{metadata: {name: " + id1 + "}, spec: {mode: Managed, instanceID: " + id1 + ", shard: a}}"
	return []Case{
		create(machine, "machine: a group is enough", "", ""),
		create(machine, "machine: everything at once", all, ""),
		create(machine, "machine: a group is required", "spec: {groupRef: null}", "spec.groupRef: Required value"),
		create(machine, "machine: managed, with the instance's name", managed, ""),
		create(machine, "machine: managed needs an instance", "spec: {mode: Managed}",
			"instanceID is required with mode Managed; leave Managed machines to the operator, or leave mode out"),
		create(machine, "machine: managed has the instance's name", "spec: {mode: Managed, instanceID: "+id1+"}",
			"metadata.name must be spec.instanceID with mode Managed; leave Managed machines to the operator, or leave mode out"),
		create(machine, "machine: a mode is one of two", "spec: {mode: Spare}", "spec.mode: Unsupported value"),
		create(machine, "machine: an instance's id is one", "spec: {instanceID: knd-1}", "spec.instanceID: "),
		update(machine, "", "machine: the mode stays", "spec: {mode: Managed, instanceID: "+id1+"}", "mode is immutable; create another machine"),
		update(machine, "", "machine: the group stays", "spec: {groupRef: {name: other}}", "groupRef is immutable; create another machine"),
		update(machine, "", "machine: a type is not added", "spec: {instanceType: m}", "instanceType is immutable"),
		update(machine, all, "machine: the type stays", "spec: {instanceType: m2}", "instanceType is immutable"),
		update(machine, all, "machine: the template stays", "spec: {template: u}", "template is immutable"),
		update(machine, all, "machine: the subnets stay", "spec: {subnets: null}", "subnets is immutable"),
		update(machine, all, "machine: the variables stay", "spec: {vars: {A: c}}", "vars is immutable"),
		update(machine, all, "machine: and are not taken away", "spec: {vars: null}", "vars is immutable"),
		update(machine, all, "machine: the load balancers stay", "spec: {loadBalancers: [l, m]}", "loadBalancers is immutable"),
		update(machine, all, "machine: nothing changes", all, ""),
		update(machine, "", "machine: the provider id comes", "spec: {providerID: x}", ""),
		update(machine, "spec: {providerID: x}", "machine: and stays", "spec: {providerID: z}", "providerID is immutable once set; create another machine"),
		update(machine, "spec: {providerID: x}", "machine: and is not taken away", "spec: {providerID: null}", "providerID is immutable once set; create another machine"),
		status(machine, "machine: what is known", `
status:
  initialization: {provisioned: true}
  ready: true
  instanceID: `+id1+`
  instanceState: running
  addresses: [{type: InternalIP, address: 10.0.0.1}]
  nodeRef: {name: n1, uid: u1}
  drain: {reason: expired, remainingPods: 0}
`, ""),
		status(machine, "machine: an address has a known type", "status: {addresses: [{type: IP, address: 10.0.0.1}]}",
			"status.addresses[0].type: Unsupported value"),
	}
}

// machineRetryCases are about the one thing of an instance that may change: which it is,
// while it has never been there.
func machineRetryCases() []Case {
	const chosen = "spec: {shard: a, instanceID: " + id1 + "}"
	const elsewhere = "spec: {shard: b, instanceID: " + id2 + "}"
	const keeps = "spec.instanceID is immutable once set, unless the instance ended before it was provisioned; create another machine"
	at := func(status string) string { return "{" + chosen + ", status: " + status + "}" }
	return []Case{
		update(machine, "", "machine: shard and instance are chosen", chosen, ""),
		update(machine, chosen, "machine: the instance stays", "spec: {instanceID: "+id2+"}", keeps),
		update(machine, chosen, "machine: nor is it taken away", "spec: {instanceID: null}", keeps),
		update(machine, chosen, "machine: the shard stays", "spec: {shard: b}",
			"spec.shard is immutable once set, unless the instance ended before it was provisioned; create another machine"),
		update(machine, at("{instanceState: provisioning}"), "machine: also while it is made", "spec: {instanceID: "+id2+"}", keeps),
		update(machine, at("{instanceState: terminated}"), "machine: one that never was is tried elsewhere", elsewhere, ""),
		update(machine, at("{instanceState: terminated, initialization: {provisioned: true}}"),
			"machine: one that was is not", "spec: {instanceID: "+id2+"}", keeps),
		update(machine, "{metadata: {name: "+id1+"}, spec: {mode: Managed, instanceID: "+id1+"}, status: {instanceState: terminated}}",
			"machine: nor is one that a group keeps", "{metadata: {name: "+id1+"}, spec: {instanceID: null}}",
			"instanceID is required with mode Managed"),
	}
}

func templateCases() []Case {
	return []Case{
		create(template, "template: a group is enough", "", ""),
		create(template, "template: with labels", "spec: {template: {metadata: {labels: {a: b}, annotations: {c: d}}}}", ""),
		create(template, "template: its machines have a group", "spec: {template: {spec: {groupRef: null}}}",
			"spec.template.spec.groupRef: Required value"),
		// That it stays, a policy says, which can tell a dry run from a change.
		update(template, "", "template: the schema lets it change", "spec: {template: {spec: {instanceType: m}}}", ""),
		status(template, "template: capacity is not a number", "status: {capacity: {cpu: 2}}", quantitiesAreStrings),
	}
}
