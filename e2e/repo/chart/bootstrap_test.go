package chart_test

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/repo/chart"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/demand/jointoken"
	"nstance.dev/operator/demand/bootstrap"
)

// bootstrapOf are values of demand mode with a template and the files that those of the chart need.
func bootstrapOf(template string) values {
	return values{"enabled": true, "bootstrapTemplate": template, "bootstrapFiles": values{"endpoint": "192.0.2.10:6443", "ca-hash": "sha256:00ff"}}
}

// TestTheBootstrapTemplateReachesTheOperator: it is mounted where the flag says, as a directory that
// follows its ConfigMap, and is one that the operator parses. Tokens are made for those that need them.
func TestTheBootstrapTemplateReachesTheOperator(t *testing.T) {
	const file = "/etc/nstance/bootstrap/bootstrap.tmpl"
	for _, tt := range []struct {
		name     string
		template string
		more     values
		want     config.DemandBootstrap
	}{
		{"kubeadm", "kubeadm", nil, config.DemandBootstrap{TemplateFile: file, JoinTokenLife: 30 * time.Minute, JoinTokenGroups: []string{"system:bootstrappers:kubeadm:default-node-token"}}},
		{"k3s", "k3s", nil, config.DemandBootstrap{TemplateFile: file, JoinTokenLife: 30 * time.Minute, JoinTokenGroups: []string{"system:bootstrappers:k3s:default-node-token"}}},
		{
			"one of its own", "#!/bin/sh\nexec join {{ bootstrapToken | quote }}\n", values{"joinToken": values{"life": "2h", "groups": []any{"system:bootstrappers:a", "system:bootstrappers:b"}}},
			config.DemandBootstrap{TemplateFile: file, JoinTokenLife: 2 * time.Hour, JoinTokenGroups: []string{"system:bootstrappers:a", "system:bootstrappers:b"}},
		},
		{
			"one without tokens", "#!/bin/sh\n# not bootstrapToken\nexec join {{ quote .Vars.secret }}\n", nil,
			config.DemandBootstrap{TemplateFile: file, JoinTokenGroups: []string{"system:bootstrappers:kubeadm:default-node-token"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := least(values{"demand": bootstrapOf(tt.template)}, values{"demand": tt.more})
			if diff := cmp.Diff(tt.want, settings(t, v).Demand.Bootstrap); diff != "" {
				t.Error(diff)
			}
			pod, r := operator(t, v), render(t, v)
			mount := pod.Containers[0].VolumeMounts[slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "bootstrap" })]
			volume := pod.Volumes[slices.IndexFunc(pod.Volumes, func(o corev1.Volume) bool { return o.Name == "bootstrap" })]
			if mount.MountPath != path.Dir(file) || mount.SubPath != "" || !mount.ReadOnly {
				t.Errorf("it is mounted as %+v", mount)
			}
			data := as[corev1.ConfigMap](t, find(t, r, "ConfigMap", volume.ConfigMap.Name)).Data
			parsed, err := bootstrap.Parse("bootstrap.tmpl", data[path.Base(file)])
			if err != nil {
				t.Fatal(err)
			}
			if parsed.UsesToken() != (tt.want.JoinTokenLife > 0) {
				t.Errorf("the template uses tokens: %v; their life is %v", parsed.UsesToken(), tt.want.JoinTokenLife)
			}
			if data["endpoint"] != "192.0.2.10:6443" || data["ca-hash"] != "sha256:00ff" || !strings.HasPrefix(data[path.Base(file)], "#!/bin/sh\n") {
				t.Errorf("files %v", data)
			}
		})
	}
}

// TestJoinTokensAreDeletedByName: the chart computes the names of all tokens as the operator does, so that it
// can delete no other Secret of kube-system. It can read none.
func TestJoinTokensAreDeletedByName(t *testing.T) {
	r := render(t, least(values{"demand": bootstrapOf("kubeadm"), "config": values{"tenant": "red"}}))
	var rules []rbacv1.PolicyRule
	for _, o := range r.Objects {
		if o.GetKind() == "Role" && o.GetNamespace() == metav1.NamespaceSystem {
			rules = append(rules, as[rbacv1.Role](t, o).Rules...)
		}
	}
	names := jointoken.Names("example", "red")
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"delete"}, ResourceNames: names},
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Error(diff)
	}
}

// TestBootstrapValuesThatCannotWorkAreRefused, and the message says what to write.
func TestBootstrapValuesThatCannotWorkAreRefused(t *testing.T) {
	for _, tt := range []struct {
		values values
		want   string
	}{
		{values{"bootstrapTemplate": "kubeadmin"}, `"kubeadmin" must be kubeadm, k3s or the text of a template`},
		{values{"bootstrapTemplate": "kubeadm"}, "demand.bootstrapFiles.endpoint: the template kubeadm needs it"},
		{values{"bootstrapTemplate": "k3s", "bootstrapFiles": values{"endpoint": "a:1"}}, "demand.bootstrapFiles.ca-hash: the template k3s needs it"},
		{values{"joinToken": values{"groups": []any{"system:masters"}}}, "does not match pattern"},
		{values{"bootstrapFiles": values{"bootstrap.tmpl": "x"}}, "invalid propertyName 'bootstrap.tmpl'"},
	} {
		tt.values["enabled"] = true
		if _, err := chart.Render(dir, chart.Release{Name: "r", Namespace: "n"}, least(values{"demand": tt.values})); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.values, err, tt.want)
		}
	}
}
