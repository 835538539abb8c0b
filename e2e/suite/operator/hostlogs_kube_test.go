//go:build kube && operator

package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/agent/paver"
	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/executor"
	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/journal"
	paverlogs "nstance.dev/agent/paver/logs"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/render"
	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// tree is an image that is one directory.
type tree string

// Fetch implements host.Images, as do the next ones.
func (tree) Fetch(context.Context, *nstancev1.MachineAssignment, *nstancev1.MachineCredential) error {
	return nil
}

// Root implements host.Images.
func (d tree) Root(context.Context, *nstancev1.MachineAssignment, *nstancev1.MachineCredential) (string, func(), error) {
	return string(d), func() {}, nil
}

// Install implements host.Images: nothing is added to it.
func (tree) Install(context.Context, *nstancev1.MachineAssignment, string) ([]artifact.File, error) {
	return nil, nil
}

// Size implements host.Images.
func (tree) Size(*nstancev1.MachineAssignment) (image.Size, error) {
	return image.Size{Bytes: 1 << 20, Unpacked: true}, nil
}

// Trim implements host.Images.
func (tree) Trim(context.Context) error { return nil }

// Clear implements host.Images.
func (tree) Clear() error { return nil }

// marked is what a program on the host has logged, and nobody may read.
const marked = "hunter2-marked-6b1"

// journalctl answers as that of a host and of its machine does, with an entry for each unit that is asked for.
func journalctl(_ context.Context, slot journal.Slot, out io.Writer, args ...string) error {
	where := "host"
	if slot != journal.None {
		where = "machine"
	}
	for _, arg := range args {
		unit, is := strings.CutPrefix(arg, "--unit=")
		if !is {
			continue
		}
		line, err := json.Marshal(map[string]string{
			"__REALTIME_TIMESTAMP": strconv.FormatInt(time.Now().UnixMicro(), 10), "_SYSTEMD_UNIT": unit, "SYSLOG_IDENTIFIER": "x", "_PID": "42",
			"MESSAGE": fmt.Sprintf("said by %s of the %s; password=%s", unit, where, marked),
		})
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newBuilt is a host that builds its machine of an image that is there, and offers what the executor of a real one does.
func newBuilt(t *testing.T, allowed string) *rebooting {
	t.Helper()
	h := newBare(t)
	h.policy, h.users = allowed, []string{"admin", "other"}
	h.must(os.MkdirAll(filepath.Join(h.dir, "image/usr/bin"), 0o755))
	h.must(os.WriteFile(filepath.Join(h.dir, "image/usr/bin/kubelet"), nil, 0o755)) //nolint:gosec // a program
	h.images = tree(filepath.Join(h.dir, "image"))
	h.must(os.WriteFile(filepath.Join(h.dir, "root/etc/resolv.conf"), []byte("nameserver 192.0.2.1\n"), 0o600))
	h.must(os.WriteFile(filepath.Join(h.dir, "root/proc/sys/kernel/panic"), []byte("0\n"), 0o600))
	h.network = func(_ context.Context, argv ...string) ([]byte, error) {
		switch {
		case argv[0] == "nft":
			return nil, exec.ErrNotFound
		case slices.Contains(argv, "link"):
			return []byte(`[{"ifname":"lo"}]`), nil
		}
		return []byte("[]"), nil
	}
	parsed, err := policy.Parse([]byte(allowed))
	h.must(err)
	h.executor = func(of *host.Host) paver.Executor {
		return executor.New(executor.Options{
			Machines: of, Runner: h.runner, Journalctl: journalctl, Log: slog.New(slog.DiscardHandler), Policy: func() (policy.Policy, error) { return parsed, nil },
		})
	}
	h.begin()
	return h
}

// join has the kubelet of a host's machine make its Node, and say that it is there until the test ends.
func (w *hostWorld) join(t *testing.T, id string, h *rebooting) {
	t.Helper()
	var boot string
	w.awaitMachine(t, id, "its machine runs", func(m *hostsv1.HostMachine) error {
		for slot := range h.runner.Runs() {
			if s, err := h.runner.State(t.Context(), slot); err != nil || s.BootID != "" {
				boot = s.BootID
				return err
			}
		}
		return fmt.Errorf("phase %s, conditions %+v", m.Status.Phase, m.Status.Conditions)
	})
	m := &hostsv1.HostMachine{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: id}, m); err != nil {
		t.Fatal(err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.NodeName()}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
	w.make(t, n)
	beat := func(ctx context.Context) error {
		now := time.Now().UTC().Format(time.RFC3339)
		patch := fmt.Sprintf(`{"status":{"nodeInfo":{"bootID":%q},"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q}]}}`, boot, now)
		return w.admin.Status().Patch(ctx, n.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json", []byte(patch)))
	}
	if err := beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Second):
				_ = beat(ctx)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	w.awaitMachine(t, id, "its Node has joined", func(m *hostsv1.HostMachine) error {
		if c := m.Status.Configuration; c == nil || c.Applied == nil || m.Status.NodeRef == nil || m.Status.NodeRef.UID == "" {
			return fmt.Errorf("phase %s, conditions %+v", m.Status.Phase, m.Status.Conditions)
		}
		return nil
	})
}

// ended waits until an operation is complete, and returns its results.
func (w *hostWorld) ended(t *testing.T, name string) map[string]hostsv1.ParameterValue {
	t.Helper()
	o := &hostsv1.MachineOperation{}
	kube.Await(t, name+" is complete", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
			return err
		}
		if o.Status.State != hostsv1.OperationComplete {
			return fmt.Errorf("%s/%s: %s", o.Status.State, o.Status.Reason, o.Status.Message)
		}
		return nil
	})
	return o.Status.Results
}

// M56, M75, M79, M86, M100: from the objects to the proof, through operator, server, agent and the paver of a host. The logs that are
// asked for are in the storage under the key that the result says, are listed and shown by nstance-admin, and what looks like
// a secret is masked before it leaves the host; the SSH keys of the template are in the files of the host's users before the Node has
// the labels, and nothing is built anew. What is counted of it the dashboard shows.
func TestM56M75M79M86M100_LogsAndKeysOfAHost(t *testing.T) {
	h := newBuilt(t, "allow: {pave: true, operations: [collectLogs, applyConfiguration]}\nssh: {users: [admin]}\n")
	s := startHostingOn(t, []shards.Option{shards.ReportInterval(2 * time.Second), shards.UserData(h.userData())})
	scheme := runtime.NewScheme()
	admin, err := client.New(s.Admin(), client.Options{Scheme: scheme})
	if err := errors.Join(err, hostsv1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &hostWorld{hostCourt: &hostCourt{cluster: s.Cluster}, admin: admin}
	c := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	c.Spec.MachineSelector = &hostsv1.MachineSelector{}
	c.Spec.Template = hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "registry.example.com/node:1", Digest: hostsv1.SHA256("sha256:" + strings.Repeat("a", 64))}},
		Kubernetes: hostsv1.Kubernetes{Version: "v1.36.0"},
	}
	w.make(t, c)
	s.ground.powerOff(t, func(string) bool { return true }) // no instance is a Node by itself
	s.shards.UpsertGroup("a", "metal", 1)
	id := w.awaitHost(t, "")
	w.join(t, id, h)

	collect := func(name string) (key string) {
		t.Helper()
		o := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.Spec.MachineRef, o.Spec.OperationName = &hostsv1.MachineReference{Name: hostsv1.Label(id)}, hostsv1.OperationCollectLogs
		o.Spec.Parameters = map[string]hostsv1.ParameterValue{"since": "30m", "units": "kubelet,containerd"}
		w.make(t, o)
		return string(w.ended(t, name)["key"])
	}
	key := collect("logs")
	if !strings.HasPrefix(key, "hostlog/a/"+hostTenant+"."+id+".") {
		t.Errorf("key %q", key)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), box.Binary(t, "nstance-admin"), append(append([]string{"cluster", "hostlog"}, args...), strings.Fields(s.shards.StorageFlags())...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("nstance-admin cluster hostlog %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	if got := run("list", "--instance", id, "-o", "name"); got != key+"\n" {
		t.Errorf("stored are %q, want %q", got, key)
	}
	text := run("get", key)
	for _, want := range []string{"said by kubelet of the host", "said by containerd of the host", "said by kubelet of the machine", paverlogs.Masked} {
		if !strings.Contains(text, want) {
			t.Errorf("the logs do not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, marked) {
		t.Errorf("a password is in the logs:\n%s", text)
	}

	var seen seenPanels
	seen.scrape(t, s)
	if again := collect("again"); run("list", "--instance", id, "-o", "name") != again+"\n"+key+"\n" {
		t.Errorf("after another operation, with key %s, stored are %q", again, run("list"))
	}

	file := func(user string) string {
		text, err := os.ReadFile(filepath.Join(h.dir, "root", render.SSHDir, user))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	const line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA admin@desk"
	boots := slices.DeleteFunc(h.runner.Calls(), func(call string) bool { return !strings.HasPrefix(call, "Boot ") })
	if file("admin") != "" {
		t.Fatalf("there are keys already: %q", file("admin"))
	}
	w.edit(t, func(spec *hostsv1.MachineConfigurationSpec) {
		spec.Template.Host = &hostsv1.HostSettings{SSHKeys: []hostsv1.SSHUser{
			{User: "admin", Keys: []hostsv1.SSHKey{line}}, {User: "other", Keys: []hostsv1.SSHKey{line}},
		}}
		spec.Template.Kubernetes.NodeLabels = map[string]hostsv1.LabelValue{"tier": "b"}
	})
	w.awaitMachine(t, id, "a repave would build version 2", func(m *hostsv1.HostMachine) error {
		if d := m.Status.Configuration.Desired; d == nil || d.Version != 2 {
			return fmt.Errorf("desired %+v", d)
		}
		return nil
	})
	w.ask(t, "keys", id, hostsv1.OperationApplyConfiguration)
	results := w.ended(t, "keys")
	n := &corev1.Node{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: id}, n); err != nil {
		t.Fatal(err)
	}
	if file("admin") != line+"\n" || file("other") != "" || n.Labels["tier"] != "b" || results["refused"] != "other" {
		t.Errorf("keys of admin %q, of other %q; labels %v; results %v", file("admin"), file("other"), n.Labels, results)
	}
	if now := slices.DeleteFunc(h.runner.Calls(), func(call string) bool { return !strings.HasPrefix(call, "Boot ") }); !slices.Equal(now, boots) {
		t.Errorf("booted %v, and %v before", now, boots)
	}
	seen.scrape(t, s)
	seen.scrape(t, s)
	seen.evaluate(t, s, "nstance_machines_", 8, map[string]string{
		"Nodes that were deleted: time until they are back (p50)": "no Node is deleted",
		"Rollouts: machines":         "the strategy is OnDelete",
		"Rollouts that have halted":  "the strategy is OnDelete",
		"NstanceRolloutHalted":       "the strategy is OnDelete",
		"NstancePrebuildNotEnded":    "nothing is to be prepared",
		"Machines that are prepared": "nothing is to be prepared",
	})
}
