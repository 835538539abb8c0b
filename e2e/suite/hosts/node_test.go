//go:build hostnodes

package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

const (
	repaves     = 10
	repavedIn   = 60 * time.Second // the median
	reusedIn    = 15 * time.Second
	podsAreGone = 2 * time.Minute
)

// TestM36M39M46M49_TheLifeOfANode: a host with a real kubelet joins a real control plane, runs Pods, and is
// repaved ten times with a changed template, back to the first version, and into the slot that still
// holds what is wanted.
func TestM36M39M46M49_TheLifeOfANode(t *testing.T) {
	w := newWorld(t)
	w.configure(w.template("1"))
	t.Logf("measured: the first node joined after %v", w.joined("", 1).Round(100*time.Millisecond))
	w.runPod("first")

	var took []time.Duration
	version := int32(1)
	for i := range repaves {
		version++
		w.configure(w.template(fmt.Sprint(version)))
		w.knows(version)
		was := w.deleteNode()
		took = append(took, w.joined(was, version))
		w.expectContent(fmt.Sprint(version))
		if i == 0 {
			w.runPod("second")
		}
	}
	w.report("template edited, Node deleted", took)
	if median := median(took); median > repavedIn {
		t.Errorf("the Node was back after %v, more than %v, as the median of %d", median, repavedIn, repaves)
	}

	w.want(1)
	was := w.deleteNode()
	back := w.joined(was, 1)
	w.expectContent("1")
	t.Logf("measured: back at version 1 after %v", back.Round(100*time.Millisecond))
	if back > repavedIn {
		t.Errorf("M36: back at version 1 after %v, more than %v", back, repavedIn)
	}

	took = nil
	for _, other := range []int32{version, 1, version} { // each time what the other slot holds
		w.want(other)
		was = w.deleteNode()
		took = append(took, w.joined(was, other))
		w.expectContent(fmt.Sprint(other))
	}
	w.report("Node deleted, slot used again", took)
	if median := median(took); median > reusedIn {
		t.Errorf("M39: with a slot used again the Node was back after %v, more than %v", median, reusedIn)
	}
	w.runPod("last")
	w.expectNoToken()
}

// TestM57M59M60_TheOldNodeComesBack: with an image whose digest is another one, with a disk that is full and with a
// kubelet that does not join, the Node of before is back, from the version of before.
func TestM57M59M60_TheOldNodeComesBack(t *testing.T) {
	w := newWorld(t)
	w.configure(w.template("1"))
	w.joined("", 1)
	boot := w.node().Status.NodeInfo.BootID

	template := w.template("2")
	template.Image.Archive.SHA256 = hostsv1.SHA256("sha256:" + strings.Repeat("2", 64))
	w.configure(template)
	w.knows(2)
	was := w.deleteNode()
	w.gaveUp("FetchFailed")
	w.joined(was, 1)
	w.sameBoot(boot)

	full := w.box.path("machines/full")
	if out, err := w.onHost("sh", "-c", "fallocate --length $(($(df --output=avail --block-size=1 "+w.box.path("machines")+" | tail -1) - 50000000)) "+full).CombinedOutput(); err != nil {
		t.Fatalf("fill the disk: %v: %s", err, out)
	}
	w.configure(w.template("3"))
	w.knows(3)
	was = w.deleteNode()
	w.gaveUp("BuildFailed")
	w.joined(was, 1)
	w.sameBoot(boot)
	if out, err := w.onHost("rm", full).CombinedOutput(); err != nil {
		t.Fatalf("free the disk: %v: %s", err, out)
	}

	template = w.template("4")
	template.Timeouts.Join = "20s"
	template.Machine.Files = append(template.Machine.Files, hostsv1.File{
		Path: "/etc/systemd/system/kubelet.service.d/60-hang.conf", Content: "[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n", Mode: "0644",
	})
	w.configure(template)
	w.knows(4)
	was = w.deleteNode()
	w.gaveUp(hostsv1.ReasonReverted)
	w.joined(was, 1)
	if now := w.node().Status.NodeInfo.BootID; now == boot {
		t.Errorf("the machine was not stopped: its boot is still %s", boot)
	}
	w.expectContent("1")
}

// TestM51M52_DeletedWhileEverybodyIsDown: a Node that is deleted while operator, server and agent do nothing is
// missed once they work again; while the API server is away nothing is touched.
func TestM51M52_DeletedWhileEverybodyIsDown(t *testing.T) {
	w := newWorld(t)
	w.configure(w.template("1"))
	w.joined("", 1)
	boot := w.node().Status.NodeInfo.BootID

	if err := w.cluster.Stop(kube.APIServer); err != nil {
		t.Fatal(err)
	}
	time.Sleep(30 * time.Second)
	if err := w.cluster.Start(t.Context(), kube.APIServer); err != nil {
		t.Fatal(err)
	}
	w.joined("", 1)
	w.sameBoot(boot)

	w.operator.Kill()
	w.shards.Kill(shard)
	w.signalAgent(syscall.SIGSTOP)
	was := w.deleteNode()
	w.shards.Start(shard)
	w.signalAgent(syscall.SIGCONT)
	w.startOperator()
	w.joined(was, 1)
	if now := w.node().Status.NodeInfo.BootID; now == boot {
		t.Errorf("the Node came back without a repave: its boot is still %s", boot)
	}
}

// knows waits until a repave would build a version.
func (w *world) knows(version int32) {
	w.t.Helper()
	kube.Await(w.t, fmt.Sprintf("version %d is what a repave builds", version), func(context.Context) error {
		if c := w.host().Status.Configuration; c == nil || c.Desired == nil || c.Desired.Version != version {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// gaveUp waits until a repave was given up, and a user can see why.
func (w *world) gaveUp(reason string) {
	w.t.Helper()
	kube.AwaitFor(w.t, 10*time.Minute, "the repave is given up: "+reason, func(context.Context) error {
		c := meta.FindStatusCondition(w.host().Status.Conditions, hostsv1.ConditionRepaveFailed)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
			return fmt.Errorf("RepaveFailed is %+v", c)
		}
		w.t.Logf("RepaveFailed: %s: %s", c.Reason, c.Message)
		return nil
	})
}

func (w *world) sameBoot(boot string) {
	w.t.Helper()
	if now := w.node().Status.NodeInfo.BootID; now != boot {
		w.t.Errorf("the machine was stopped: its boot is %s, before %s", now, boot)
	}
}

// expectContent: the machine that runs was built from that content, and no other one runs.
func (w *world) expectContent(want string) {
	w.t.Helper()
	all := w.box.supervisors()
	if len(all) != 1 {
		w.t.Fatalf("%v run", all)
	}
	for slot := range all {
		out, err := w.onHost("cat", w.box.path("machines/"+slot.Machine()+"/etc/content")).CombinedOutput()
		if err != nil || string(out) != want {
			w.t.Errorf("the content of %s is %q, %v; want %s", slot, out, err, want)
		}
	}
}

// onHost is a command that sees the file systems of the host.
func (w *world) onHost(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--mount", "--target", fmt.Sprint(w.box.holder.Process.Pid), "--"}, args...)...)
}

// runPod runs a Pod on the Node, until it is ready with an address of its own, and deletes it.
func (w *world) runPod(name string) {
	w.t.Helper()
	no := false
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			Containers:                   []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10", ImagePullPolicy: corev1.PullNever}},
		},
	}
	kube.Await(w.t, "Pod "+name+" is taken", func(ctx context.Context) error { // once there is the service account of its namespace
		return client.IgnoreAlreadyExists(w.admin.Create(ctx, p.DeepCopy()))
	})
	kube.Await(w.t, "Pod "+name+" runs", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if !ready || p.Spec.NodeName != w.machine || !strings.HasPrefix(p.Status.PodIP, "10.244.0.") {
			return fmt.Errorf("on %q with address %q: %+v", p.Spec.NodeName, p.Status.PodIP, p.Status.Conditions)
		}
		return nil
	})
	if err := w.admin.Delete(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	kube.AwaitFor(w.t, podsAreGone, "Pod "+name+" is gone", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(p), p); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("it exists, or %w", err)
		}
		return nil
	})
}

// signalAgent sends a signal to the agent of the host.
func (w *world) signalAgent(signal syscall.Signal) {
	w.t.Helper()
	out, err := exec.Command("pgrep", "--ns", strconv.Itoa(os.Getpid()), "--nslist", "net", "--full", "--exact", ".*/nstance-agent").Output()
	pids := strings.Fields(string(out))
	if err != nil || len(pids) != 1 {
		w.t.Fatalf("agents: %q, %v", pids, err)
	}
	if err := syscall.Kill(atoi(w.t, pids[0]), signal); err != nil {
		w.t.Fatal(err)
	}
}

// expectNoToken: what a kubelet joins with stands in no file that the paver has written, but for that of
// the kubelet, and in nothing that was logged (M43).
func (w *world) expectNoToken() {
	w.t.Helper()
	if _, err := os.Stat(w.box.path("state/journal.json")); err != nil {
		w.t.Fatal(err)
	}
	// A token of a service account begins with the same bytes each time: those of its header.
	out, err := exec.Command("grep", "--recursive", "--files-with-matches", "--extended-regexp", `eyJ[A-Za-z0-9_-]{20,}\.eyJ[A-Za-z0-9_-]{20,}\.`, w.box.path("state"), w.box.path("log")).Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		w.t.Errorf("a token is in %s, or %v", out, err)
	}
}

func (w *world) report(what string, took []time.Duration) {
	w.t.Helper()
	var text []string
	for _, d := range took {
		text = append(text, fmt.Sprintf("%.1fs", d.Seconds()))
	}
	w.t.Logf("measured: %s, ready after p50 %.1fs of %d: %s", what, median(took).Seconds(), len(took), strings.Join(text, " "))
}

func median(of []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
