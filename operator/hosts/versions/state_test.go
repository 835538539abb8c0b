package versions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

func template(change func(*hostsv1.Template)) *hostsv1.Template {
	t := &hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "registry.example.com/node:1"}},
		Kubernetes: hostsv1.Kubernetes{Version: "v1.36.3"},
	}
	if change != nil {
		change(t)
	}
	return t
}

// The hash of a template is stored and compared by later releases: it must never change.
func TestHashIsGolden(t *testing.T) {
	full := template(func(t *hostsv1.Template) {
		t.Kubernetes.NodeLabels = map[string]hostsv1.LabelValue{"b": "2", "a": "1"}
		t.Kubernetes.Taints = []hostsv1.Taint{{Key: "gpu", Effect: "NoSchedule"}}
		t.Machine = &hostsv1.NodeMachine{
			Binds: []hostsv1.Bind{{Source: "/lib/modules", Target: "/lib/modules", ReadOnly: true}},
			Files: []hostsv1.File{{Path: "/etc/motd", Content: "<&>"}},
		}
		t.Host = &hostsv1.HostSettings{Sysctls: map[string]hostsv1.SettingValue{"vm.max_map_count": "262144"}}
		t.Timeouts = &hostsv1.Timeouts{Join: "5m"}
	})
	for name, tt := range map[string]struct {
		template *hostsv1.Template
		want     hostsv1.SHA256
	}{
		"least": {template(nil), "sha256:cf376aad7de7ec521ad28e315077e8d643a059767eea53b14647175c06d06e8a"},
		"full":  {full, "sha256:85f567caa415e3ed4000091ec01e6010d05fea952363c304f52115df040f703b"},
	} {
		if got := Hash(tt.template); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestHashComparesWhatIsBuilt(t *testing.T) {
	least := Hash(template(nil))
	for name, change := range map[string]func(*hostsv1.Template){
		"defaults that are written": func(t *hostsv1.Template) {
			t.Kubernetes.ClusterDomain = "cluster.local"
			t.Machine = &hostsv1.NodeMachine{Network: hostsv1.NetworkHost}
			t.Timeouts = &hostsv1.Timeouts{Prepare: "20m", Stop: "3m", Boot: "2m", Join: "10m"}
		},
		"empty objects": func(t *hostsv1.Template) {
			t.Machine, t.Host, t.Timeouts = &hostsv1.NodeMachine{}, &hostsv1.HostSettings{}, &hostsv1.Timeouts{}
			t.Kubernetes.Artifacts = &hostsv1.Artifacts{}
		},
		"empty lists": func(t *hostsv1.Template) {
			t.Kubernetes.Taints, t.Kubernetes.NodeLabels = []hostsv1.Taint{}, map[string]hostsv1.LabelValue{}
		},
	} {
		if got := Hash(template(change)); got != least {
			t.Errorf("%s change the hash", name)
		}
	}
	for name, change := range map[string]func(*hostsv1.Template){
		"another version":    func(t *hostsv1.Template) { t.Kubernetes.Version = "v1.36.4" },
		"another time-out":   func(t *hostsv1.Template) { t.Timeouts = &hostsv1.Timeouts{Stop: "4m"} },
		"a label of no text": func(t *hostsv1.Template) { t.Kubernetes.NodeLabels = map[string]hostsv1.LabelValue{"a": ""} },
		"a taint": func(t *hostsv1.Template) {
			t.Kubernetes.Taints = []hostsv1.Taint{{Key: "a", Effect: "NoSchedule"}}
		},
	} {
		if Hash(template(change)) == least {
			t.Errorf("%s does not change the hash", name)
		}
	}
}

// Hash knows the defaults of the schema: a template has the hash of what is stored of it.
func TestHashKnowsTheDefaultsOfTheSchema(t *testing.T) {
	all, err := crds.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		if crd.Spec.Names.Kind != hostsv1.KindMachineConfiguration {
			continue
		}
		judge, err := crdtest.NewJudge(crd)
		if err != nil {
			t.Fatal(err)
		}
		sent := template(func(t *hostsv1.Template) {
			t.Image = hostsv1.Image{Type: hostsv1.ImageDebootstrap, Debootstrap: &hostsv1.DebootstrapImage{Suite: "bookworm"}}
			t.Machine = &hostsv1.NodeMachine{Files: []hostsv1.File{{Path: "/a"}}}
			t.Timeouts = &hostsv1.Timeouts{}
		})
		c := &hostsv1.MachineConfiguration{Spec: hostsv1.MachineConfigurationSpec{Template: *sent}}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		if err != nil {
			t.Fatal(err)
		}
		stored := &hostsv1.MachineConfiguration{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(judge.Store(object), stored); err != nil {
			t.Fatal(err)
		}
		if cmp.Equal(*sent, stored.Spec.Template) {
			t.Fatal("the schema has added no default: the test shows nothing")
		}
		if Hash(sent) != Hash(&stored.Spec.Template) {
			t.Errorf("what is stored has another hash: %s", cmp.Diff(*sent, stored.Spec.Template))
		}
		return
	}
	t.Fatal("no definition of MachineConfiguration")
}

func TestNumbers(t *testing.T) {
	for name, want := range map[string]int32{
		"gpu-v1": 1, "gpu-v10": 10, "gpu-v2147483647": 2147483647, "gpu-v0": 0, "gpu-v01": 0, "gpu-v-1": 0, "gpu-v": 0, "gpu": 0,
		"gpu-v+1": 0, "gpu-v2147483648": 0, "cpu-v1": 0, "gpu-v1-v2": 0,
	} {
		got, ok := Number("gpu", name)
		if got != want || ok != (want != 0) {
			t.Errorf("%s: %d %v, want %d", name, got, ok, want)
		}
		if ok && Name("gpu", got) != name {
			t.Errorf("%s comes back as %s", name, Name("gpu", got))
		}
	}
}

// M33: what is a reference, and what is none.
func TestM33_References(t *testing.T) {
	three := int32(3)
	ref := func(name string, version int32) *hostsv1.VersionReference {
		return &hostsv1.VersionReference{Name: hostsv1.ConfigurationName(name), Version: version}
	}
	machines := []hostsv1.HostMachine{
		{Spec: hostsv1.HostMachineSpec{ConfigurationRef: &hostsv1.ConfigurationReference{Name: "gpu", Version: &three}}},
		{Spec: hostsv1.HostMachineSpec{ConfigurationRef: &hostsv1.ConfigurationReference{Name: "gpu"}}},
		{Status: hostsv1.HostMachineStatus{Configuration: &hostsv1.ConfigurationStatus{
			Desired:  ref("gpu", 9),
			Assigned: &hostsv1.AssignedVersion{VersionReference: *ref("gpu", 5)},
			Applied:  &hostsv1.AppliedVersion{VersionReference: *ref("gpu", 4)},
			Previous: ref("gpu", 1),
		}}},
		{Status: hostsv1.HostMachineStatus{Configuration: &hostsv1.ConfigurationStatus{
			Assigned: &hostsv1.AssignedVersion{VersionReference: *ref("cpu", 2)},
			Applied:  &hostsv1.AppliedVersion{VersionReference: *ref("gpu", 4)},
		}}},
		{Status: hostsv1.HostMachineStatus{Rollout: &hostsv1.MachineRollout{VersionReference: *ref("gpu", 7), Stage: hostsv1.RolloutDraining}}},
		{Status: hostsv1.HostMachineStatus{Rollout: &hostsv1.MachineRollout{VersionReference: *ref("gpu", 8), Stage: hostsv1.RolloutSkipped}}},
	}
	if diff := cmp.Diff(refs(1, 3, 4, 5, 7), References("gpu", machines)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(refs(2), References("cpu", machines)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestObserve(t *testing.T) {
	limit, yes := int32(3), true
	c := &hostsv1.MachineConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "u"},
		Spec:       hostsv1.MachineConfigurationSpec{Template: *template(nil), RevisionHistoryLimit: &limit},
		Status:     hostsv1.MachineConfigurationStatus{LatestVersion: 4, PendingVersion: &hostsv1.PendingVersion{Number: 4}},
	}
	version := func(name, owner string, change func(*hostsv1.MachineConfigurationVersion)) hostsv1.MachineConfigurationVersion {
		v := hostsv1.MachineConfigurationVersion{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       hostsv1.MachineConfigurationVersionSpec{Template: *template(nil)},
		}
		if owner != "" {
			v.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: &yes}}
		}
		if change != nil {
			change(&v)
		}
		return v
	}
	now := metav1.Now()
	got := Observe(c, []hostsv1.MachineConfigurationVersion{
		version("gpu-v1", "u", func(v *hostsv1.MachineConfigurationVersion) { v.Status.Deployed = true }),
		version("gpu-v2", "earlier", nil),
		version("gpu-v3", "", func(v *hostsv1.MachineConfigurationVersion) { v.DeletionTimestamp = &now }),
		version("gpu-v4", "u", func(v *hostsv1.MachineConfigurationVersion) { v.Status.Hash = "sha256:0" }),
		version("gpu-v5", "u", nil),
		version("gpu-west-v1", "u", nil),
	}, refs(1))
	hash := Hash(template(nil))
	want := State{
		Template: hash, Latest: 4, Pending: 4, HistoryLimit: 3, Referenced: refs(1),
		Versions: []Version{
			{Number: 1, Recorded: true, Deployed: true, Template: hash},
			{Number: 2, Foreign: true, Template: hash},
			{Number: 3, Foreign: true, Deleting: true, Template: hash},
			{Number: 4, Recorded: true, Template: hash},
			{Number: 5, Template: hash},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c.Spec.RevisionHistoryLimit = nil
	if got := Observe(c, nil, nil); got.HistoryLimit != 10 || !strings.HasPrefix(string(got.Template), "sha256:") {
		t.Errorf("observed %+v of a configuration without a limit", got)
	}
}
