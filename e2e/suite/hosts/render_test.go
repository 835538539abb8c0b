//go:build hosts

package hosts_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/inroot"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/manifest"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/runner/direct"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func bundle(t *testing.T) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestM91M92M98_RenderedMachine: systemd-nspawn and systemd read in what is rendered what was meant,
// also where texts have characters that mean something to them; what was written is as it was
// written once the machine runs.
func TestM91M92M98_RenderedMachine(t *testing.T) {
	const name, node = "rendered-a", "node-1.example.com"
	machines := trees(t, name)
	tree, shared := filepath.Join(machines, name), filepath.Join(t.TempDir(), `a:b\c d%n$x`)
	providerID := `x://%n/$HOME/${A}/"'\\/100%`
	variables := map[string]string{"SPACED": ` a  b `, "QUOTED": `say "it"`, "SINGLE": `it's`, "ODD": `%n $HOME \n \`, "EMPTY": ""}
	for _, err := range []error{
		os.Mkdir(shared, 0o755), os.WriteFile(filepath.Join(shared, "x"), []byte("shared"), 0o644),
		// It stands for a kubelet, and says how it was called.
		os.WriteFile(filepath.Join(tree, "usr/local/bin/kubelet"), []byte("#!/bin/sh\nfor a; do printf '%s\\n' \"$a\"; done >/run/called\nexec sleep infinity\n"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a := &nstancev1.MachineAssignment{
		MachineName: "m", NodeName: node, ProviderId: providerID, Epoch: 3, Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE,
		Configuration: &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: 2, Hash: "sha256:" + strings.Repeat("0", 64)},
		ApiServer:     &nstancev1.MachineApiServer{Endpoint: "https://192.0.2.1:6443", CaBundle: bundle(t)},
		Node:          &nstancev1.MachineNodeSettings{Labels: map[string]string{"tier": "group"}},
		Template: &nstancev1.MachineTemplate{
			Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3", NodeLabels: map[string]string{"tier": "template", "x": "y"}},
			Machine: &nstancev1.MachineSettings{
				Binds: []*nstancev1.MachineBind{
					{Source: shared, Target: `/srv/t:u\v w%n$x`}, {Source: shared, Target: "/srv/fixed", ReadOnly: true}, {Source: shared + "-gone", Target: "/srv/gone", IfPresent: true},
				},
				Devices: []string{"/dev/nul[l]"}, Environment: variables,
				Units: []*nstancev1.MachineUnit{{Name: "say.service", Content: "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/cp /etc/say /run/said\n[Install]\nWantedBy=multi-user.target\n", Enable: true}},
				Files: []*nstancev1.MachineFile{{Path: "/etc/say", Content: "hello", Mode: 0o600}},
			},
		},
	}
	host, err := facts.Read(a.GetTemplate(), facts.Options{})
	if err != nil {
		t.Fatal(err)
	}
	host.Machine = name
	plan, err := render.Render(a, host, &nstancev1.MachineCredential{Epoch: 3, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, tree, plan.Of(render.Slot))
	for _, f := range plan.Of(render.OnHost) {
		if f.Path != render.NspawnFile(name) {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), os.WriteFile(f.Path, []byte(f.Content), 0o644)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(f.Path); err != nil {
				t.Error(err)
			}
		})
	}

	r := direct.New(direct.Options{Machines: machines, Logs: t.TempDir(), Name: func(journal.Slot) string { return name }})
	if err := r.Boot(t.Context(), journal.A); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Kill(context.WithoutCancel(t.Context()), journal.A); err != nil {
			t.Error(err)
		}
		expectNothingLeft(t, name)
	})
	run := func(argv ...string) string {
		t.Helper()
		out, err := r.Exec(t.Context(), journal.A, argv...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out.Text)
	}
	for what, check := range map[string]struct {
		argv []string
		want string
	}{
		"a bind":            {[]string{"cat", `/srv/t:u\v w%n$x/x`}, "shared"},
		"a bind to read":    {[]string{"sh", "-c", "touch /srv/fixed/y 2>&1 | grep -o 'Read-only file system'"}, "Read-only file system\n"},
		"no missing bind":   {[]string{"sh", "-c", "ls -d /srv/gone 2>&1 | grep -o 'No such'"}, "No such\n"},
		"the host name":     {[]string{"hostname"}, node + "\n"},
		"the messages":      {[]string{"readlink", "/dev/kmsg"}, "/dev/console\n"},
		"a mask":            {[]string{"systemctl", "is-enabled", "systemd-resolved"}, "masked\n"},
		"the kubelet":       {[]string{"systemctl", "is-active", "kubelet"}, "active\n"},
		"a template's unit": {[]string{"cat", "/run/said"}, "hello"},
		"the secret's mode": {[]string{"stat", "-c", "%a %U", render.BootstrapKubeconfig}, "600 root\n"},
	} {
		if got := run(check.argv...); got != check.want {
			t.Errorf("%s: %q, want %q", what, got, check.want)
		}
	}
	want := []string{
		"--config=/etc/kubernetes/kubelet.yaml", "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=/var/lib/kubelet/kubeconfig",
		"--hostname-override=" + node, "--node-labels=tier=group,x=y", "--provider-id=" + providerID,
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(run("cat", "/run/called")), "\n")); diff != "" {
		t.Errorf("the kubelet was called with:\n%s", diff)
	}
	environment := strings.Split(run("cat", "/proc/1/environ"), "\x00")
	for name, value := range variables {
		if !slices.Contains(environment, name+"="+value) {
			t.Errorf("the environment has no %s=%s: %q", name, value, environment)
		}
	}
	if got := run("cat", "/etc/machine-id"); len(strings.TrimSpace(got)) != 32 {
		t.Errorf("the machine made no id of its own: %q", got)
	}

	drift, err := manifest.Of(plan.Of(render.Slot)).Compare(t.Context(), manifest.Roots{render.Slot: tree})
	if err != nil || drift.Total > 0 {
		t.Errorf("a machine that has just booted differs from what was written: %v, %v", drift.Drift, err)
	}
	run("sh", "-c", "echo nameserver 192.0.2.9 >/etc/resolv.conf; echo bye >>/etc/say; rm /etc/crictl.yaml")
	drift, err = drift.Manifest.Compare(t.Context(), manifest.Roots{render.Slot: tree})
	if err != nil || drift.Total != 2 || drift.Drift[0].GetPath() != "/etc/crictl.yaml" || drift.Drift[1].GetPath() != "/etc/say" {
		t.Errorf("after changes in the machine: %v, %v", drift.Drift, err)
	}
}

// write puts files of a plan into a tree.
func write(t *testing.T, tree string, files []render.File) {
	t.Helper()
	root, err := inroot.Open(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, f := range files {
		if f.Link != "" {
			err = root.Link(f.Path, f.Link)
		} else {
			err = root.File(f.Path, []byte(f.Content), fs.FileMode(f.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
