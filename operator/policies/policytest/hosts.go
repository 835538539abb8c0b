package policytest

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// HostCases returns the table of the policies of host machines. Each call returns new objects.
func HostCases() []Case {
	var all []Case
	for _, part := range [][]Case{useCases(), writerCases(), hostCases(), operationCases(), reportCases()} {
		all = append(all, part...)
	}
	return all
}

// Users of host machines.
const (
	Host      = "hosts.nstance.dev:machine:box"
	HostGroup = "hosts.nstance.dev:machines"
)

// What RBAC allows some users beside the requests themselves.
const (
	MayProvision = "provision hostmachines.hosts.nstance.dev in "
	MayPower     = "power hostmachines.hosts.nstance.dev in "
)

const (
	hostVersion = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfigurationVersion
metadata:
  name: gpu-v3
  labels: {hosts.nstance.dev/configuration: gpu, hosts.nstance.dev/version: "3"}
  ownerReferences: [{apiVersion: hosts.nstance.dev/v1alpha1, kind: MachineConfiguration, name: gpu, uid: 0b8e5d6c-0000-4000-8000-000000000001, controller: true}]
spec: {configurationName: gpu, version: 3, template: {image: {type: OCI, oci: {reference: "node:1"}}, kubernetes: {version: v1.36.3}}}
`
	hostConfiguration = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfiguration
metadata: {name: gpu}
spec: {template: {image: {type: OCI, oci: {reference: "node:1"}}, kubernetes: {version: v1.36.3}}}
`
	hostOfInstance = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: knd01h455vb4pex5vsknk084sn020}
spec: {provisioner: nstance, instance: {shard: a, tenant: default, group: gpu, id: knd01h455vb4pex5vsknk084sn020}}
`
	hostInCloud = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: mine}
spec: {provisioner: cloud, cloud: {shard: a, group: gpu}}
`
	hostByHand = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: box}
spec: {provisioner: manual}
`
	hostReboot = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineOperation
metadata: {name: one}
spec: {machineRef: {name: box}, operationName: reboot}
`
)

// whole decodes an object of the cluster, or a patch.
func whole(text string) Object {
	object := Object{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		panic(fmt.Sprintf("policytest: %v in:\n%s", err, text))
	}
	return object
}

// with is an object with a JSON merge patch applied.
func with(object, patch string) Object { return patched(whole(object), whole(patch)) }

func patched(object, patch Object) Object {
	for key, value := range patch {
		inner, isObject := value.(Object)
		there, was := object[key].(Object)
		switch {
		case value == nil:
			delete(object, key)
		case isObject && was:
			object[key] = patched(there, inner)
		default:
			object[key] = value
		}
	}
	return object
}

// useCases are about what a machine refers to.
func useCases() []Case {
	uses := func(patch string) []Object {
		return []Object{with(hostByHand, "metadata: {name: free}"), with(hostByHand, patch)}
	}
	remove := func(name, user, object string, params []Object, refused string) Case {
		return Case{Name: name, User: user, Operation: "DELETE", Old: whole(object), Params: params, Refused: refused}
	}
	const (
		version = "MachineConfigurationVersion gpu-v3 is in use: "
		whole   = "MachineConfiguration gpu is in use: "
		named   = "spec: {configurationRef: {name: gpu, version: 3}}"
		status  = "status: {configuration: {"
		three   = ": {name: gpu, version: 3, epoch: 1}}}"
	)
	return []Case{
		remove("a version with no machine at all", Admin, hostVersion, nil, ""),
		remove("a version that no machine refers to", Admin, hostVersion, uses("spec: {configurationRef: {name: gpu, version: 4}}"), ""),
		remove("a version of another configuration", Admin, hostVersion, uses("spec: {configurationRef: {name: cpu, version: 3}}"), ""),
		remove("a reference without a version is none", Admin, hostVersion, uses("spec: {configurationRef: {name: gpu}}"), ""),
		remove("what a machine would be built from is no reference", Admin, hostVersion, uses(status+"desired: {name: gpu, version: 3}}}"), ""),
		remove("a version that a machine names", Admin, hostVersion, uses(named), version+"spec.configurationRef of HostMachine box names it; name another version first"),
		remove("a version that was assigned", Admin, hostVersion, uses(status+"assigned"+three), version+"it was assigned to HostMachine box; repave the machine with another version first"),
		remove("a version that runs", Admin, hostVersion, uses(status+"applied: {name: gpu, version: 3}}}"), version+"HostMachine box runs it; repave the machine with another version first"),
		remove("a version in the other slot", Admin, hostVersion, uses(status+"previous: {name: gpu, version: 3}}}"), version+"the other slot of HostMachine box holds it; it is free after the next repave"),
		remove("a version that a rollout brings a machine to", Admin, hostVersion, uses("status: {rollout: {name: gpu, version: 3, stage: Draining}}"), version+"a rollout brings HostMachine box to it; wait until it is done"),
		remove("a version of a rollout that has skipped the machine", Admin, hostVersion, uses("status: {rollout: {name: gpu, version: 3, stage: Skipped}}"), ""),
		remove("not by the operator either", Params.User, hostVersion, uses(named), version+"spec.configurationRef of HostMachine box names it; name another version first"),
		remove("nor by the garbage collector", GarbageCollector, hostVersion, uses(named), version+"spec.configurationRef of HostMachine box names it; name another version first"),

		remove("a configuration that no machine refers to", Admin, hostConfiguration, uses("spec: {configurationRef: {name: cpu}}"), ""),
		remove("a configuration that is desired", Admin, hostConfiguration, uses(status+"desired: {name: gpu, version: 3}}}"), ""),
		remove("a configuration that a machine names", Admin, hostConfiguration, uses("spec: {configurationRef: {name: gpu}}"), whole+"spec.configurationRef of HostMachine box names it; name another one first"),
		remove("a configuration that was assigned", Admin, hostConfiguration, uses(status+"assigned"+three), whole+"HostMachine box was built from it; repave the machine with another one first"),
		remove("a configuration that runs", Admin, hostConfiguration, uses(status+"applied: {name: gpu, version: 1}}}"), whole+"HostMachine box was built from it; repave the machine with another one first"),
		remove("a configuration in the other slot", Params.User, hostConfiguration, uses(status+"previous: {name: gpu, version: 1}}}"), whole+"HostMachine box was built from it; repave the machine with another one first"),
	}
}

// writerCases are about who writes versions.
func writerCases() []Case {
	const refused = "MachineConfigurationVersion gpu-v3 is written by the operator alone; edit MachineConfiguration gpu"
	update := func(name, user, patch, refused string) Case {
		return Case{Name: name, User: user, Operation: "UPDATE", Old: whole(hostVersion), New: with(hostVersion, patch), Refused: refused}
	}
	return []Case{
		{Name: "a user makes no version", User: Admin, Operation: "CREATE", New: whole(hostVersion), Refused: refused},
		{Name: "the operator makes versions", User: Params.User, Operation: "CREATE", New: whole(hostVersion)},
		update("a user edits no version", Admin, "spec: {template: {kubernetes: {version: v1.36.4}}}", refused),
		update("the operator edits versions", Params.User, "spec: {template: {kubernetes: {version: v1.36.4}}}", ""),
		update("a user adds a label and a finalizer", Admin, "metadata: {labels: {team: a}, finalizers: [example.com/x]}", ""),
		update("a user changes no label of ours", Admin, `metadata: {labels: {hosts.nstance.dev/version: "4"}}`, refused),
		update("a user removes no label of ours", Admin, `metadata: {labels: {hosts.nstance.dev/configuration: null}}`, refused),
		update("a user removes no owner", Admin, "metadata: {ownerReferences: null}", refused),
		update("the garbage collector removes the owner", GarbageCollector, "metadata: {ownerReferences: null}", ""),
		update("it changes nothing else", GarbageCollector, "spec: {template: {kubernetes: {version: v1.36.4}}}", refused),
	}
}

// hostCases are about who makes and deletes machines.
func hostCases() []Case {
	const (
		goes   = "HostMachine knd01h455vb4pex5vsknk084sn020 goes with its instance; delete the instance or the Cluster API Machine instead"
		makes  = "HostMachine knd01h455vb4pex5vsknk084sn020: the operator makes those of provisioner nstance; set spec.provisioner to cloud, manual or pxe"
		starts = "HostMachine mine starts a machine, which takes the verb provision on hostmachines; ask for the role hosts-provision"
		known  = "spec: {instance: {shard: a, tenant: default, group: gpu, id: knd01h455vb4pex5vsknk084sn020}}"
	)
	return []Case{
		{Name: "a user deletes no machine of an instance", User: Admin, Operation: "DELETE", Old: whole(hostOfInstance), Refused: goes},
		{Name: "the operator deletes it", User: Params.User, Operation: "DELETE", Old: whole(hostOfInstance)},
		{Name: "a user deletes one that was set up by hand", User: Admin, Operation: "DELETE", Old: whole(hostByHand)},
		{Name: "a user deletes one that was asked for", User: Admin, Operation: "DELETE", Old: whole(hostInCloud)},
		{Name: "a user makes no machine of an instance", User: Admin, Operation: "CREATE", New: whole(hostOfInstance), Refused: makes},
		{Name: "the operator makes it", User: Params.User, Operation: "CREATE", New: whole(hostOfInstance)},
		{Name: "a user makes one that is set up by hand", User: Admin, Operation: "CREATE", New: whole(hostByHand)},
		{Name: "a user who may not starts no machine", User: "dev", Operation: "CREATE", New: whole(hostInCloud), Refused: starts},
		{Name: "a user who may starts one", User: "dev", May: []string{MayProvision}, Operation: "CREATE", New: whole(hostInCloud)},
		{
			Name: "a user gives it no instance", User: "dev", May: []string{MayProvision}, Operation: "CREATE", New: with(hostInCloud, known),
			Refused: "HostMachine mine: spec.instance is written by the operator; leave it out",
		},
		{
			Name: "a user gives it none later", User: Admin, Operation: "UPDATE", Old: whole(hostInCloud), New: with(hostInCloud, known),
			Refused: "HostMachine mine: spec.instance is written by the operator alone; leave it as it is",
		},
		{Name: "the operator gives it one", User: Params.User, Operation: "UPDATE", Old: whole(hostInCloud), New: with(hostInCloud, known)},
		{
			Name: "a user gives it no provider id", User: Admin, Operation: "UPDATE", Old: whole(hostOfInstance), New: with(hostOfInstance, `spec: {providerID: "x://1"}`),
			Refused: "HostMachine knd01h455vb4pex5vsknk084sn020: spec.providerID is written by the operator alone; leave it as it is",
		},
		{Name: "one that was set up by hand gets one", User: Admin, Operation: "UPDATE", Old: whole(hostByHand), New: with(hostByHand, `spec: {providerID: "x://1"}`)},
		{
			Name: "a user edits what is for users", User: Admin, Operation: "UPDATE", Old: whole(hostOfInstance),
			New: with(hostOfInstance, "{metadata: {labels: {team: a}, annotations: {hosts.nstance.dev/reselect: x}}, spec: {paused: true, failurePolicy: Hold, configurationRef: {name: gpu}}}"),
		},
	}
}

// operationCases are about operations.
func operationCases() []Case {
	const (
		label = "MachineOperation one: label hosts.nstance.dev/machine is set by the operator alone; leave it as it is"
		power = "MachineOperation one: powerCycle takes the verb power on hostmachines; ask for the role hosts-power"
	)
	labelled := "metadata: {labels: {hosts.nstance.dev/machine: box}}"
	return []Case{
		{Name: "a user asks for an operation", User: Admin, Operation: "CREATE", New: with(hostReboot, "metadata: {labels: {team: a}}")},
		{Name: "a user labels no operation", User: Admin, Operation: "CREATE", New: with(hostReboot, labelled), Refused: label},
		{Name: "nor later", User: Admin, Operation: "UPDATE", Old: whole(hostReboot), New: with(hostReboot, labelled), Refused: label},
		{Name: "a user takes no label away", User: Admin, Operation: "UPDATE", Old: with(hostReboot, labelled), New: whole(hostReboot), Refused: label},
		{Name: "a user changes other labels", User: Admin, Operation: "UPDATE", Old: with(hostReboot, labelled), New: with(hostReboot, "metadata: {labels: {hosts.nstance.dev/machine: box, team: a}}")},
		{Name: "the operator labels operations", User: Params.User, Operation: "UPDATE", Old: whole(hostReboot), New: with(hostReboot, labelled)},
		{Name: "a user who may not switches no power", User: "dev", Operation: "CREATE", New: with(hostReboot, "spec: {operationName: powerCycle}"), Refused: power},
		{Name: "a user who may does", User: "dev", May: []string{MayPower}, Operation: "CREATE", New: with(hostReboot, "spec: {operationName: powerCycle}")},
		{Name: "nor that of many machines", User: "dev", Operation: "CREATE", New: with(hostReboot, "spec: {operationName: powerCycle, machineRef: null, machineSelector: {}}"), Refused: power},
		{Name: "a reboot takes no verb of its own", User: "dev", Operation: "CREATE", New: whole(hostReboot)},
	}
}

// reportCases are about hosts that write to the API server themselves.
func reportCases() []Case {
	report := func(name, old, status, refused string) Case {
		return Case{
			Name: name, User: Host, Groups: []string{HostGroup}, Operation: "UPDATE", SubResource: "status",
			Old: whole(old), New: with(old, status), Refused: refused,
		}
	}
	const (
		own   = "metadata: {labels: {hosts.nstance.dev/machine: box}}"
		other = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: other}
spec: {provisioner: manual}
`
		nothing = "host box may change the status of its HostMachine and of its MachineOperations, and nothing else"
	)
	operation := func(name, label, refused string) Case {
		return Case{
			Name: name, User: Host, Groups: []string{HostGroup}, Operation: "UPDATE", SubResource: "status",
			Old: with(hostReboot, label), New: with(hostReboot, label+"\nstatus: {state: InProgress}"), Refused: refused,
		}
	}
	return []Case{
		report("a host reports", hostByHand, "status: {host: {bootID: b}, slots: [{name: a}], executors: [{name: paver}], drift: []}", ""),
		report("a host assigns itself nothing", hostByHand, "status: {configuration: {source: Explicit}}", "host box may change host, slots, executors and drift of its status, not configuration"),
		report("a host has no say in its phase", hostByHand, "status: {phase: Ready}", "host box may change host, slots, executors and drift of its status, not phase"),
		report("a host reports nothing of another one", other, "status: {host: {bootID: b}}", "host box may not change what is not its own: hostmachines other"),
		operation("a host takes its operation", own, ""),
		operation("a host takes none of another one", "metadata: {labels: {hosts.nstance.dev/machine: other}}", "host box may not change what is not its own: machineoperations one"),
		{Name: "a host changes no spec", User: Host, Groups: []string{HostGroup}, Operation: "UPDATE", Old: whole(hostByHand), New: with(hostByHand, "spec: {paused: true}"), Refused: nothing},
		{Name: "a host makes nothing", User: Host, Groups: []string{HostGroup}, Operation: "CREATE", New: whole(hostReboot), Refused: nothing},
		{Name: "a host deletes nothing", User: Host, Groups: []string{HostGroup}, Operation: "DELETE", Old: whole(hostByHand), Refused: nothing},
		{Name: "a host edits no configuration", User: Host, Groups: []string{HostGroup}, Operation: "UPDATE", Old: whole(hostConfiguration), New: with(hostConfiguration, "spec: {paused: true}"), Refused: nothing},
	}
}
