package inplace

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func template(labels map[string]hostsv1.LabelValue, taints ...hostsv1.Taint) *hostsv1.Template {
	return &hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "node:1"}},
		Kubernetes: hostsv1.Kubernetes{Version: "v1.36.3", NodeLabels: labels, Taints: taints},
	}
}

func gpu(value hostsv1.LabelValue) hostsv1.Taint {
	return hostsv1.Taint{Key: "gpu", Value: value, Effect: corev1.TaintEffectNoSchedule}
}

// M56: labels and taints are changed where the Node has them as they were applied, one change after the other, and nothing
// that somebody else has set.
func TestM56_LabelsAndTaintsInPlace(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"tier": "a", "old": "x", "group": "wins", "foreign": "y"}}}
	node.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "one", Effect: corev1.TaintEffectNoSchedule}, {Key: "cordon", Effect: corev1.TaintEffectNoSchedule}}
	built := template(map[string]hostsv1.LabelValue{"tier": "a", "old": "x", "group": "loses"}, gpu("one"))
	step := func(wanted *hostsv1.Template, changed, kept string) {
		t.Helper()
		d, err := Decide(node, built, wanted, nil, true)
		if err != nil || strings.Join(d.Changed, ", ") != changed || strings.Join(d.Kept, ", ") != kept || (d.Node != nil) != (changed != "") {
			t.Fatalf("%v: %+v", err, d)
		}
		if d.Node != nil {
			node = d.Node
		}
	}
	step(template(map[string]hostsv1.LabelValue{"tier": "b", "new": "z", "group": "again"}, gpu("two")), "label new, label old, label tier, taint gpu:NoSchedule", "label group")
	step(template(map[string]hostsv1.LabelValue{"tier": "b", "new": "z", "group": "again"}, gpu("two")), "", "label group")
	node.Labels["new"] = "changed by hand"
	step(template(map[string]hostsv1.LabelValue{"tier": "c", "group": "again"}), "label tier, taint gpu:NoSchedule", "label group, label new")
	want := map[string]string{"tier": "c", "new": "changed by hand", "group": "wins", "foreign": "y"}
	for key, value := range want {
		if node.Labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, node.Labels[key], value)
		}
	}
	if len(node.Labels) != len(want) || len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "cordon" {
		t.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
	}
	node.Annotations[Annotation] = "{"
	if _, err := Decide(node, built, built, nil, true); err == nil {
		t.Error("an annotation that cannot be read is taken for one")
	}
}

// M56, M91: what the group sets wins over the template, before and after: it stays, whatever the template says of it, and
// although it says the same as the template did.
func TestM56M91_WhatTheGroupSetsStays(t *testing.T) {
	settings := &nstancev1.NodeSettings{
		Labels:        map[string]string{"tier": "a", "zone": "z"},
		Taints:        []*nstancev1.NodeTaint{{Key: "gpu", Value: "one", Effect: "NoSchedule"}},
		StartupTaints: []*nstancev1.NodeTaint{{Key: "starting", Effect: "NoExecute"}},
	}
	starting := hostsv1.Taint{Key: "starting", Effect: corev1.TaintEffectNoExecute}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"tier": "a", "own": "1"}}}
	node.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "one", Effect: corev1.TaintEffectNoSchedule}}
	built := template(map[string]hostsv1.LabelValue{"tier": "a", "own": "1"}, gpu("one"))
	for _, tt := range []struct {
		name          string
		wanted        *hostsv1.Template
		changed, kept string
	}{
		{"the template drops them", template(map[string]hostsv1.LabelValue{"own": "1"}), "", ""},
		{"the template says otherwise", template(map[string]hostsv1.LabelValue{"tier": "b", "own": "2"}, gpu("two")), "label own", "label tier, taint gpu:NoSchedule"},
		{"the template adds what the group has since", template(map[string]hostsv1.LabelValue{"tier": "a", "own": "1", "zone": "y"}, gpu("one"), starting), "", "label zone, taint starting:NoExecute"},
	} {
		d, err := Decide(node, built, tt.wanted, settings, true)
		if err != nil || strings.Join(d.Changed, ", ") != tt.changed || strings.Join(d.Kept, ", ") != tt.kept {
			t.Errorf("%s: %+v, %v", tt.name, d, err)
		}
	}
}

// M56: everything else takes a repave, and is listed; nothing is changed then.
func TestM56_WhatTakesARepaveIsListed(t *testing.T) {
	built, wanted := template(nil), template(map[string]hostsv1.LabelValue{"tier": "b"})
	wanted.Kubernetes.Version, wanted.Image.OCI.Reference = "v1.36.4", "node:2"
	wanted.Host = &hostsv1.HostSettings{Sysctls: map[string]hostsv1.SettingValue{"vm.swappiness": "1"}}
	d, err := Decide(&corev1.Node{}, built, wanted, nil, true)
	if want := []string{"host.sysctls", "image.oci", "kubernetes.version"}; err != nil || !slices.Equal(d.Repave, want) || d.Node != nil || d.Changed != nil {
		t.Errorf("%+v, %v", d, err)
	}
	explicit := template(nil)
	explicit.Kubernetes.ClusterDomain = "cluster.local"
	if d, err := Decide(&corev1.Node{}, built, explicit, nil, true); err != nil || d.Repave != nil || d.Node != nil {
		t.Errorf("a default that is written out differs: %+v, %v", d, err)
	}
}

// M56: what an operation says of each machine.
func TestM56_Carry(t *testing.T) {
	version := func(n int32, template *hostsv1.Template) *hostsv1.MachineConfigurationVersion {
		v := &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{Name: map[int32]string{1: "gpu-v1", 2: "gpu-v2", 3: "gpu-v3"}[n]}}
		v.Spec.ConfigurationName, v.Spec.Version, v.Spec.Template = "gpu", n, *template
		return v
	}
	other := template(nil)
	other.Kubernetes.Version = "v1.36.4"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: map[string]string{"tier": "a"}}}
	api := testworld.NewClientBuilder(t).WithObjects(
		version(1, template(map[string]hostsv1.LabelValue{"tier": "a"})), version(2, template(map[string]hostsv1.LabelValue{"tier": "b"})), version(3, other), node).Build()
	known := true
	settings := func(*hostsv1.HostMachine) (*nstancev1.NodeSettings, bool) { return nil, known }
	a := &Applier{Versions: api, Nodes: api, Group: settings, Host: &paver{}}
	op := &hostsv1.MachineOperation{}
	carry := func(desired int32, uid string) string {
		t.Helper()
		m := &hostsv1.HostMachine{}
		m.Status.NodeRef = &hostsv1.NodeReference{Name: "n1", UID: uid}
		ref := hostsv1.VersionReference{Name: "gpu", Version: 1}
		m.Status.Configuration = &hostsv1.ConfigurationStatus{Applied: &hostsv1.AppliedVersion{VersionReference: ref}, Desired: &hostsv1.VersionReference{Name: "gpu", Version: desired}}
		o, err := a.Carry(t.Context(), op, m)
		switch {
		case err != nil:
			return err.Error()
		case o.Failed:
			return o.Reason + ": " + o.Message
		}
		return o.Message + ": " + o.Results["changed"]
	}
	for _, tt := range []struct {
		desired    int32
		uid, want  string
		disruptive hostsv1.ParameterValue
	}{
		{1, "u1", "labels, taints and SSH keys of version 1 of gpu: ", ""},
		{2, "u2", "NotJoined: Node n1 is another one", ""},
		{2, "u1", "labels, taints and SSH keys of version 2 of gpu: label tier", ""},
		{2, "u1", "labels, taints and SSH keys of version 2 of gpu: ", ""},
		{3, "u1", "NeedsRepave: these fields take a repave: kubernetes.version", ""},
		{3, "u1", "NeedsRepave: these fields take a repave: kubernetes.version", "true"}, // which another one begins
		{4, "u1", "gpu-v4", ""},
	} {
		op.Spec.Parameters = map[string]hostsv1.ParameterValue{"disruptive": tt.disruptive}
		if got := carry(tt.desired, tt.uid); !strings.Contains(got, tt.want) {
			t.Errorf("to version %d: %q, want %q", tt.desired, got, tt.want)
		}
	}
	known = false
	if got := carry(1, "u1"); !strings.Contains(got, "its shard has not said all that it knows") {
		t.Errorf("while the group is not known: %q", got)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || node.Labels["tier"] != "b" {
		t.Errorf("labels %v, %v", node.Labels, err)
	}
	if o, err := a.Carry(t.Context(), op, &hostsv1.HostMachine{}); err != nil || o.Reason != ReasonNotJoined {
		t.Errorf("without a Node: %+v, %v", o, err)
	}
}

// paver is that of a host, which sets SSH keys if it offers to.
type paver struct {
	offers  []string
	outcome *operations.Outcome
	asked   []map[string]hostsv1.ParameterValue
}

func (p *paver) Offers(*hostsv1.HostMachine) []string { return p.offers }

func (p *paver) Carry(_ context.Context, op *hostsv1.MachineOperation, _ *hostsv1.HostMachine) (*operations.Outcome, error) {
	p.asked = append(p.asked, op.Spec.Parameters)
	return p.outcome, nil
}

func withKeys(keys ...hostsv1.SSHUser) *hostsv1.Template {
	t := template(nil)
	if keys != nil {
		t.Host = &hostsv1.HostSettings{SSHKeys: keys}
	}
	return t
}

// M56, M100: what the host is sent of keys, and when: where they are others than were set last, as built or in place.
func TestM56M100_KeysInPlace(t *testing.T) {
	admin := func(keys ...hostsv1.SSHKey) hostsv1.SSHUser { return hostsv1.SSHUser{User: "admin", Keys: keys} }
	long := hostsv1.SSHKey("ssh-rsa " + strings.Repeat("A", 1000))
	node := &corev1.Node{}
	built := withKeys(admin("k1", "k2"))
	step := func(what string, wanted *hostsv1.Template, keys map[string]string) {
		t.Helper()
		d, err := Decide(node, built, wanted, nil, true)
		if err != nil || !maps.Equal(d.Keys, keys) || (d.Keys == nil) != (keys == nil) || (d.Node != nil) != (keys != nil) {
			t.Fatalf("%s: %+v, %v; want %v", what, d, err, keys)
		}
		if d.Node != nil {
			node = d.Node
		}
	}
	step("as it was built", built, nil)
	step("a key less", withKeys(admin("k2")), map[string]string{"sshKeys.admin.0": "k2"})
	step("again", withKeys(admin("k2")), nil)
	step("none", withKeys(), map[string]string{})
	step("as it was built, once more", built, map[string]string{"sshKeys.admin.0": "k1\nk2"})
	step("a user twice", withKeys(admin("k1"), admin("k2")), map[string]string{"sshKeys.admin.0": "k1", "sshKeys.admin.1": "k2"})
	step("more than a parameter takes", withKeys(admin(long, long, long, long, long), hostsv1.SSHUser{User: "b", Keys: []hostsv1.SSHKey{"k"}}), map[string]string{
		"sshKeys.admin.0": strings.Join([]string{string(long), string(long), string(long), string(long)}, "\n"), "sshKeys.admin.1": string(long), "sshKeys.b.0": "k",
	})
	node.Annotations[Annotation] = `{}` // of a release before
	step("of a release before", built, nil)
	if d, err := Decide(node, built, withKeys(), nil, false); err != nil || !slices.Equal(d.Repave, []string{"host.sshKeys"}) || d.Keys != nil || d.Node != nil {
		t.Errorf("a host that does not set keys: %+v, %v", d, err)
	}
	var many []hostsv1.SSHUser
	for i := range 8 {
		many = append(many, hostsv1.SSHUser{User: string(rune('a' + i)), Keys: slices.Repeat([]hostsv1.SSHKey{long}, 32)})
	}
	if d, err := Decide(node, built, withKeys(many...), nil, true); err != nil || !slices.Equal(d.Repave, []string{"host.sshKeys"}) {
		t.Errorf("more than an operation takes: %+v, %v", d, err)
	}
}

// M56, M86, M100: the Node is changed once its host has set the keys, and not at all if that refuses.
func TestM56M86_CarryKeys(t *testing.T) {
	version := func(n int32, template *hostsv1.Template) *hostsv1.MachineConfigurationVersion {
		v := &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("gpu-v", n)}}
		v.Spec.ConfigurationName, v.Spec.Version, v.Spec.Template = "gpu", n, *template
		return v
	}
	wanted := withKeys(hostsv1.SSHUser{User: "admin", Keys: []hostsv1.SSHKey{"k1"}})
	wanted.Kubernetes.NodeLabels = map[string]hostsv1.LabelValue{"tier": "b"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}
	api := testworld.NewClientBuilder(t).WithObjects(version(1, template(nil)), version(2, wanted), node).Build()
	host := &paver{}
	a := &Applier{Versions: api, Nodes: api, Host: host, Group: func(*hostsv1.HostMachine) (*nstancev1.NodeSettings, bool) { return nil, true }}
	m := &hostsv1.HostMachine{}
	m.Status.NodeRef = &hostsv1.NodeReference{Name: "n1", UID: "u1"}
	m.Status.Configuration = &hostsv1.ConfigurationStatus{
		Applied: &hostsv1.AppliedVersion{VersionReference: hostsv1.VersionReference{Name: "gpu", Version: 1}}, Desired: &hostsv1.VersionReference{Name: "gpu", Version: 2},
	}
	op := &hostsv1.MachineOperation{}
	op.Spec.Parameters = map[string]hostsv1.ParameterValue{"disruptive": "false"}
	expect := func(what, reason string, over bool, asked int, label string) {
		t.Helper()
		o, err := a.Carry(t.Context(), op, m)
		if err != nil || (o != nil) != over || o != nil && o.Reason != reason || len(host.asked) != asked {
			t.Errorf("%s: %+v, %v; asked %d times", what, o, err, len(host.asked))
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || node.Labels["tier"] != label {
			t.Errorf("%s: labels %v, %v", what, node.Labels, err)
		}
	}
	expect("a host that does not set keys", ReasonNeedsRepave, true, 0, "")
	host.offers = []string{hostsv1.OperationApplyConfiguration}
	expect("the host works on it", "", false, 1, "")
	host.outcome = &operations.Outcome{Failed: true, Reason: hostsv1.ReasonRefusedByHost}
	expect("the host refuses", hostsv1.ReasonRefusedByHost, true, 2, "")
	host.outcome = &operations.Outcome{Results: map[string]string{"sshKeys": "admin"}}
	expect("the keys are set", "", true, 3, "b")
	expect("again", "", true, 3, "b")
	want := map[string]hostsv1.ParameterValue{"sshKeys.admin.0": "k1"}
	if !maps.Equal(host.asked[2], want) || op.Spec.Parameters["disruptive"] != "false" {
		t.Errorf("the host was asked for %v", host.asked[2])
	}
}
