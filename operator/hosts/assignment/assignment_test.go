package assignment

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func assigned() *hostsv1.HostMachine {
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "uid-m", Annotations: map[string]string{hostsv1.AnnotationKeepPods: "true"}}}
	m.Spec.ProviderID, m.Spec.FailurePolicy = "nstance://a/m", hostsv1.FailureHold
	m.Status.Configuration = &hostsv1.ConfigurationStatus{Assigned: &hostsv1.AssignedVersion{
		VersionReference: hostsv1.VersionReference{Name: "gpu", Version: 2, UID: "uid-gpu", Hash: "sha256:x"}, Epoch: 3,
	}}
	m.Status.Repave = &hostsv1.RepaveStatus{ExpectedNodeUID: "impostor"}
	return m
}

// M40: an assignment says all that building takes, with the defaults of the template filled in.
func TestM40_AnAssignmentIsComplete(t *testing.T) {
	c := Content{ImageDigest: "sha256:resolved", Template: hostsv1.Template{
		Image: hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "node:1", PullSecret: "pull"}},
		Kubernetes: hostsv1.Kubernetes{
			Version: "v1.36.3", NodeLabels: map[string]hostsv1.LabelValue{"a": "1"}, Taints: []hostsv1.Taint{{Key: "k", Effect: "NoSchedule"}},
			Artifacts: &hostsv1.Artifacts{Runc: &hostsv1.Artifact{URL: "https://x/runc", SHA256: "sha256:r"}},
		},
		Machine: &hostsv1.NodeMachine{
			Binds: []hostsv1.Bind{{Source: "/a", Target: "/b", Optional: true}}, Persist: []hostsv1.Persist{{Path: "/var/lib/x", Name: "x", WipeOnRepave: true}},
			Files: []hostsv1.File{{Path: "/etc/x", Content: "c"}, {Path: "/etc/y", Mode: "0600"}}, Units: []hostsv1.Unit{{Name: "u.service", Enable: true}},
			Limits: &hostsv1.Limits{MemoryMax: "6Gi", CPUQuota: ptr.To(int32(250)), TasksMax: ptr.To(int64(1000))}, PullSecret: "pods",
			Registries: []hostsv1.Registry{{Host: "docker.io", Mirrors: []hostsv1.Mirror{{URL: "https://mirror", CABundle: "pem"}}}},
		},
		Host:     &hostsv1.HostSettings{Sysctls: map[string]hostsv1.SettingValue{"vm.x": "1"}, SSHKeys: []hostsv1.SSHUser{{User: "u", Keys: []hostsv1.SSHKey{"ssh-ed25519 A"}}}},
		Timeouts: &hostsv1.Timeouts{Join: "90s"},
	}}
	group := &nstancev1.NodeSettings{Labels: map[string]string{"a": "2"}, StartupTaints: []*nstancev1.NodeTaint{{Key: "s", Effect: "NoExecute"}}, MaxPods: 7}
	got, err := Make(assigned(), hostsv1.ModeRepave, c, group, APIServer{URL: "https://api:6443", CA: []byte("ca")})
	if err != nil {
		t.Fatal(err)
	}
	want := &nstancev1.MachineAssignment{}
	if err := protojson.Unmarshal([]byte(`{
		"machineName": "m", "machineUid": "uid-m", "epoch": 3, "mode": "MACHINE_MODE_REPAVE", "nodeName": "m", "providerId": "nstance://a/m", "expectedNodeUid": "impostor",
		"configuration": {"name": "gpu", "version": 2, "uid": "uid-gpu", "hash": "sha256:x"}, "failurePolicy": "MACHINE_FAILURE_POLICY_HOLD", "keepPods": true,
		"apiServer": {"endpoint": "https://api:6443", "caBundle": "ca"},
		"node": {"labels": {"a": "2"}, "startupTaints": [{"key": "s", "effect": "NoExecute"}], "maxPods": 7},
		"template": {
			"image": {"oci": {"reference": "node:1", "digest": "sha256:resolved", "pullSecret": "pull"}},
			"kubernetes": {"version": "v1.36.3", "nodeLabels": {"a": "1"}, "taints": [{"key": "k", "effect": "NoSchedule"}], "clusterDomain": "cluster.local",
				"artifacts": {"runc": {"url": "https://x/runc", "sha256": "sha256:r"}}},
			"machine": {"network": "MACHINE_NETWORK_HOST", "binds": [{"source": "/a", "target": "/b", "ifPresent": true}], "persist": [{"path": "/var/lib/x", "name": "x", "wipeOnRepave": true}],
				"files": [{"path": "/etc/x", "content": "c", "mode": 420}, {"path": "/etc/y", "mode": 384}], "units": [{"name": "u.service", "enable": true}],
				"limits": {"memoryMaxBytes": "6442450944", "cpuQuotaPercent": 250, "tasksMax": "1000"}, "pullSecret": "pods",
				"registries": [{"host": "docker.io", "mirrors": [{"url": "https://mirror", "caBundle": "pem"}]}]},
			"host": {"sysctls": {"vm.x": "1"}, "sshKeys": [{"user": "u", "keys": ["ssh-ed25519 A"]}]},
			"timeouts": {"prepare": "1200s", "stop": "180s", "boot": "120s", "join": "90s"}
		}}`), want); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(want, got) {
		t.Errorf("want %s\ngot  %s", protojson.Format(want), protojson.Format(got))
	}
	if secrets := c.Template.PullSecrets(); !slices.Equal(secrets, []string{"pull", "pods"}) {
		t.Errorf("pull secrets %v", secrets)
	}
	if labels := Overridden(&c.Template, group); !slices.Equal(labels, []string{"a"}) {
		t.Errorf("overridden %v", labels)
	}
}

// A reset has neither template nor API server. M3: where instances go from cluster to cluster it wipes.
func TestM3_Reset(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		a := Reset(assigned(), wipe)
		if a.GetMode() != nstancev1.MachineMode_MACHINE_MODE_RESET || a.GetTemplate() != nil || a.GetApiServer() != nil || a.GetWipePersistent() != wipe || a.GetEpoch() != 3 {
			t.Errorf("wipe %v: %v", wipe, a)
		}
	}
}

// What cannot be sent is an error that says what to do.
func TestWhatCannotBeSent(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*hostsv1.Template)
		want   string
	}{
		"no image":  {func(t *hostsv1.Template) { t.Image = hostsv1.Image{} }, "no image"},
		"too large": {func(t *hostsv1.Template) { t.Kubernetes.KubeletConfig = strings.Repeat("x", MaxSize) }, "make the template smaller"},
		"a time":    {func(t *hostsv1.Template) { t.Timeouts = &hostsv1.Timeouts{Boot: "soon"} }, "timeouts.boot"},
		"a mode": {func(t *hostsv1.Template) {
			t.Machine = &hostsv1.NodeMachine{Files: []hostsv1.File{{Path: "/x", Mode: "rw"}}}
		}, "machine.files of /x"},
		"a size": {func(t *hostsv1.Template) {
			t.Machine = &hostsv1.NodeMachine{Limits: &hostsv1.Limits{MemoryMax: "much"}}
		}, "machine.limits.memoryMax"},
	} {
		c := Content{Template: hostsv1.Template{Image: hostsv1.Image{Archive: &hostsv1.ArchiveImage{URL: "https://x"}}}}
		tt.change(&c.Template)
		if _, err := Make(assigned(), hostsv1.ModePave, c, nil, APIServer{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
