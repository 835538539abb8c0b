package render_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/render"
)

// certificate is one in PEM, always the same.
var certificate = func() string {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}()

// sshKey is a public key of one type.
func sshKey(comment string) string {
	blob := append([]byte{0, 0, 0, 11}, "ssh-ed25519"...)
	blob = append(blob, 0, 0, 0, 32)
	blob = append(blob, make([]byte, 32)...)
	return strings.TrimSpace("ssh-ed25519 " + base64.StdEncoding.EncodeToString(blob) + " " + comment)
}

// assignment is the smallest one.
func assignment() *nstancev1.MachineAssignment {
	return &nstancev1.MachineAssignment{
		MachineName: "knd068a3cp3thz5z2mv1gejwftabc", MachineUid: "0b8e", NodeName: "knd068a3cp3thz5z2mv1gejwftabc",
		ProviderId: "nstance://us-1a/knd068a3cp3thz5z2mv1gejwftabc", Epoch: 7, Mode: nstancev1.MachineMode_MACHINE_MODE_REPAVE,
		Configuration: &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: 2, Uid: "77", Hash: "sha256:" + strings.Repeat("0a", 32)},
		Template: &nstancev1.MachineTemplate{
			Image: &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Oci{Oci: &nstancev1.MachineOciImage{
				Reference: "registry.example.com/node:1", Digest: "sha256:" + strings.Repeat("0b", 32),
			}}},
			Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3"},
		},
		ApiServer: &nstancev1.MachineApiServer{Endpoint: "https://api.example.com:6443", CaBundle: certificate},
	}
}

// credential is that of the assignment.
func credential() *nstancev1.MachineCredential {
	return &nstancev1.MachineCredential{Epoch: 7, Sequence: 1, Token: "marked-token", PullSecrets: map[string][]byte{
		"pods": []byte(`{"auths":{"registry.example.com":{"auth":"marked-secret"}}}`),
	}}
}

func host() render.Host {
	return render.Host{
		Machine: "node-a", ResolvConf: "nameserver 127.0.0.53\n", PodResolvConf: "nameserver 192.0.2.1\n", Paths: map[string]string{},
	}
}

// set changes the smallest assignment.
func set(change func(a *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate)) *nstancev1.MachineAssignment {
	a := assignment()
	a.Template.Machine, a.Template.Host = &nstancev1.MachineSettings{}, &nstancev1.MachineHostSettings{}
	change(a, a.Template)
	return a
}

// full is an assignment with everything.
func full() *nstancev1.MachineAssignment {
	return set(func(a *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		a.Node = &nstancev1.MachineNodeSettings{
			Labels:        map[string]string{"example.com/pool": "gpu", "tier": "group"},
			Taints:        []*nstancev1.MachineTaint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}},
			StartupTaints: []*nstancev1.MachineTaint{{Key: "example.com/network", Value: "down", Effect: "NoExecute"}},
			Reserved:      map[string]string{"cpu": "500m", "memory": "1Gi", "example.com/thing": "2"}, MaxPods: 50,
		}
		t.Kubernetes = &nstancev1.MachineKubernetes{
			Version: "v1.36.3", NodeLabels: map[string]string{"tier": "template", "zone-class": "a"},
			Taints:     []*nstancev1.MachineTaint{{Key: "nvidia.com/gpu", Value: "x", Effect: "NoExecute"}, {Key: "own", Effect: "PreferNoSchedule"}},
			ClusterDns: []string{"10.96.0.10", "fd00::a"}, ClusterDomain: "cluster.example",
			KubeletConfig: "# taken from the old nodes\ncgroupDriver: cgroupfs\nimageGCHighThresholdPercent: 70\nkubeReserved: {cpu: 100m, ephemeral-storage: 5Gi}\nfeatureGates: {Example: yes}\nregistryPullQPS: 0x10\nmaxPods: 200\n",
		}
		m := t.Machine
		m.Binds = []*nstancev1.MachineBind{
			{Source: "/opt/nstance-agent/recv", Target: "/etc/pushed", ReadOnly: true},
			{Source: "/srv/a:b\\c", Target: "/srv/data//"},
			{Source: "/opt/missing", Target: "/opt/missing", IfPresent: true},
		}
		m.Persist = []*nstancev1.MachinePersist{{Path: "/var/log/pods", Name: "pods"}, {Path: "/var/lib/containerd", Name: "images", WipeOnRepave: true}}
		m.Devices = []string{"/dev/kvm", "/dev/nvidia*"}
		m.Environment = map[string]string{"HTTP_PROXY": "http://proxy.example.com:3128/%20$x", "GREETING": `it's \o/`, "SAID": `"yes"`}
		m.Units = []*nstancev1.MachineUnit{
			{Name: "tune.service", Content: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target \\\n  sockets.target\nRequiredBy=kubelet.service", Enable: true},
			{Name: "tune.timer", Content: "[Timer]\nOnBootSec=5m\n", Enable: true},
			{Name: "idle@.service", Content: "[Service]\nExecStart=/bin/true\n"},
		}
		m.Files = []*nstancev1.MachineFile{
			{Path: "/etc/modprobe.d/x.conf", Content: "options x y=1\n", Mode: 0o644},
			{Path: "/usr/local/sbin/hello", Content: "#!/bin/sh\necho hello", Mode: 0o755},
		}
		m.Limits = &nstancev1.MachineLimits{MemoryMaxBytes: 6 << 30, CpuQuotaPercent: 250, TasksMax: 4096}
		m.Registries = []*nstancev1.MachineRegistry{
			{Host: "docker.io", Mirrors: []*nstancev1.MachineMirror{
				{Url: "https://mirror.example.com", CaBundle: certificate}, {Url: "https://harbor.example.com/v2/hub"}, {Url: "https://192.0.2.7:5000/cache"},
			}},
			{Host: "registry.example.com:5000"},
		}
		m.PullSecret = "pods"
		t.Host = &nstancev1.MachineHostSettings{
			Sysctls:       map[string]string{"vm.max_map_count": " 262144 ", "vm.panic_on_oom": "1", "net.ipv4.conf.eth0/100.rp_filter": "2", "net.ipv4.ip_local_port_range": "1024\t65000"},
			KernelModules: []string{"ip_vs", "overlay"},
			SshKeys: []*nstancev1.MachineSshUser{
				{User: "admin", Keys: []string{sshKey("anna@example.com with blanks"), sshKey("")}}, {User: "other", Keys: []string{sshKey("x")}},
			},
		}
		t.Timeouts = &nstancev1.MachineTimeouts{Stop: durationpb.New(90500 * time.Millisecond)}
	})
}

// fullHost is a host with what the full assignment needs.
func fullHost() render.Host {
	h := host()
	h.SSHUsers = []string{"admin"}
	for _, p := range []string{
		"/lib/modules", "/etc/needrestart/conf.d", "/etc/apt/apt.conf.d", "/opt/nstance-agent/recv", `/srv/a:b\c`,
		"/dev/kvm", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidiactl",
	} {
		h.Paths[p] = p
	}
	return h
}

// rendered is the plan of an assignment that has to have one.
func rendered(t *testing.T, a *nstancev1.MachineAssignment, h render.Host, c *nstancev1.MachineCredential) render.Plan {
	t.Helper()
	plan, err := render.Render(a, h, c)
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	return plan
}

// content is that of one file of a plan.
func content(t *testing.T, plan render.Plan, place render.Place, path string) string {
	t.Helper()
	for _, f := range plan.Of(place) {
		if f.Path == path {
			return f.Content
		}
	}
	t.Fatalf("the plan has no file %s", path)
	return ""
}
