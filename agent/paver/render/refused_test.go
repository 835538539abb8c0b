package render_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/render"
)

// change is one of an assignment.
type change = func(a *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate)

func kubeletConfig(text string) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) { t.Kubernetes.KubeletConfig = text }
}

func file(path string) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Machine.Files = []*nstancev1.MachineFile{{Path: "/etc/first", Mode: 0o644}, {Path: path, Mode: 0o644}}
	}
}

func bind(b *nstancev1.MachineBind) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Machine.Binds = []*nstancev1.MachineBind{b}
	}
}

func persist(dirs ...*nstancev1.MachinePersist) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) { t.Machine.Persist = dirs }
}

func device(d string) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) { t.Machine.Devices = []string{d} }
}

func unit(u *nstancev1.MachineUnit) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Machine.Units = []*nstancev1.MachineUnit{u}
	}
}

func environment(name, value string) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Machine.Environment = map[string]string{name: value}
	}
}

func registry(host string, mirrors ...*nstancev1.MachineMirror) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Machine.Registries = []*nstancev1.MachineRegistry{{Host: host, Mirrors: mirrors}}
	}
}

func sysctl(name, value string) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Host.Sysctls = map[string]string{name: value}
	}
}

func key(k string) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Host.SshKeys = []*nstancev1.MachineSshUser{{User: "admin", Keys: []string{k}}}
	}
}

func labels(key, value string) change {
	return func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Kubernetes.NodeLabels = map[string]string{key: value}
	}
}

func TestRender_Refuses(t *testing.T) {
	for _, tt := range []struct {
		field string // and the beginning of the message
		change
	}{
		{"template: is required", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.Template = nil }},
		{`nodeName: "Node"`, func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.NodeName = "Node" }},
		{`nodeName: "a\nb"`, func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.NodeName = "a\nb" }},
		{"providerID: ", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.ProviderId = "x --v=9" }},
		{"epoch: 0", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.Epoch = 0 }},
		{"configuration.name: ", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.Configuration.Name = "../gpu" }},
		{"configuration.version: 0", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.Configuration.Version = 0 }},
		{"configuration.hash: ", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.Configuration.Hash = "sha256:0" }},
		{"kubernetes.version: ", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) { t.Kubernetes.Version = "1.36" }},
		{"machine.network: Veth", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Machine.Network = nstancev1.MachineNetwork_MACHINE_NETWORK_VETH
		}},
		{"apiServer.endpoint: ", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) {
			a.ApiServer.Endpoint = "http://api.example.com"
		}},
		{"apiServer.caBundle: has no certificate", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { a.ApiServer.CaBundle = "" }},
		{"apiServer.caBundle: has something else", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) {
			a.ApiServer.CaBundle = certificate + "and more"
		}},
		{"timeouts.stop: 1s", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Timeouts = &nstancev1.MachineTimeouts{Stop: durationpb.New(1e9)}
		}},

		{"kubernetes.kubeletConfig: authentication cannot be set", kubeletConfig("authentication: {anonymous: {enabled: true}}")},
		{"kubernetes.kubeletConfig: Authorization cannot be set", kubeletConfig("Authorization: {mode: AlwaysAllow}")},
		{"kubernetes.kubeletConfig: tlsCertFile cannot be set", kubeletConfig("tlsCertFile: /x")},
		{"kubernetes.kubeletConfig: rotateCertificates cannot be set", kubeletConfig("rotateCertificates: false")},
		{"kubernetes.kubeletConfig: port cannot be set", kubeletConfig(`"port": 10255`)},
		{"kubernetes.kubeletConfig: staticPodURL cannot be set", kubeletConfig("staticPodURL: https://x.example.com")},
		{"kubernetes.kubeletConfig: kind must be", kubeletConfig("kind: Pod")},
		{"kubernetes.kubeletConfig: must be the members", kubeletConfig("- a")},
		{"kubernetes.kubeletConfig: must be one document", kubeletConfig("a: 1\n---\nauthentication: {}")},
		{"kubernetes.kubeletConfig: line 2: anchors", kubeletConfig("a: 1\nb: &x 2\nc: *x")},
		{"kubernetes.kubeletConfig: line 1: tags", kubeletConfig("a: !!binary AAAA")},
		{"kubernetes.kubeletConfig: line 2: maxPods is given twice", kubeletConfig("maxPods: 1\nmaxPods: 2")},
		{"kubernetes.kubeletConfig: line 1: the name of a member", kubeletConfig("1: 2")},
		{"kubernetes.kubeletConfig: is not YAML", kubeletConfig("a: [")},
		{"kubernetes.kubeletConfig: is longer", kubeletConfig(strings.Repeat("#", 65537))},
		{"kubernetes.clusterDNS[0]: ", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Kubernetes.ClusterDns = []string{"dns.example.com"}
		}},
		{"kubernetes.clusterDomain: ", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Kubernetes.ClusterDomain = "a b"
		}},
		{"kubernetes.nodeLabels: \"a,b\"", labels("a,b", "")},
		{"kubernetes.nodeLabels.a: \"x,y=z\"", labels("a", "x,y=z")},
		{"kubernetes.nodeLabels: \"kubernetes.io/role\" is a label that no kubelet", labels("kubernetes.io/role", "")},
		{"kubernetes.nodeLabels: \"node-role.kubernetes.io/master\" is a label that no kubelet", labels("node-role.kubernetes.io/master", "")},
		{"kubernetes.taints[0].effect: ", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Kubernetes.Taints = []*nstancev1.MachineTaint{{Key: "a", Effect: "Never"}}
		}},
		{"node.taints[0].key: ", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) {
			a.Node = &nstancev1.MachineNodeSettings{StartupTaints: []*nstancev1.MachineTaint{{Key: "a:b", Effect: "NoSchedule"}}}
		}},
		{"node.taints[0].value: ", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) {
			a.Node = &nstancev1.MachineNodeSettings{Taints: []*nstancev1.MachineTaint{{Key: "a", Value: "b,c", Effect: "NoSchedule"}}}
		}},
		{"node.reserved.cpu: ", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) {
			a.Node = &nstancev1.MachineNodeSettings{Reserved: map[string]string{"cpu": "half"}}
		}},
		{"node.max_pods: -1", func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) {
			a.Node = &nstancev1.MachineNodeSettings{MaxPods: -1}
		}},

		{`machine.files[1].path: "etc/x" must be an absolute path`, file("etc/x")},
		{`machine.files[1].path: "/etc/../x" must not contain ..`, file("/etc/../x")},
		{`machine.files[1].path: "/etc/.." must not contain ..`, file("/etc/..")},
		{`machine.files[1].path: "/etc/x\ny" must not contain control`, file("/etc/x\ny")},
		{`machine.files[1].path: "/etc/x\x00" must not contain control`, file("/etc/x\x00")},
		{`machine.files[1].path: "/etc/x " must not end in a blank`, file("/etc/x ")},
		{`machine.files[1].path: "/" would not be seen`, file("/")},
		{`machine.files[1].path: "/proc/1/environ" would not be seen`, file("/proc/1/environ")},
		{`machine.files[1].path: "/run/x" would not be seen`, file("//run/x")},
		{`machine.files[1].path: "/etc/first" is written by machine.files[0].path too`, file("/etc//first")},
		{`machine.files[0].path: "/etc/first" cannot be a file: "/etc/first/second" is below it`, file("/etc/first/second")},
		{`machine.files[1].path: "/etc/kubernetes" cannot be a file`, file("/etc/kubernetes")},
		{`machine.files[1].path: "/etc/hostname" cannot be a file: "/etc/hostname/x" is below`, file("/etc/hostname/x")},
		{`machine.files[1].path: "/etc/kubernetes/kubelet.yaml" is written for every machine: use kubernetes.kubeletConfig`, file(render.KubeletConfig)},
		{`machine.files[1].path: "/etc/systemd/system/kubelet.service" is written for every machine: use a file /etc/systemd/system/kubelet.service.d/NAME.conf`, file("/etc/systemd/system/kubelet.service")},
		{`machine.files[1].path: "/etc/kubernetes/bootstrap-kubelet.conf" is written for every machine: leave it out`, file(render.BootstrapKubeconfig)},
		{"machine.files[0].content: is longer", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Machine.Files = []*nstancev1.MachineFile{{Path: "/etc/x", Content: strings.Repeat("x", 16385)}}
		}},
		{"machine.files[0].mode: 04755", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Machine.Files = []*nstancev1.MachineFile{{Path: "/bin/x", Mode: 0o4755}}
		}},

		{"machine.units[0].name: ", unit(&nstancev1.MachineUnit{Name: "../../x.service"})},
		{"machine.units[0].name: ", unit(&nstancev1.MachineUnit{Name: "x.service\n"})},
		{"machine.units[0].name: ", unit(&nstancev1.MachineUnit{Name: "x.conf"})},
		{"machine.units[0].name: \"/etc/systemd/system/kubelet.service\" is written for every machine", unit(&nstancev1.MachineUnit{Name: "kubelet.service"})},
		{"machine.units[0].name: \"/etc/systemd/system/systemd-resolved.service\" is written for every machine", unit(&nstancev1.MachineUnit{Name: "systemd-resolved.service"})},
		{"machine.units[0].content: is longer", unit(&nstancev1.MachineUnit{Name: "x.service", Content: strings.Repeat("x", 8193)})},
		{"machine.units[0].content: WantedBy=\"../../x\"", unit(&nstancev1.MachineUnit{Name: "x.service", Enable: true, Content: "[Install]\nWantedBy=../../x"})},
		{"machine.units[0].enable: ", unit(&nstancev1.MachineUnit{Name: "x@.service", Enable: true})},

		{"machine.binds[0].source: ", bind(&nstancev1.MachineBind{Source: "data", Target: "/data"})},
		{"machine.binds[0].target: ", bind(&nstancev1.MachineBind{Source: "/data", Target: "/data\nCapability=all"})},
		{"machine.binds[0].target: \"/\"", bind(&nstancev1.MachineBind{Source: "/data", Target: "/"})},
		{"machine.binds[0].target: \"/proc/sys\"", bind(&nstancev1.MachineBind{Source: "/data", Target: "/proc/sys"})},
		{"machine.binds[0].source: \"/gone\" does not exist", bind(&nstancev1.MachineBind{Source: "/gone", Target: "/data"})},
		{"machine.binds[0].target: \"/etc\" would cover", bind(&nstancev1.MachineBind{Source: "/data", Target: "/etc"})},
		{"machine.binds[0].target: \"/etc/kubernetes/kubelet.yaml\" would cover", bind(&nstancev1.MachineBind{Source: "/data", Target: render.KubeletConfig})},
		{"machine.persist[0].path: \"/var/lib/kubelet/pki\" cannot survive", persist(&nstancev1.MachinePersist{Path: "/var/lib/kubelet/pki", Name: "a"})},
		{"machine.persist[0].path: \"/var\" cannot survive", persist(&nstancev1.MachinePersist{Path: "/var", Name: "a"})},
		{"machine.persist[0].path: \"/run/x\" cannot survive", persist(&nstancev1.MachinePersist{Path: "/run/x", Name: "a"})},
		{"machine.persist[0].name: ", persist(&nstancev1.MachinePersist{Path: "/data", Name: "../a"})},
		{"machine.persist[1].name: \"a\" is given twice", persist(&nstancev1.MachinePersist{Path: "/data", Name: "a"}, &nstancev1.MachinePersist{Path: "/more", Name: "a"})},
		{"machine.persist[1].path: \"/data\" is a target of machine.persist[0].path too", persist(&nstancev1.MachinePersist{Path: "/data", Name: "a"}, &nstancev1.MachinePersist{Path: "/data", Name: "b"})},
		{"machine.devices[0]: \"/dev/kvm\" does not exist", device("/dev/kvm")},
		{"machine.devices[0]: ", device("/etc/passwd")},
		{"machine.devices[0]: ", device("/dev/../etc/passwd")},
		{"machine.devices[0]: ", device("/dev/kvm rwm\nDeviceAllow=/dev/sda")},
		{"machine.devices[0]: ", device("/dev/[")},
		{"machine.environment: ", environment("A B", "")},
		{"machine.environment.A: \"x\\nCapability=all\" must not contain line breaks", environment("A", "x\nCapability=all")},
		{"machine.environment.A: must not contain quotes of both kinds", environment("A", `'"`)},
		{"machine.environment.A: is longer", environment("A", strings.Repeat("x", 1025))},
		{"machine.limits.memoryMax: -1", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Machine.Limits = &nstancev1.MachineLimits{MemoryMaxBytes: -1}
		}},
		{"machine.registries[0].host: ", registry("..")},
		{"machine.registries[0].host: ", registry("a/../../b")},
		{"machine.registries[0].mirrors[0].url: ", registry("docker.io", &nstancev1.MachineMirror{Url: "mirror.example.com"})},
		{"machine.registries[0].mirrors[0].url: must be an address such as", registry("docker.io", &nstancev1.MachineMirror{Url: "http://mirror.example.com"})},
		{"machine.registries[0].mirrors[0].url: must be a host and a path alone", registry("docker.io", &nstancev1.MachineMirror{Url: "https://u:p@mirror.example.com"})},
		{"machine.registries[0].mirrors[0].url: ", registry("docker.io", &nstancev1.MachineMirror{Url: "https://m.example.com/\"]\nskip_verify = true"})},
		{"machine.registries[0].mirrors[0].caBundle: ", registry("docker.io", &nstancev1.MachineMirror{Url: "https://m.example.com", CaBundle: "x"})},
		{"machine.pullSecret: \"../x\"", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) { t.Machine.PullSecret = "../x" }},

		{"host.sysctls: \"kernel/core_pattern\"", sysctl("kernel/core_pattern", "|/bin/sh")},
		{"host.sysctls.kernel.core_pattern: makes the kernel run a command", sysctl("kernel.core_pattern", "|/bin/sh")},
		{"host.sysctls.kernel.modprobe: makes the kernel run a command", sysctl("kernel.modprobe", "/tmp/x")},
		{"host.sysctls.fs.binfmt_misc.register: makes the kernel run a command", sysctl("fs.binfmt_misc.register", ":x")},
		{"host.sysctls: \"a..b\"", sysctl("a..b", "1")},
		{"host.sysctls: \"a.//.b\"", sysctl("a.//.b", "1")},
		{"host.sysctls: \"../x\"", sysctl("../x", "1")},
		{"host.sysctls.vm.swappiness: \"1\\nkernel.core_pattern = x\" must not", sysctl("vm.swappiness", "1\nkernel.core_pattern = x")},
		{"host.sysctls.vm.swappiness: must be 1 to 1024", sysctl("vm.swappiness", " ")},
		{"host.kernelModules[0]: ", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Host.KernelModules = []string{"overlay\nevil"}
		}},
		{"host.sshKeys[0].user: ", func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Host.SshKeys = []*nstancev1.MachineSshUser{{User: "../root"}}
		}},
		{"host.sshKeys[0].keys[0]: must be a public key", key(`command="/bin/sh" ` + sshKey(""))},
		{"host.sshKeys[0].keys[0]: must be a public key", key(sshKey("x") + "\n" + sshKey("y"))},
		{"host.sshKeys[0].keys[0]: must be a public key", key("ssh-ed25519 AAAA")},
		{"host.sshKeys[0].keys[0]: must be a public key", key(strings.Replace(sshKey(""), "ssh-ed25519", "ssh-rsa", 1))},
	} {
		t.Run(tt.field, func(t *testing.T) {
			h := host()
			h.Paths["/data"] = "/data"
			plan, err := render.Render(set(tt.change), h, nil)
			var invalid *render.Invalid
			if !errors.As(err, &invalid) {
				t.Fatalf("got %d files and error %v", len(plan.Files), err)
			}
			for _, p := range invalid.Problems {
				if strings.HasPrefix(p.Field+": "+p.Message, tt.field) {
					return
				}
			}
			t.Errorf("got %v", err)
		})
	}
}

// TestRender_ReportsEverything: who corrects a template wants to do it once.
func TestRender_ReportsEverything(t *testing.T) {
	a := set(func(a *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		file("etc/x")(a, t)
		device("/etc/passwd")(a, t)
		sysctl("a..b", "1")(a, t)
	})
	_, err := render.Render(a, host(), nil)
	var invalid *render.Invalid
	if !errors.As(err, &invalid) || len(invalid.Problems) != 3 {
		t.Errorf("got %v", err)
	}
}

// TestRender_Credential: a credential has to be that of the assignment, with all its secrets.
func TestRender_Credential(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(c *nstancev1.MachineCredential)
	}{
		{"another epoch", "credential.epoch: is 6", func(c *nstancev1.MachineCredential) { c.Epoch = 6 }},
		{"no token", "credential.token: ", func(c *nstancev1.MachineCredential) { c.Token = "" }},
		{"a token of two lines", "credential.token: ", func(c *nstancev1.MachineCredential) { c.Token = "marked\nx" }},
		{"no pull secret", "machine.pullSecret: the credential has no Secret pods", func(c *nstancev1.MachineCredential) { c.PullSecrets = nil }},
		{"a pull secret that is none", "machine.pullSecret: Secret pods is not the JSON", func(c *nstancev1.MachineCredential) {
			c.PullSecrets["pods"] = []byte("marked")
		}},
		{"a pull secret that is too large", "machine.pullSecret: Secret pods has 65537 bytes", func(c *nstancev1.MachineCredential) {
			c.PullSecrets["pods"] = []byte(strings.Repeat(" ", 65537))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := credential()
			tt.change(c)
			_, err := render.Render(full(), fullHost(), c)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "marked") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}
