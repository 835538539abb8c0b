package crdtest

import "strings"

const hostMachine = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: ` + id1 + `}
spec: {instance: {shard: a, tenant: default, group: workers, id: ` + id1 + `}}
`

const manualHost = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: rack-1-box-2}
spec: {provisioner: manual}
`

const cloudHost = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: mine}
spec: {provisioner: cloud, cloud: {shard: a, group: workers}}
`

const pxeHost = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: box}
spec: {provisioner: pxe, pxe: {bootMAC: "00:11:22:33:44:55"}}
`

const configuration = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfiguration
metadata: {name: gpu}
spec:
  template:
    image: {type: OCI, oci: {reference: "registry.example.com/node:1"}}
    kubernetes: {version: v1.36.3}
`

const version = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfigurationVersion
metadata: {name: gpu-v3}
spec:
  configurationName: gpu
  version: 3
  template:
    image: {type: OCI, oci: {reference: "registry.example.com/node:1"}}
    kubernetes: {version: v1.36.3}
`

const operation = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineOperation
metadata: {name: reboot-one}
spec: {machineRef: {name: ` + id1 + `}, operationName: reboot}
`

// digest is one that has the right form.
var digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)

// HostCases is the table of the kinds of host machines. Each call returns new objects.
func HostCases() []Case {
	var all []Case
	for _, kind := range [][]Case{
		hostMachineCases(), hostMachineStatusCases(), pxeCases(), configurationCases(), selectorCases(), templateImageCases(),
		templateMachineCases(), templateHostCases(), versionCases(), operationCases(), operationStatusCases(),
	} {
		all = append(all, kind...)
	}
	return all
}

// HostExamples are small valid objects, one of each kind of host machines.
func HostExamples() []Object {
	return []Object{parse(hostMachine), parse(configuration), parse(version), parse(operation)}
}

// many is a YAML list of n times the same.
func many(n int, text string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(text+",", n), ",") + "]"
}

func hostMachineCases() []Case {
	const (
		name  = "the name must be at most 63 characters a to z, 0 to 9 and hyphens"
		goes  = "instance goes with provisioner nstance, which requires it, and cloud"
		fixed = "instance is immutable once it is set"
		other = "spec: {instance: {shard: a, tenant: default, group: workers, id: " + id2 + "}}"
	)
	return []Case{
		create(hostMachine, "host: of an instance", "", ""),
		create(manualHost, "host: set up by hand", "", ""),
		create(cloudHost, "host: made in a cloud", "", ""),
		create(pxeHost, "host: booted over the network", "", ""),
		create(manualHost, "host: of a controller of others", "spec: {provisioner: example.com/maas}", ""),
		create(manualHost, "host: an unknown provisioner without a domain", "spec: {provisioner: azure}", "spec.provisioner"),
		create(manualHost, "host: 63 characters are a name", "metadata: {name: "+strings.Repeat("a", 63)+"}", ""),
		create(manualHost, "host: 64 characters are none", "metadata: {name: "+strings.Repeat("a", 64)+"}", name),
		create(manualHost, "host: a dot in its name", "metadata: {name: a.b}", name),
		create(hostMachine, "host: nstance requires the instance", "spec: {instance: null}", goes),
		create(manualHost, "host: manual has no instance", other, goes),
		create(cloudHost, "host: cloud requires cloud", "spec: {cloud: null}", goes),
		create(manualHost, "host: manual has no cloud", "spec: {cloud: {shard: a, group: workers}}", goes),
		create(manualHost, "host: manual has no pxe", "spec: {pxe: {boot: PXE}}", goes),
		create(hostMachine, "host: an instance has an id", "spec: {instance: {id: i-0abc}}", "spec.instance.id"),
		create(hostMachine, "host: a shard has a name", "spec: {instance: {shard: A}}", "spec.instance.shard"),
		create(cloudHost, "host: released", "spec: {cloud: {reclaimPolicy: Release, capacityType: Spot, instanceType: m7i.large}}", ""),
		create(cloudHost, "host: an unknown reclaim policy", "spec: {cloud: {reclaimPolicy: Keep}}", "spec.cloud.reclaimPolicy"),
		create(hostMachine, "host: a long provider id", "spec: {providerID: "+strings.Repeat("p", 513)+"}", "spec.providerID"),
		create(manualHost, "host: a node of another name", "spec: {nodeName: node-1.example.com}", ""),
		create(manualHost, "host: a node name is a DNS name", "spec: {nodeName: Node_1}", "spec.nodeName"),
		create(manualHost, "host: a configuration", "spec: {configurationRef: {name: gpu, version: 3}}", ""),
		create(manualHost, "host: versions begin with 1", "spec: {configurationRef: {name: gpu, version: 0}}", "spec.configurationRef.version"),
		create(manualHost, "host: 51 characters name no configuration", "spec: {configurationRef: {name: "+strings.Repeat("a", 51)+"}}", "spec.configurationRef.name"),
		create(manualHost, "host: an unknown failure policy", "spec: {failurePolicy: Ignore}", "spec.failurePolicy"),
		create(manualHost, "host: hardware", `spec: {hardware: {serial: S1, macAddresses: ["00:11:22:33:44:55"], addresses: [10.0.0.1], bmc: {url: "https://bmc.example.com", secretRef: {namespace: nstance-system, name: bmc}}}}`, ""),
		create(manualHost, "host: a MAC is in small letters", `spec: {hardware: {macAddresses: ["00:11:22:33:44:FF"]}}`, "spec.hardware.macAddresses[0]"),
		create(manualHost, "host: 17 interfaces", `spec: {hardware: {macAddresses: `+many(17, `"00:11:22:33:44:55"`)+`}}`, "spec.hardware.macAddresses"),

		update(manualHost, "", "host: the provisioner stays", "spec: {provisioner: pxe}", "provisioner is immutable"),
		update(cloudHost, "", "host: the instance of a cloud host is set once", other, ""),
		update(hostMachine, "", "host: the instance stays", other, fixed),
		update(cloudHost, other, "host: the instance is not taken away", "spec: {instance: null}", fixed),
		update(manualHost, "", "host: the provider id is set once", `spec: {providerID: "x://1"}`, ""),
		update(manualHost, `spec: {providerID: ""}`, "host: an empty provider id is none", `spec: {providerID: "x://1"}`, ""),
		update(manualHost, `spec: {providerID: "x://1"}`, "host: the provider id stays", `spec: {providerID: "x://2"}`, "providerID is immutable once it is set"),
		update(manualHost, `spec: {providerID: "x://1"}`, "host: the provider id is not taken away", `spec: {providerID: null}`, "providerID is immutable once it is set"),
		update(manualHost, "", "host: a node name comes at once or never", "spec: {nodeName: one}", "nodeName is immutable"),
		update(manualHost, "spec: {nodeName: one}", "host: the node name stays", "spec: {nodeName: two}", "nodeName is immutable"),
		update(manualHost, "spec: {nodeName: one}", "host: the rest may change", "spec: {paused: true, failurePolicy: Hold, configurationRef: {name: gpu}}", ""),
		update(cloudHost, "", "host: cloud stays", "spec: {cloud: {group: other}}", "cloud is immutable"),
	}
}

func hostMachineStatusCases() []Case {
	const (
		epoch    = "status.configuration.assigned.epoch must not fall"
		assigned = "status: {configuration: {assigned: {name: gpu, version: 3, epoch: 7}}}"
		made     = "status: {provisioning: {instanceID: " + id1 + "}}"
		instance = "spec: {instance: {shard: a, tenant: default, group: workers, id: " + id1 + "}}"
	)
	statusOf := func(example, before, name, change, refused string) Case {
		c := update(example, before, name, change, refused)
		c.Status = true
		return c
	}
	return []Case{
		statusOf(hostMachine, "", "host: the first assignment", assigned, ""),
		statusOf(hostMachine, assigned, "host: the next assignment", "status: {configuration: {assigned: {version: 4, epoch: 8}}}", ""),
		statusOf(hostMachine, assigned, "host: the same epoch", "status: {configuration: {assigned: {epoch: 7, hash: "+digest+"}}}", ""),
		statusOf(hostMachine, assigned, "host: an epoch does not fall", "status: {configuration: {assigned: {epoch: 6}}}", epoch),
		statusOf(hostMachine, assigned, "host: an assignment is not taken away", "status: {configuration: {assigned: null}}", epoch),
		statusOf(hostMachine, assigned, "host: nor its configuration", "status: {configuration: null}", epoch),
		statusOf(hostMachine, assigned, "host: nor its status", "status: null", epoch),
		statusOf(hostMachine, "", "host: an epoch begins with 1", "status: {configuration: {assigned: {name: gpu, version: 3, epoch: 0}}}", "status.configuration.assigned.epoch"),
		statusOf(cloudHost, "", "host: an id is stored", made, ""),
		statusOf(cloudHost, made, "host: another id while nothing was made", "status: {provisioning: {instanceID: "+id2+"}}", ""),
		statusOf(cloudHost, instance+"\n"+made, "host: the id of what was made stays", "status: {provisioning: {instanceID: "+id2+"}}", "status.provisioning.instanceID is immutable once the instance is known"),
		statusOf(cloudHost, instance+"\n"+made, "host: it is not taken away", "status: {provisioning: null}", "status.provisioning.instanceID is immutable once the instance is known"),
		statusOf(hostMachine, "", "host: all of the status", `
status:
  observedGeneration: 3
  phase: "Off"
  nodeRef: {name: one, uid: u}
  configuration: {source: Selector, desired: {name: gpu, version: 1}, applied: {name: gpu, version: 1}, previous: {name: gpu, version: 2}}
  inventory: {cpu: 8, memory: 32Gi, disks: [{path: /dev/sda, sizeBytes: 1}], nics: [{name: eth0, mac: "00:11:22:33:44:55"}]}
  bmc: {certificatePin: `+digest+`, powerState: "On"}
  host: {bootID: b, kernel: k, arch: amd64, cgroup: v2, addresses: [10.0.0.1]}
  slots: [{name: a, state: Running, version: gpu-v1}, {name: b, state: Empty}]
  repave: {epoch: 1, stage: boot}
  executors: [{name: paver, operations: [reboot]}]
  operations: [reboot-one]
  drift: [{path: /etc/x, kind: Changed}]
  hold: {reason: reboot}
`, ""),
		statusOf(hostMachine, "", "host: an unknown phase", "status: {phase: Sleeping}", "status.phase"),
		statusOf(hostMachine, "", "host: a third slot", "status: {slots: [{name: c}]}", "status.slots[0].name"),
		statusOf(hostMachine, "", "host: 33 drifted files", "status: {drift: "+many(33, "{path: /x, kind: Changed}")+"}", "status.drift"),
	}
}

func pxeCases() []Case {
	const (
		installed = `status: {provisioning: {installedAt: "2026-01-02T03:04:05Z"}}`
		fixed     = "of pxe only cleaning and networkData may change once the host is installed"
		stays     = "status.provisioning.installedAt is immutable once it is set"
		network   = `
spec:
  pxe:
    networkData:
      interfaces: [{name: eth0, mac: "00:11:22:33:44:55"}, {name: eth1, dhcp: Both, mtu: 9000}]
      bonds: [{name: bond0, members: [eth0, eth1], mode: LACP}]
      vlans: [{name: vlan7, link: bond0, id: 7, addresses: [10.7.0.2/24], routes: [{to: 0.0.0.0/0, via: 10.7.0.1}]}]
      nameservers: [10.0.0.1]
`
	)
	unset := update(pxeHost, installed, "pxe: an installation is not forgotten", "status: {provisioning: null}", stays)
	unset.Status = true
	return []Case{
		create(pxeHost, "pxe: a bond with a VLAN", network, ""),
		create(pxeHost, "pxe: an interface in two bonds", `spec: {pxe: {networkData: {interfaces: [{name: eth0}], bonds: [{name: b0, members: [eth0]}, {name: b1, members: [eth0]}]}}}`, "an interface may be a member of one bond only"),
		create(pxeHost, "pxe: the highest VLAN", `spec: {pxe: {networkData: {vlans: [{name: v, link: eth0, id: 4094}]}}}`, ""),
		create(pxeHost, "pxe: VLANs end there", `spec: {pxe: {networkData: {vlans: [{name: v, link: eth0, id: 4095}]}}}`, "networkData.vlans[0].id"),
		create(pxeHost, "pxe: VLANs begin with 1", `spec: {pxe: {networkData: {vlans: [{name: v, link: eth0, id: 0}]}}}`, "networkData.vlans[0].id"),
		create(pxeHost, "pxe: hints for a disk", "spec: {pxe: {rootDeviceHints: {model: X, minSizeGiB: 10, maxSizeGiB: 10, rotational: false}}}", ""),
		create(pxeHost, "pxe: no disk is that large", "spec: {pxe: {rootDeviceHints: {minSizeGiB: 11, maxSizeGiB: 10}}}", "minSizeGiB must not be more than maxSizeGiB"),
		create(pxeHost, "pxe: an unknown way to boot", "spec: {pxe: {boot: TFTP}}", "spec.pxe.boot"),
		update(pxeHost, "", "pxe: all may change before the installation", "spec: {pxe: {boot: VirtualMedia, installTo: Memory, adopt: true}}", ""),
		update(pxeHost, installed, "pxe: cleaning and network may change after it", strings.Replace(network, "  pxe:\n", "  pxe:\n    cleaning: full\n", 1), ""),
		update(pxeHost, installed, "pxe: how it boots may not", "spec: {pxe: {boot: VirtualMedia}}", fixed),
		update(pxeHost, installed, "pxe: nor where it is installed", "spec: {pxe: {rootDeviceHints: {serial: S}}}", fixed),
		update(pxeHost, installed, "pxe: nor what it boots from", "spec: {pxe: {bootMAC: null}}", fixed),
		update(pxeHost, installed, "pxe: nor may it go", "spec: {pxe: null}", fixed),
		unset,
	}
}
