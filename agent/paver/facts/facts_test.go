package facts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/facts"
)

// host makes a root directory with files.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRead_NameServers(t *testing.T) {
	const stub, upstream = "nameserver 127.0.0.53\noptions edns0\n", "nameserver 192.0.2.1\n"
	for _, tt := range []struct {
		name      string
		files     map[string]string
		own, pods string
	}{
		{"servers elsewhere", map[string]string{"etc/resolv.conf": upstream}, upstream, upstream},
		{"a resolver of the host", map[string]string{"etc/resolv.conf": stub, "run/systemd/resolve/resolv.conf": upstream}, stub, upstream},
		{"a resolver of the host alone", map[string]string{"etc/resolv.conf": stub}, stub, stub},
		{"both kinds", map[string]string{"etc/resolv.conf": stub + upstream, "run/systemd/resolve/resolv.conf": "x"}, stub + upstream, stub + upstream},
		{"a resolver on IPv6", map[string]string{"etc/resolv.conf": "nameserver ::1\n", "run/systemd/resolve/resolv.conf": upstream}, "nameserver ::1\n", upstream},
		{"none", map[string]string{"etc/resolv.conf": "# none\n", "run/systemd/resolve/resolv.conf": upstream}, "# none\n", "# none\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := facts.Read(nil, facts.Options{Root: host(t, tt.files)})
			if err != nil {
				t.Fatal(err)
			}
			if got.ResolvConf != tt.own || got.PodResolvConf != tt.pods {
				t.Errorf("own %q, for Pods %q", got.ResolvConf, got.PodResolvConf)
			}
		})
	}
}

func TestRead_NameServersAreNotThere(t *testing.T) {
	for _, files := range []map[string]string{{}, {"etc/resolv.conf": strings.Repeat("#", 64<<10+1)}} {
		if got, err := facts.Read(nil, facts.Options{Root: host(t, files)}); err == nil {
			t.Errorf("got %v", got)
		}
	}
}

// TestRead_Paths: what exists is known with where it leads to, and nothing else is.
func TestRead_Paths(t *testing.T) {
	root := host(t, map[string]string{"etc/resolv.conf": "", "srv/data/x": "", "dev/nofile": "", "etc/shadow": ""})
	for link, target := range map[string]string{"srv/link": "data", "srv/out": "../etc/shadow", "srv/dangling": "nothing"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	template := &nstancev1.MachineTemplate{Machine: &nstancev1.MachineSettings{
		Binds: []*nstancev1.MachineBind{
			{Source: "/srv/data/"}, {Source: "/srv/link/x"}, {Source: "/srv/out"}, {Source: "/srv/dangling"}, {Source: "/srv/gone"}, {Source: "/srv/../etc/shadow"}, {Source: "srv"},
		},
		Devices: []string{"/dev/nofile", "/dev/no*", "/dev/gone", "/etc/shadow"},
	}}
	got, err := facts.Read(template, facts.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"/srv/data": "/srv/data", "/srv/link/x": "/srv/data/x", "/srv/out": "/etc/shadow"}
	if diff := cmp.Diff(want, got.Paths); diff != "" {
		t.Errorf("paths:\n%s", diff)
	}
}

// TestRead_Devices of this host, which has at least the one that swallows everything.
func TestRead_Devices(t *testing.T) {
	template := &nstancev1.MachineTemplate{Machine: &nstancev1.MachineSettings{Devices: []string{"/dev/nul[l]", "/dev/zero", "/dev/pts", "/dev/nothing*"}}}
	got, err := facts.Read(template, facts.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/lib/modules", "/etc/needrestart/conf.d", "/etc/apt/apt.conf.d"} {
		delete(got.Paths, dir)
	}
	if diff := cmp.Diff(map[string]string{"/dev/null": "/dev/null", "/dev/zero": "/dev/zero"}, got.Paths); diff != "" {
		t.Errorf("paths:\n%s", diff)
	}
}

func TestUsers(t *testing.T) {
	template := &nstancev1.MachineTemplate{Host: &nstancev1.MachineHostSettings{SshKeys: []*nstancev1.MachineSshUser{{User: "admin"}, {User: "gone"}, {User: "root"}}}}
	exists := func(name string) bool { return name != "gone" }
	if diff := cmp.Diff([]string{"admin", "root"}, facts.Users(template, facts.Options{UserExists: exists})); diff != "" {
		t.Errorf("users:\n%s", diff)
	}
	if got := facts.Users(template, facts.Options{}); len(got) == 0 || got[len(got)-1] != "root" {
		t.Errorf("this host has %v", got)
	}
}
