package render_test

import (
	"slices"
	"strings"
	"testing"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/render"
)

// argument is the value of a flag of the kubelet; empty: it has none.
func argument(t *testing.T, plan render.Plan, name string) string {
	t.Helper()
	unit := content(t, plan, render.Slot, "/etc/systemd/system/kubelet.service")
	_, rest, _ := strings.Cut(unit, `"--`+name+"=")
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// TestM91_TheGroupWins: labels and taints come from template and group, and on the same key the
// group's are registered.
func TestM91_TheGroupWins(t *testing.T) {
	taint := func(key, value, effect string) *nstancev1.MachineTaint {
		return &nstancev1.MachineTaint{Key: key, Value: value, Effect: effect}
	}
	for _, tt := range []struct {
		name                           string
		template, group                map[string]string
		ofTemplate, ofGroup, ofStartup []*nstancev1.MachineTaint
		labels, taints                 string
	}{
		{name: "nothing"},
		{name: "the template alone", template: map[string]string{"b": "2", "a": "1"}, ofTemplate: []*nstancev1.MachineTaint{taint("x", "1", "NoSchedule")}, labels: "a=1,b=2", taints: "x=1:NoSchedule"},
		{name: "the group alone", group: map[string]string{"a": ""}, ofGroup: []*nstancev1.MachineTaint{taint("x", "", "NoExecute")}, labels: "a=", taints: "x=:NoExecute"},
		{name: "both, with other keys", template: map[string]string{"b": "2"}, group: map[string]string{"a": "1"},
			ofTemplate: []*nstancev1.MachineTaint{taint("y", "", "NoSchedule")}, ofGroup: []*nstancev1.MachineTaint{taint("x", "", "NoSchedule")},
			labels: "a=1,b=2", taints: "x=:NoSchedule,y=:NoSchedule"},
		{name: "the same key", template: map[string]string{"a": "template"}, group: map[string]string{"a": "group"},
			ofTemplate: []*nstancev1.MachineTaint{taint("x", "template", "NoSchedule")}, ofGroup: []*nstancev1.MachineTaint{taint("x", "group", "NoSchedule")},
			labels: "a=group", taints: "x=group:NoSchedule"},
		{name: "the same key with another effect", ofTemplate: []*nstancev1.MachineTaint{taint("x", "", "NoExecute")},
			ofGroup: []*nstancev1.MachineTaint{taint("x", "", "NoSchedule")}, taints: "x=:NoSchedule"},
		{name: "a key that is there only at first", ofTemplate: []*nstancev1.MachineTaint{taint("x", "1", "NoSchedule")},
			ofStartup: []*nstancev1.MachineTaint{taint("x", "2", "NoSchedule")}, taints: "x=2:NoSchedule"},
		{name: "labels that kubelets may set", template: map[string]string{"node.kubernetes.io/tier": "a", "topology.kubernetes.io/zone": "b", "kubelet.kubernetes.io/x": "c"},
			labels: "kubelet.kubernetes.io/x=c,node.kubernetes.io/tier=a,topology.kubernetes.io/zone=b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := rendered(t, set(func(a *nstancev1.MachineAssignment, m *nstancev1.MachineTemplate) {
				m.Kubernetes.NodeLabels, m.Kubernetes.Taints = tt.template, tt.ofTemplate
				a.Node = &nstancev1.MachineNodeSettings{Labels: tt.group, Taints: tt.ofGroup, StartupTaints: tt.ofStartup}
			}), host(), nil)
			if got := argument(t, plan, "node-labels"); got != tt.labels {
				t.Errorf("labels are %s, want %s", got, tt.labels)
			}
			if got := argument(t, plan, "register-with-taints"); got != tt.taints {
				t.Errorf("taints are %s, want %s", got, tt.taints)
			}
		})
	}
}

// TestM92_PushedFilesAreSeenAndNotChanged: files that the server pushes reach the machine by a bind
// alone, and only to be read.
func TestM92_PushedFilesAreSeenAndNotChanged(t *testing.T) {
	h := host()
	h.Paths[render.RecvDir], h.Paths[render.RecvDir+"/app"] = render.RecvDir, render.RecvDir+"/app"
	for _, source := range []string{render.RecvDir, render.RecvDir + "/app", render.RecvDir + "/./app/"} {
		_, err := render.Render(set(bind(&nstancev1.MachineBind{Source: source, Target: "/etc/app"})), h, nil)
		if err == nil || !strings.Contains(err.Error(), "machine.binds[0].readOnly: must be true") {
			t.Errorf("%s can be changed: %v", source, err)
		}
		plan := rendered(t, set(bind(&nstancev1.MachineBind{Source: source, Target: "/etc/app", ReadOnly: true})), h, nil)
		if got := content(t, plan, render.OnHost, render.NspawnFile("node-a")); !strings.Contains(got, "\nBindReadOnly=/opt/nstance-agent/recv") {
			t.Errorf("%s is not bound:\n%s", source, got)
		}
	}
}

// TestM99_MirrorsInOrder: mirrors are asked in the order of the template; nothing ever skips
// verification.
func TestM99_MirrorsInOrder(t *testing.T) {
	plan := rendered(t, full(), fullHost(), credential())
	hosts := content(t, plan, render.Slot, "/etc/containerd/certs.d/docker.io/hosts.toml")
	order := []int{strings.Index(hosts, "mirror.example.com"), strings.Index(hosts, "harbor.example.com"), strings.Index(hosts, "192.0.2.7")}
	if !slices.IsSorted(order) || order[0] < 0 {
		t.Errorf("mirrors are not in order:\n%s", hosts)
	}
	for _, f := range plan.Files {
		if strings.Contains(f.Content, "skip_verify") || strings.Contains(f.Content, "insecure") {
			t.Errorf("%v skips verification", f)
		}
	}
}

// TestM100_KeysOfAllowedUsersAlone: keys are written for users that the host allows, and sshd reads
// them only then.
func TestM100_KeysOfAllowedUsersAlone(t *testing.T) {
	written := func(allowed ...string) []string {
		h := fullHost()
		h.SSHUsers = allowed
		var paths []string
		for _, f := range rendered(t, full(), h, nil).Of(render.OnHost) {
			if strings.Contains(f.Path, "ssh") {
				paths = append(paths, f.Path)
			}
		}
		return paths
	}
	if got := written(); got != nil {
		t.Errorf("nobody is allowed, and %v is written", got)
	}
	if got := written("nobody"); got != nil {
		t.Errorf("somebody else is allowed, and %v is written", got)
	}
	want := []string{"/etc/nstance/ssh/admin", "/etc/ssh/sshd_config.d/50-nstance.conf"}
	if got := written("admin"); !slices.Equal(got, want) {
		t.Errorf("written is %v, want %v", got, want)
	}
}

// TestHostPaths: a reset knows every path that was ever written.
func TestHostPaths(t *testing.T) {
	known := render.HostPaths("node-a", "node-b")
	for _, machine := range []string{"node-a", "node-b"} {
		h := fullHost()
		h.Machine, h.SSHUsers = machine, []string{"admin", "other"}
		for _, f := range rendered(t, full(), h, credential()).Of(render.OnHost) {
			if !slices.ContainsFunc(known, func(p string) bool { return p == f.Path || strings.HasSuffix(p, "/") && strings.HasPrefix(f.Path, p) }) {
				t.Errorf("%v is not known", f)
			}
		}
	}
}

// TestSwapAllowed: only the kubelet's own switch lets it start with swap.
func TestSwapAllowed(t *testing.T) {
	for config, want := range map[string]bool{
		"": false, "maxPods: 3": false, "failSwapOn: true": false, "failSwapOn: false": true, "{failSwapOn: False}": true, `failSwapOn: "false"`: false, "failSwapOn: [": false,
	} {
		if got := render.SwapAllowed(&nstancev1.MachineTemplate{Kubernetes: &nstancev1.MachineKubernetes{KubeletConfig: config}}); got != want {
			t.Errorf("%q: %t", config, got)
		}
	}
}
