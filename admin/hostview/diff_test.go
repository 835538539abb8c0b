package hostview_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/admin/hostview"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func TestDiff(t *testing.T) {
	with := func(change func(*hostsv1.Template)) *hostsv1.Template {
		template := &hostsv1.Template{
			Image: hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "node:1"}},
			Kubernetes: hostsv1.Kubernetes{
				Version: "v1.36.3",
				Taints:  []hostsv1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Effect: "NoExecute"}},
			},
			Machine: &hostsv1.NodeMachine{Files: []hostsv1.File{{Path: "/a", Content: "one\ntwo\nthree\n"}, {Path: "/b", Content: "b"}}},
			Host:    &hostsv1.HostSettings{Sysctls: map[string]hostsv1.SettingValue{"net.ipv4.ip_forward": "1"}},
		}
		change(template)
		return template
	}
	same := with(func(*hostsv1.Template) {})
	for name, c := range map[string]struct {
		to   *hostsv1.Template
		want []string
	}{
		"nothing":               {to: same},
		"a text":                {with(func(t *hostsv1.Template) { t.Kubernetes.Version = "v1.36.4" }), []string{"~ kubernetes.version: v1.36.3 -> v1.36.4"}},
		"what was not there":    {with(func(t *hostsv1.Template) { t.Kubernetes.ClusterDomain = "x" }), []string{"+ kubernetes.clusterDomain: x"}},
		"what goes":             {with(func(t *hostsv1.Template) { t.Host = nil }), []string{"- host.sysctls[net.ipv4.ip_forward]: 1"}},
		"a file by its path":    {with(func(t *hostsv1.Template) { t.Machine.Files = t.Machine.Files[1:] }), []string{"~ machine.files[/a].content:", "  @ line 1", "  - one", "  - two", "  - three", "  - ", "- machine.files[/a].path: /a"}},
		"lines of a text":       {with(func(t *hostsv1.Template) { t.Machine.Files[0].Content = "one\n2\nthree\n" }), []string{"~ machine.files[/a].content:", "  @ line 2", "  - two", "  + 2"}},
		"the end of a line":     {with(func(t *hostsv1.Template) { t.Machine.Files[1].Content = "b\n" }), []string{"~ machine.files[/b].content:", "  @ line 2", "  + "}},
		"one of equal names":    {with(func(t *hostsv1.Template) { t.Kubernetes.Taints[1].Effect = "PreferNoSchedule" }), []string{"~ kubernetes.taints[a#2].effect: NoExecute -> PreferNoSchedule"}},
		"an order that is none": {with(func(t *hostsv1.Template) { f := t.Machine.Files; f[0], f[1] = f[1], f[0] }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			differences, err := hostview.Diff(same, c.to)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range hostview.Lines(differences) {
				got = append(got, "  "[:2*l.Depth]+l.Text)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
