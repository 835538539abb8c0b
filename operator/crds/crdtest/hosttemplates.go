package crdtest

import "strings"

func configurationCases() []Case {
	const (
		name    = "the name must be at most 50 characters a to z, 0 to 9 and hyphens"
		rolling = "spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: "
		most    = "must be at least 1, or a percentage of 1% to 100%"
		fell    = "status.latestVersion must not fall"
	)
	statusOf := func(before, name, change, refused string) Case {
		c := update(configuration, before, name, change, refused)
		c.Status = true
		return c
	}
	return []Case{
		create(configuration, "configuration: a template is enough", "", ""),
		create(configuration, "configuration: 50 characters are a name", "metadata: {name: "+strings.Repeat("a", 50)+"}", ""),
		create(configuration, "configuration: 51 characters are none", "metadata: {name: "+strings.Repeat("a", 51)+"}", name),
		create(configuration, "configuration: a dot in its name", "metadata: {name: a.b}", name),
		create(configuration, "configuration: all but the template", `
spec:
  priority: -5
  paused: true
  prebuild: {mode: Slot, maxConcurrent: 3}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {windows: [{cron: "0 3 * * 6", duration: 4h, timezone: Europe/Berlin}]}}
  revisionHistoryLimit: 0
`, ""),
		create(configuration, "configuration: a rollout of OnDelete", "spec: {updateStrategy: {type: OnDelete, rollingUpdate: {}}}", "rollingUpdate goes with type RollingUpdate"),
		create(configuration, "configuration: a rollout of the default", "spec: {updateStrategy: {rollingUpdate: {}}}", "rollingUpdate goes with type RollingUpdate"),
		create(configuration, "configuration: two unavailable", rolling+"2}}}", ""),
		create(configuration, "configuration: none unavailable", rolling+"0}}}", most),
		create(configuration, "configuration: all unavailable", rolling+"100%}}}", ""),
		create(configuration, "configuration: more than all", rolling+"101%}}}", most),
		create(configuration, "configuration: none of a hundred", rolling+"0%}}}", most),
		create(configuration, "configuration: a word", rolling+"half}}}", most),
		create(configuration, "configuration: a drain without a unit", "spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {drainTimeout: \"10\"}}}", "drainTimeout"),
		create(configuration, "configuration: 1001 versions", "spec: {revisionHistoryLimit: 1001}", "spec.revisionHistoryLimit"),
		create(configuration, "configuration: nine windows", "spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {windows: "+many(9, "{cron: \"0 3 * * 6\", duration: 4h}")+"}}}", "windows"),
		create(configuration, "configuration: no machine prepares", "spec: {prebuild: {maxConcurrent: 0}}", "spec.prebuild.maxConcurrent"),
		statusOf("status: {latestVersion: 3}", "configuration: its latest version grows", "status: {latestVersion: 4}", ""),
		statusOf("status: {latestVersion: 3}", "configuration: its latest version stays", "status: {latestVersion: 3, editableVersion: 3}", ""),
		statusOf("status: {latestVersion: 3}", "configuration: its latest version does not fall", "status: {latestVersion: 2}", fell),
		statusOf("status: {latestVersion: 3}", "configuration: it is not taken away", "status: {latestVersion: null}", fell),
		statusOf("status: {latestVersion: 3}", "configuration: nor with the status", "status: null", fell),
		update(configuration, "status: {latestVersion: 3}", "configuration: its template may change", "spec: {template: {kubernetes: {version: v1.36.4}}}", ""),
	}
}

func selectorCases() []Case {
	return []Case{
		create(configuration, "selector: all machines", "spec: {machineSelector: {}}", ""),
		create(configuration, "selector: labels and fields", `
spec:
  machineSelector:
    matchLabels: {hosts.nstance.dev/group: gpu}
    matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: DoesNotExist}]
    matchFields: [{key: spec.instance.onDemand, operator: NotIn, values: ["true"]}]
`, ""),
		create(configuration, "selector: the controller says that In needs a value", "spec: {machineSelector: {matchExpressions: [{key: a, operator: In}]}}", ""),
		create(configuration, "selector: an unknown operator", "spec: {machineSelector: {matchExpressions: [{key: a, operator: Gt}]}}", "operator"),
		create(configuration, "selector: an unknown field", "spec: {machineSelector: {matchFields: [{key: status.phase, operator: In, values: [Ready]}]}}", "key"),
		create(configuration, "selector: a field exists always", "spec: {machineSelector: {matchFields: [{key: metadata.name, operator: Exists, values: [a]}]}}", "operator"),
		create(configuration, "selector: a field without values", "spec: {machineSelector: {matchFields: [{key: metadata.name, operator: In, values: []}]}}", "values"),
		create(configuration, "selector: a long value", "spec: {machineSelector: {matchLabels: {a: "+strings.Repeat("b", 64)+"}}}", "matchLabels"),
	}
}

func templateImageCases() []Case {
	const (
		exactly = "exactly the field that type names must be set: oci, archive or debootstrap"
		archive = "spec: {template: {image: {type: Archive, oci: null, archive: {"
	)
	return []Case{
		create(configuration, "image: with a digest", "spec: {template: {image: {oci: {digest: "+digest+", pullSecret: registry}}}}", ""),
		create(configuration, "image: a digest that is none", "spec: {template: {image: {oci: {digest: sha256:abc}}}}", "digest"),
		create(configuration, "image: another type than its field", "spec: {template: {image: {type: Archive}}}", exactly),
		create(configuration, "image: two fields", "spec: {template: {image: {debootstrap: {suite: bookworm}}}}", exactly),
		create(configuration, "image: no field", "spec: {template: {image: {oci: null}}}", exactly),
		create(configuration, "image: an archive by its address", archive+`url: "https://example.com/root.tar.zst", sha256: `+digest+"}}}}", ""),
		create(configuration, "image: an archive in the storage", archive+"storageKey: images/root.tar, sha256: "+digest+"}}}}", ""),
		create(configuration, "image: an archive in two places", archive+`url: "https://example.com/r", storageKey: r, sha256: `+digest+"}}}}", "exactly one of url and storageKey must be set"),
		create(configuration, "image: an archive in no place", archive+"sha256: "+digest+"}}}}", "exactly one of url and storageKey must be set"),
		create(configuration, "image: an archive without a digest", archive+`url: "https://example.com/r"}}}}`, "sha256"),
		create(configuration, "image: debootstrap", "spec: {template: {image: {type: Debootstrap, oci: null, debootstrap: {suite: bookworm, packages: [containerd]}}}}", ""),
		create(configuration, "image: debootstrap with a switch", "spec: {template: {image: {type: Debootstrap, oci: null, debootstrap: {suite: bookworm, packages: [\"--foreign\"]}}}}", "packages"),
		create(configuration, "image: is required", "spec: {template: {image: null}}", "spec.template.image: Required value"),
	}
}

func templateMachineCases() []Case {
	in := func(text string) string { return "spec: {template: {machine: {" + text + "}}}" }
	return []Case{
		create(configuration, "machine: all of it", in(`network: Veth, binds: [{source: /lib/modules, target: /lib/modules, readOnly: true, optional: true}],
  persist: [{path: /var/log/pods, name: logs}], devices: [/dev/nvidia*], environment: {A: b}, units: [{name: a.service, content: "[Unit]", enable: true}],
  files: [{path: /etc/a, content: b, mode: "0600"}], limits: {memoryMax: 6Gi, cpuQuota: 250, tasksMax: 4096},
  registries: [{host: "docker.io", mirrors: [{url: "https://mirror.example.com"}]}], pullSecret: registry`), ""),
		create(configuration, "machine: a target that is not absolute", in("binds: [{source: /a, target: a}]"), "target"),
		create(configuration, "machine: a target that leads out", in("binds: [{source: /a, target: /a/../../etc}]"), "must not contain .."),
		create(configuration, "machine: two dots at the end", in("files: [{path: /etc/..}]"), "must not contain .."),
		create(configuration, "machine: two dots in a name", in("files: [{path: /etc/a..b}]"), ""),
		create(configuration, "machine: a file that is not absolute", in("files: [{path: etc/a}]"), "path"),
		create(configuration, "machine: a name for two directories", in("persist: [{path: /a, name: x}, {path: /b, name: x}]"), "Duplicate value"),
		create(configuration, "machine: a persistent directory has a label's name", in("persist: [{path: /a, name: X}]"), "persist[0].name"),
		create(configuration, "machine: a device outside of /dev", in("devices: [/etc/passwd]"), "devices[0]"),
		create(configuration, "machine: a unit without a type", in("units: [{name: a, content: x}]"), "units[0].name"),
		create(configuration, "machine: a long unit", in("units: [{name: a.service, content: "+strings.Repeat("x", 8193)+"}]"), "units[0].content"),
		create(configuration, "machine: a long file", in("files: [{path: /a, content: "+strings.Repeat("x", 16385)+"}]"), "files[0].content"),
		create(configuration, "machine: a mode in octal", in(`files: [{path: /a, mode: "0999"}]`), "files[0].mode"),
		create(configuration, "machine: many bundles", in("registries: [{host: a, mirrors: "+many(8, `{url: "https://m.example.com", caBundle: "`+strings.Repeat("x", 16384)+`"}`)+"}, {host: b, mirrors: [{url: \"https://m.example.com\", caBundle: x}]}]"), "the CA bundles of all mirrors together must be at most 131072 characters"),
		create(configuration, "machine: as many bundles as may be", in("registries: [{host: a, mirrors: "+many(8, `{url: "https://m.example.com", caBundle: "`+strings.Repeat("x", 16384)+`"}`)+"}, {host: b}]"), ""),
		create(configuration, "machine: an unknown network", in("network: None"), "network"),
		create(configuration, "kubernetes: labels and taints", `spec: {template: {kubernetes: {nodeLabels: {a: b}, taints: [{key: a, effect: NoSchedule}], clusterDNS: [10.96.0.10], artifacts: {kubelet: {url: "https://example.com/kubelet", sha256: `+digest+`}}}}}`, ""),
		create(configuration, "kubernetes: a version has a v", "spec: {template: {kubernetes: {version: 1.36.3}}}", "kubernetes.version"),
		create(configuration, "kubernetes: a version of two parts", "spec: {template: {kubernetes: {version: v1.36}}}", "kubernetes.version"),
		create(configuration, "kubernetes: an artifact without a digest", `spec: {template: {kubernetes: {artifacts: {runc: {url: "https://example.com/runc"}}}}}`, "sha256"),
		create(configuration, "kubernetes: an unknown effect", "spec: {template: {kubernetes: {taints: [{key: a, effect: Never}]}}}", "effect"),
		create(configuration, "timeouts: the shortest and the longest", "spec: {template: {timeouts: {prepare: 2h, stop: 10s}}}", ""),
		create(configuration, "timeouts: shorter", "spec: {template: {timeouts: {boot: 9s}}}", "must be 10s to 2h"),
		create(configuration, "timeouts: longer", "spec: {template: {timeouts: {join: 2h1s}}}", "must be 10s to 2h"),
	}
}

func templateHostCases() []Case {
	in := func(text string) string { return "spec: {template: {host: {" + text + "}}}" }
	const (
		options = "must be a public key: type, base64 and a comment, without options"
		key     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFake"
	)
	return []Case{
		create(configuration, "host settings: all of them", in("sysctls: {vm.max_map_count: \"262144\"}, kernelModules: [br_netfilter], sshKeys: [{user: admin, keys: [\""+key+" me@example.com\"]}]"), ""),
		create(configuration, "host settings: no arguments for the kernel", in("kernelArguments: []"), ""),
		create(configuration, "host settings: arguments for the kernel", in("kernelArguments: [nosmt]"),
			"kernel arguments are not supported in systemd-nspawn; set them in the image or user data of the VM (it will be replaced), or use host.sysctls and host.kernelModules"),
		create(configuration, "host settings: a key without a comment", in("sshKeys: [{user: admin, keys: [\""+key+"\"]}]"), ""),
		create(configuration, "host settings: a key with a command", in(`sshKeys: [{user: admin, keys: ['command="sh" `+key+`']}]`), options),
		create(configuration, "host settings: two keys in a line", in(`sshKeys: [{user: admin, keys: ["`+key+`\nssh-rsa AAAA"]}]`), options),
		create(configuration, "host settings: an unknown type of key", in(`sshKeys: [{user: admin, keys: [ssh-dss AAAA]}]`), options),
		create(configuration, "host settings: a user's name", in(`sshKeys: [{user: ../root, keys: ["`+key+`"]}]`), "user"),
		create(configuration, "host settings: a module's name", in("kernelModules: [\"a b\"]"), "kernelModules"),
	}
}

func versionCases() []Case {
	const (
		name     = "the name must be <configurationName>-v<version>"
		fixed    = "version is deployed; create a new one by editing the MachineConfiguration"
		stays    = "a version that is deployed stays deployed"
		deployed = "status: {deployed: true, resolved: {imageDigest: "
	)
	locked := deployed + digest + "}}"
	statusOf := func(before, name, change, refused string) Case {
		c := update(version, before, name, change, refused)
		c.Status = true
		return c
	}
	return []Case{
		create(version, "version: its name says what it is", "", ""),
		create(version, "version: another number than its name", "spec: {version: 4}", name),
		create(version, "version: another configuration than its name", "spec: {configurationName: cpu}", name),
		create(version, "version: a leading zero", "metadata: {name: gpu-v03}", name),
		create(version, "version: no number", "metadata: {name: gpu-vx}", name),
		create(version, "version: versions begin with 1", "{metadata: {name: gpu-v0}, spec: {version: 0}}", "spec.version"),
		update(version, "", "version: it may change until it is deployed", "spec: {template: {kubernetes: {version: v1.36.4}}}", ""),
		update(version, locked, "version: it may not after that", "spec: {template: {kubernetes: {version: v1.36.4}}}", fixed),
		update(version, locked, "version: nor may something be added", "spec: {template: {host: {sysctls: {a: b}}}}", fixed),
		update(version, locked, "version: foreign labels may come", "metadata: {labels: {mine: x}}", ""),
		update(version, "", "version: its number stays", "{spec: {version: 4}}", "configurationName and version are immutable"),
		statusOf("", "version: it is locked", locked, ""),
		statusOf(locked, "version: its counters move", "status: {machines: 3, appliedMachines: 2, readyMachines: 1}", ""),
		statusOf(locked, "version: it is not unlocked", "status: {deployed: false}", stays),
		statusOf(locked, "version: nor by an empty status", "status: null", stays),
		statusOf(locked, "version: what was resolved stays", "status: {resolved: {imageDigest: "+strings.Replace(digest, "0", "1", 1)+"}}", "status.resolved is immutable once it is set"),
		statusOf(locked, "version: it is not taken away", "status: {resolved: null}", "status.resolved is immutable once it is set"),
		statusOf("", "version: a hash is a digest", "status: {hash: abc}", "status.hash"),
	}
}

func operationCases() []Case {
	const (
		one    = "exactly one of machineRef and machineSelector must be set"
		target = "machineRef and machineSelector are immutable"
		what   = "operationName and parameters are immutable"
		how    = "timeoutSeconds and maxConcurrent are immutable"
	)
	return []Case{
		create(operation, "operation: a machine and a name are enough", "", ""),
		create(operation, "operation: on all machines", "spec: {machineRef: null, machineSelector: {}, maxConcurrent: 20}", ""),
		create(operation, "operation: on a machine and on all", "spec: {machineSelector: {}}", one),
		create(operation, "operation: on nothing", "spec: {machineRef: null}", one),
		create(operation, "operation: a custom name", "spec: {operationName: packetCapture, parameters: {seconds: \"10\"}}", ""),
		create(operation, "operation: a custom name with a domain", "spec: {operationName: example.com/packet-capture}", ""),
		create(operation, "operation: a name with a capital", "spec: {operationName: Reboot}", "spec.operationName"),
		create(operation, "operation: a domain without a name", "spec: {operationName: example.com/}", "spec.operationName"),
		create(operation, "operation: a long value", "spec: {parameters: {a: "+strings.Repeat("x", 4097)+"}}", "spec.parameters"),
		create(operation, "operation: a long key", "spec: {parameters: {"+strings.Repeat("x", 64)+": a}}", "the name of a parameter must be at most 63 characters"),
		create(operation, "operation: a time to live", "spec: {ttlSecondsAfterFinished: 0}", ""),
		create(operation, "operation: less than no time to live", "spec: {ttlSecondsAfterFinished: -1}", "ttlSecondsAfterFinished"),
		create(operation, "operation: a day", "spec: {timeoutSeconds: 86400}", ""),
		create(operation, "operation: more than a day", "spec: {timeoutSeconds: 86401}", "timeoutSeconds"),
		create(operation, "operation: 180 characters are a name", "metadata: {name: "+strings.Repeat("a", 180)+"}", ""),
		create(operation, "operation: 181 characters are none", "metadata: {name: "+strings.Repeat("a", 181)+"}", "the name must be at most 180 characters"),
		update(operation, "", "operation: the time to live may change", "spec: {ttlSecondsAfterFinished: 60}", ""),
		update(operation, "", "operation: the name of what is done stays", "spec: {operationName: shutdown}", what),
		update(operation, "", "operation: parameters do not come later", "spec: {parameters: {a: b}}", what),
		update(operation, "spec: {parameters: {a: b}}", "operation: parameters stay", "spec: {parameters: {a: c}}", what),
		update(operation, "", "operation: the machine stays", "spec: {machineRef: {name: other}}", target),
		update(operation, "", "operation: the machine does not become many", "spec: {machineRef: null, machineSelector: {}}", target),
		update(operation, "spec: {machineRef: null, machineSelector: {}}", "operation: the selector stays", "spec: {machineSelector: {matchLabels: {a: b}}}", target),
		update(operation, "", "operation: the time-out stays", "spec: {timeoutSeconds: 60}", how),
		update(operation, "spec: {machineRef: null, machineSelector: {}, maxConcurrent: 1}", "operation: how many at once stays", "spec: {maxConcurrent: 2}", how),
	}
}

func operationStatusCases() []Case {
	const final = "Complete and Failed are final"
	statusOf := func(before, name, change, refused string) Case {
		c := update(operation, before, name, change, refused)
		c.Status = true
		return c
	}
	return []Case{
		statusOf("", "operation: it waits", "status: {state: Pending}", ""),
		statusOf("status: {state: Pending}", "operation: it is taken", "status: {state: InProgress, executor: paver, attempts: 1}", ""),
		statusOf("status: {state: InProgress}", "operation: it does not wait again", "status: {state: Pending}", "an operation that is in progress must not go back to Pending"),
		statusOf("status: {state: InProgress}", "operation: nor does its state go", "status: {state: null}", "an operation that is in progress must not go back to Pending"),
		statusOf("status: {state: InProgress}", "operation: nor its status", "status: null", "an operation that is in progress must not go back to Pending"),
		statusOf("status: {state: InProgress}", "operation: it completes", "status: {state: Complete, results: {a: b}}", ""),
		statusOf("status: {state: Complete}", "operation: it does not fail after that", "status: {state: Failed}", final),
		statusOf("status: {state: Failed}", "operation: it does not complete after that", "status: {state: Complete}", final),
		statusOf("status: {state: Failed}", "operation: nor is that taken away", "status: null", final),
		statusOf("status: {state: Failed}", "operation: the rest may change", "status: {message: why}", ""),
		statusOf("", "operation: an unknown state", "status: {state: Running}", "status.state"),
		statusOf("", "operation: a long message", "status: {message: "+strings.Repeat("x", 1025)+"}", "status.message"),
	}
}
