//go:build hostnodes

package hosts_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	repaves   = 10
	repavedIn = 60 * time.Second // the median
	reusedIn  = 15 * time.Second
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

// expectContent: the machine that runs was built from that content, and no other one runs.
func (w *nodeWorld) expectContent(want string) {
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
func (w *nodeWorld) onHost(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--mount", "--target", fmt.Sprint(w.box.holder.Process.Pid), "--"}, args...)...)
}

// runPod runs a Pod on the Node, and deletes it.
func (w *nodeWorld) runPod(name string) {
	w.t.Helper()
	w.end(w.run(name, corev1.ResourceRequirements{}))
}

// expectNoToken: what a kubelet joins with stands in no file that the paver has written, but for that of
// the kubelet, and in nothing that was logged (M43).
func (w *nodeWorld) expectNoToken() {
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

func (w *nodeWorld) report(what string, took []time.Duration) {
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
