package preflight_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/preflight"
)

func TestFor(t *testing.T) {
	oci := func(reference string) *nstancev1.MachineImage {
		return &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Oci{Oci: &nstancev1.MachineOciImage{Reference: reference}}}
	}
	archive := func(url string) *nstancev1.MachineImage {
		return &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Archive{Archive: &nstancev1.MachineArchive{Url: url}}}
	}
	mirror := &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Debootstrap{Debootstrap: &nstancev1.MachineDebootstrap{Mirror: "http://deb.example.com/debian"}}}
	for _, tt := range []struct {
		image *nstancev1.MachineImage
		want  string
	}{
		{nil, ""},
		{oci("registry.example.com:5000/a/b:1"), "https://registry.example.com:5000/v2/"},
		{oci("localhost/a"), "https://localhost/v2/"},
		{oci("debian:12"), "https://registry-1.docker.io/v2/"},
		{oci("docker.io/library/debian"), "https://registry-1.docker.io/v2/"},
		{oci("user/app"), "https://registry-1.docker.io/v2/"},
		{archive("https://files.example.com/a.tar?signature=secret"), "https://files.example.com/"},
		{archive(""), ""},
		{mirror, "http://deb.example.com/"},
	} {
		targets, _ := preflight.For(&nstancev1.MachineAssignment{Template: &nstancev1.MachineTemplate{Image: tt.image}})
		var want []preflight.Source
		if tt.want != "" {
			want = []preflight.Source{{Address: tt.want}}
		}
		if diff := cmp.Diff(want, targets.ImageSources); diff != "" {
			t.Errorf("%v is asked at:\n%s", tt.image, diff)
		}
	}
	mirrored := &nstancev1.MachineTemplate{Image: oci("debian"), Machine: &nstancev1.MachineSettings{Registries: []*nstancev1.MachineRegistry{
		{Host: "docker.io", Mirrors: []*nstancev1.MachineMirror{{Url: "https://m.example.com/v2/hub", CaBundle: "ca"}, {Url: "x"}}},
		{Host: "registry.example.com", Mirrors: []*nstancev1.MachineMirror{{Url: "https://other.example.com"}}},
	}}}
	got, _ := preflight.For(&nstancev1.MachineAssignment{Template: mirrored})
	if diff := cmp.Diff([]preflight.Source{{"https://m.example.com/", "ca"}, {Address: "https://registry-1.docker.io/v2/"}}, got.ImageSources); diff != "" {
		t.Errorf("mirrors are asked at:\n%s", diff)
	}

	targets, wants := preflight.For(nil)
	if diff := cmp.Diff(preflight.Targets{Modules: []string{"overlay", "br_netfilter"}}, targets); diff != "" {
		t.Errorf("targets without an assignment:\n%s", diff)
	}
	if diff := cmp.Diff(preflight.Wants{Modules: []string{"overlay", "br_netfilter"}}, wants); diff != "" {
		t.Errorf("wants without an assignment:\n%s", diff)
	}
	targets, wants = preflight.For(&nstancev1.MachineAssignment{
		ApiServer: &nstancev1.MachineApiServer{Endpoint: "https://api.example.com", CaBundle: "ca"},
		Template: &nstancev1.MachineTemplate{
			Kubernetes: &nstancev1.MachineKubernetes{KubeletConfig: "failSwapOn: false"}, Host: &nstancev1.MachineHostSettings{KernelModules: []string{"ip_vs", "overlay"}},
		},
	})
	modules := []string{"overlay", "br_netfilter", "ip_vs"}
	if diff := cmp.Diff(preflight.Targets{APIServer: "https://api.example.com", CABundle: "ca", Modules: modules}, targets); diff != "" {
		t.Errorf("targets:\n%s", diff)
	}
	if diff := cmp.Diff(preflight.Wants{SwapAllowed: true, Modules: modules}, wants); diff != "" {
		t.Errorf("wants:\n%s", diff)
	}
}
